//! A client certificate and its key, which prove to a server who connects.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files that hold them, in PEM. They are read at every connection attempt of an upstream, so that a renewed
/// certificate is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by the certificates that lead to its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Identity {
    pub(crate) fn read(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let wrong = |path: &Path, error: &dyn std::fmt::Display| {
            io::Error::other(format!("cannot read the client certificate in {}: {error}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate);
        let chain = chain.map_err(|error| wrong(&self.certificate, &error))?.collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| wrong(&self.certificate, &error))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificate, &"it holds no certificate"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key, &error))?;
        Ok((chain, key))
    }
}
