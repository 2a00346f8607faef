//! How every HTTPS connection of Toolyard is opened: through the proxy that `HTTPS_PROXY` names unless `NO_PROXY`
//! excludes the host, checked against the certificates of the system or of `SSL_CERT_FILE`, and with the client
//! certificate of a server that has one in the config.
//!
//! Plain HTTP is not sent through a proxy: it reaches servers on this machine or in the local network.

mod identity;
mod wait;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use tokio::net::TcpStream;
use tower_service::Service;

pub use identity::Identity;
pub use wait::retry_after;

type Failure = Box<dyn Error + Send + Sync>;

/// Opens TCP connections, directly or through a proxy.
#[derive(Clone)]
pub struct Dialer {
    tcp: HttpConnector,
    proxies: Arc<Matcher>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    /// A connector with the proxies that the environment names.
    pub fn from_env() -> Self {
        Self { tcp: tcp(), proxies: Arc::new(Matcher::from_env()) }
    }

    fn proxy(&self, url: &Uri) -> Option<Intercept> {
        (url.scheme_str() == Some("https")).then(|| self.proxies.intercept(url)).flatten()
    }
}

/// Opens TCP connections without a proxy.
pub fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(Duration::from_mins(1)));
    tcp
}

/// Opens TLS connections, with this client certificate if there is one. The system's certificates are read here.
pub fn https(identity: Option<&Identity>) -> io::Result<HttpsConnector<Dialer>> {
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config(identity)?)
        .https_only()
        .enable_http1()
        .wrap_connector(Dialer::from_env()))
}

/// A connector for HTTPS that also opens plain connections for `http://` addresses.
pub fn https_or_http() -> io::Result<HttpsConnector<Dialer>> {
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config(None)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(Dialer::from_env()))
}

fn config(identity: Option<&Identity>) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(io::Error::other)?.with_native_roots()?;
    match identity {
        Some(identity) => {
            let (chain, key) = identity.read()?;
            let with_key = builder.with_client_auth_cert(chain, key);
            with_key
                .map_err(|error| io::Error::other(format!("the client certificate cannot be used: {error}")))
        }
        None => Ok(builder.with_no_client_auth()),
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let Some(proxy) = self.proxy(&url) else {
            let connecting = self.tcp.call(url);
            return Box::pin(async { Ok(connecting.await?) });
        };
        if proxy.uri().scheme_str() != Some("http") {
            let address = proxy.uri().host().unwrap_or_default().to_owned();
            let why =
                format!("the proxy at {address} is not reached by http://, and no other kind is supported");
            return Box::pin(async { Err(why.into()) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let name =
            proxy.uri().authority().map(|at| at.as_str().rsplit('@').next().unwrap_or_default().to_owned());
        let opening = tunnel.call(url);
        Box::pin(async move {
            let failed = |error| format!("through the proxy {}: {error}", name.unwrap_or_default());
            opening.await.map_err(|error| failed(error).into())
        })
    }
}
