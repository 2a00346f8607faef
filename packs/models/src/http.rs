//! Requests to providers over HTTP. Answers arrive in pieces. A trait, so that tests can put a script in the place of
//! the network and run on a virtual clock.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use toolyard_dial::Dialer;
use toolyard_tool::Secret;

use crate::trouble::Trouble;

pub(crate) struct Outgoing {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) body: Bytes,
}

pub(crate) struct Incoming {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) chunks: BoxStream<'static, Result<Bytes, String>>,
}

/// What carries requests to providers.
pub(crate) trait Wire: Send + Sync + 'static {
    fn post(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, Trouble>>;
}

/// The network. Made at the first request, since the certificates of the system are read for it.
#[derive(Default)]
pub(crate) struct Network(OnceLock<Connections>);

type Connections = Client<HttpsConnector<Dialer>, Full<Bytes>>;

impl Network {
    fn connections(&self) -> Result<&Connections, Trouble> {
        if let Some(connections) = self.0.get() {
            return Ok(connections);
        }
        let connector = toolyard_dial::https_or_http()
            .map_err(|error| Trouble::Unreachable(format!("the certificates of this system: {error}")))?;
        Ok(self.0.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector)))
    }
}

impl Wire for Network {
    fn post(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, Trouble>> {
        Box::pin(async move {
            let request = request(outgoing)?;
            let response = self
                .connections()?
                .request(request)
                .await
                .map_err(|error| Trouble::Unreachable(causes(&error)))?;
            let status = response.status().as_u16();
            let retry_after = toolyard_dial::retry_after(response.headers());
            let chunks = response.into_body().into_data_stream();
            let chunks = chunks.map(|chunk| chunk.map_err(|error| causes(&error))).boxed();
            Ok(Incoming { status, retry_after, chunks })
        })
    }
}

fn request(outgoing: Outgoing) -> Result<http::Request<Full<Bytes>>, Trouble> {
    let mut request = http::Request::post(&outgoing.url)
        .header(USER_AGENT, concat!("toolyard/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream");
    for (name, value) in &outgoing.headers {
        let mut value = http::HeaderValue::from_str(value.expose()).map_err(|_| {
            Trouble::NoCredential(format!("`{name}` has characters that a header cannot have"))
        })?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request.body(Full::new(outgoing.body)).map_err(|error| Trouble::Unreachable(error.to_string()))
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
