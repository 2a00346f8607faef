//! The reasons why a connection cannot be opened, as far as the errors of the system and of TLS show it.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::{CertificateError, InvalidMessage};
use toolyard_proto::Reason;

use super::upstream::root_cause;

/// Why no connection could be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Nothing listens at the port.
    Refused(String),
    /// The other side does not speak TLS.
    NoTls,
    /// The certificate of the other side is not accepted.
    Certificate { why: String, hint: &'static str },
    /// Everything else: no route, no such host, no answer in time.
    Unreachable(String),
}

impl Obstacle {
    /// Looks through an error and its causes.
    pub(crate) fn find(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(now) = cause {
            if let Some(found) = of_tls(now) {
                return found;
            }
            let io = now.downcast_ref::<io::Error>();
            if io.is_some_and(|io| io.kind() == ErrorKind::ConnectionRefused) {
                return Self::Refused(root_cause(error));
            }
            // The inner error of an `io::Error` is not among its sources.
            let inner = io.and_then(io::Error::get_ref).map(|inner| inner as &(dyn Error + 'static));
            cause = inner.or_else(|| now.source());
        }
        Self::Unreachable(root_cause(error))
    }

    /// The reason for an upstream of this name and address.
    pub(crate) fn reason(&self, name: &str, url: &str) -> Reason {
        match self {
            Self::Refused(cause) | Self::Unreachable(cause) => {
                Reason::of_upstream(name, format!("cannot be reached at {url}"))
                    .because(cause)
                    .with_hint("check that it is running and that `url` is right")
            }
            Self::NoTls => {
                let plain = url.replacen("https://", "http://", 1);
                Reason::of_upstream(name, format!("does not speak TLS at {url}"))
                    .with_hint(format!("use {plain} as `url`"))
            }
            Self::Certificate { why, hint } => {
                Reason::of_upstream(name, format!("has a certificate that is not trusted at {url}"))
                    .because(why)
                    .with_hint(*hint)
            }
        }
    }
}

fn of_tls(error: &(dyn Error + 'static)) -> Option<Obstacle> {
    match error.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(Obstacle::NoTls),
        rustls::Error::InvalidCertificate(certificate) => Some(of_certificate(certificate)),
        _ => None,
    }
}

fn of_certificate(error: &CertificateError) -> Obstacle {
    let (why, hint) = match error {
        CertificateError::UnknownIssuer => (
            "it is from an unknown authority".to_owned(),
            "point SSL_CERT_FILE at the certificate of your CA",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "it has expired".to_owned(),
            "renew the certificate of the server, or check this machine's clock",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ("it is for another host name".to_owned(), "use the host name of the certificate in `url`")
        }
        other => (other.to_string(), "have the server use a certificate that this system trusts"),
    };
    Obstacle::Certificate { why, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_error_decides() {
        let refused = io::Error::from(ErrorKind::ConnectionRefused);
        assert!(matches!(Obstacle::find(&refused), Obstacle::Refused(_)));
        let tls = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(Obstacle::find(&io::Error::new(ErrorKind::InvalidData, tls)), Obstacle::NoTls);
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let found = Obstacle::find(&io::Error::new(ErrorKind::InvalidData, unknown));
        assert_eq!(
            found.reason("far", "https://ca.test/mcp").to_string(),
            "upstream `far` has a certificate that is not trusted at https://ca.test/mcp: it is from an unknown \
             authority; point SSL_CERT_FILE at the certificate of your CA"
        );
        assert_eq!(
            Obstacle::NoTls.reason("far", "https://a.test/mcp").to_string(),
            "upstream `far` does not speak TLS at https://a.test/mcp; use http://a.test/mcp as `url`"
        );
    }
}
