//! Connections between nodes: TLS 1.3 in which both sides prove a key of their own (raw public keys, RFC 7250).
//!
//! There is no certificate authority. A node makes its key when it starts and publishes it in its record, which is
//! sealed with the cluster's secret; so a key is trusted if, and as long as, a node that knows the secret publishes it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// How long a connection may take, with its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The key of this node.
#[derive(Debug)]
pub(crate) struct Identity {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
    public: Vec<u8>,
}

/// The keys of all nodes that are known, with their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedKeys(Arc<Mutex<HashMap<Vec<u8>, String>>>);

impl TrustedKeys {
    fn keys(&self) -> MutexGuard<'_, HashMap<Vec<u8>, String>> {
        self.0.lock()
    }

    pub(crate) fn set(&self, keys: HashMap<Vec<u8>, String>) {
        *self.keys() = keys;
    }

    fn node(&self, key: &[u8]) -> Option<String> {
        self.keys().get(key).cloned()
    }
}

impl Identity {
    pub(crate) fn new() -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let no_key = |_| Error::General("no randomness for the key of this node".into());
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(no_key)?;
        let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
        let signer = rustls::crypto::ring::sign::any_eddsa_type(&private)?;
        let public = signer.public_key().map(|key| key.to_vec());
        let public = public.ok_or_else(|| Error::General("the key has no public half".into()))?;
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], signer));
        Ok(Self { provider, key, public })
    }

    /// The public half, as a `SubjectPublicKeyInfo`.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// Connects to a node that must prove this key.
    pub(crate) async fn connect<S>(&self, stream: S, expected: &[u8]) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let expected = TrustedKeys::default().with(expected);
        let verifier = Arc::new(Verifier { provider: self.provider.clone(), trusted: expected });
        let config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.key.clone())));
        // Keys are checked, not names; any name will do.
        let name = ServerName::try_from("node.toolyard").map_err(io::Error::other)?;
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(HANDSHAKE, handshake).await?
    }

    /// Accepts nodes whose keys are trusted.
    pub(crate) fn acceptor(&self, trusted: TrustedKeys) -> Result<NodeAcceptor, Error> {
        let verifier = Arc::new(Verifier { provider: self.provider.clone(), trusted: trusted.clone() });
        let config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.key.clone())));
        Ok(NodeAcceptor { acceptor: TlsAcceptor::from(Arc::new(config)), trusted })
    }
}

impl TrustedKeys {
    fn with(self, key: &[u8]) -> Self {
        self.keys().insert(key.to_vec(), String::new());
        self
    }
}

#[derive(Clone)]
pub(crate) struct NodeAcceptor {
    acceptor: TlsAcceptor,
    trusted: TrustedKeys,
}

impl NodeAcceptor {
    /// The stream of a node that has proven its key, and the name of that node.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(server::TlsStream<S>, String)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await??;
        let key = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let node = key.and_then(|key| self.trusted.node(key));
        let node = node.ok_or_else(|| io::Error::other("the node presented no key"))?;
        Ok((stream, node))
    }
}

/// Accepts the keys that are trusted, whatever the name.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: TrustedKeys,
}

impl Verifier {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        let is_known = self.trusted.node(key).is_some();
        if is_known { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Whether a node that expects `expected` reaches a server that trusts `trusted`.
    async fn is_connected(expected: &[u8], server: &Identity, client: &Identity, trusted: &[u8]) -> bool {
        let (near, far) = tokio::io::duplex(4096);
        let keys = TrustedKeys::default();
        keys.set(HashMap::from([(trusted.to_vec(), "client".to_owned())]));
        let acceptor = server.acceptor(keys).unwrap();
        let accepting = async {
            let (mut stream, node) = acceptor.accept(far).await.ok()?;
            assert_eq!(node, "client");
            stream.write_all(b"!").await.ok()
        };
        let connecting = async {
            let mut stream = client.connect(near, expected).await.ok()?;
            stream.read_u8().await.ok()
        };
        let (accepted, connected) = tokio::join!(accepting, connecting);
        accepted.is_some() && connected == Some(b'!')
    }

    #[tokio::test]
    async fn only_nodes_that_know_each_others_keys_are_connected() {
        let [server, client, other] = [(); 3].map(|()| Identity::new().unwrap());
        assert!(is_connected(server.public(), &server, &client, client.public()).await);
        assert!(!is_connected(other.public(), &server, &client, client.public()).await);
        assert!(!is_connected(server.public(), &server, &client, other.public()).await);
    }
}
