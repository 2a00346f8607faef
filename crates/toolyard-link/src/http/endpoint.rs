//! One HTTP address with its pool of connections: sends requests, and says clearly when it cannot.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryFutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use toolyard_model::Scope;
use toolyard_proto::CallError;

use super::HttpSpec;
use super::connector::Connector;
use super::wire::Arriving;
use super::wires::{SendError, Wires};

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

pub(crate) struct Endpoint {
    pub(crate) name: Arc<str>,
    wires: Wires,
    url: Uri,
    /// The URL as a request line has it.
    target: Uri,
    /// What every POST and every GET carries.
    post: HeaderMap,
    get: HeaderMap,
}

impl Endpoint {
    /// The error says what is wrong with the address.
    pub(crate) fn new(
        name: &Arc<str>,
        spec: &HttpSpec,
        limit: Duration,
        scope: &Scope,
    ) -> Result<Self, String> {
        let scheme = spec.url.scheme_str();
        if !matches!(scheme, Some("http" | "https")) || spec.url.host().is_none() {
            return Err(format!("`url` must be an http:// or https:// address, not `{}`", shown(&spec.url)));
        }
        let connector = Connector::new(&spec.url, limit)
            .map_err(|error| format!("the system's certificates could not be read: {error}"))?;
        let wires = Wires::new(connector, spec.url.clone(), scope);
        let mut get = spec.headers.clone();
        get.entry(HOST).or_insert(host(&spec.url));
        get.insert(ACCEPT, EVENTS);
        let mut post = get.clone();
        post.insert(ACCEPT, EITHER);
        post.insert(CONTENT_TYPE, JSON);
        Ok(Self { name: name.clone(), wires, url: spec.url.clone(), target: target(&spec.url), post, get })
    }

    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// The headers of a POST, to be completed.
    pub(crate) fn post_headers(&self) -> HeaderMap {
        self.post.clone()
    }

    /// The headers of a GET or DELETE, to be completed.
    pub(crate) fn get_headers(&self) -> HeaderMap {
        self.get.clone()
    }

    pub(crate) fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> {
        self.ask(self.target.clone(), method, headers, body)
    }

    /// To another address of the same server.
    pub(crate) fn send_to(
        &self,
        url: &Uri,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> {
        self.ask(target(url), method, headers, body)
    }

    fn ask(
        &self,
        target: Uri,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        self.wires.send(request).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &SendError) -> CallError {
        let (name, url) = (&self.name, self.shown_url());
        let unreached = |cause: &str| {
            format!(
                "upstream `{name}` cannot be reached at {url}: {cause}; check that it is running and that `url` \
                 is right"
            )
        };
        let failed = match error {
            SendError::Refused(cause) => CallError::unavailable(unreached(cause)),
            SendError::Unreachable(cause) => CallError::unreachable(unreached(cause)),
            SendError::Lost(cause) => self.lost(cause),
        };
        failed.at(name)
    }

    /// The connection broke after the request was on its way.
    pub(crate) fn lost(&self, cause: &str) -> CallError {
        CallError::lost(format!(
            "the connection to upstream `{}` was lost while the call was under way: {cause}; whether it was \
             carried out is not known",
            self.name
        ))
        .at(&self.name)
    }

    pub(crate) fn too_large(&self) -> CallError {
        CallError::limit(format!("the answer of upstream `{}` is over 64 MiB", self.name)).at(&self.name)
    }

    pub(crate) fn bad_answer(&self, why: &str) -> CallError {
        CallError::bad_answer(format!("upstream `{}` broke the protocol: {why}", self.name)).at(&self.name)
    }

    /// Without user info and query: those may hold secrets.
    pub(crate) fn shown_url(&self) -> String {
        shown(&self.url)
    }
}

fn shown(url: &Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!(
        "{}://{}{port}{}",
        url.scheme_str().unwrap_or_default(),
        url.host().unwrap_or_default(),
        url.path()
    )
}

fn target(url: &Uri) -> Uri {
    url.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}

fn host(url: &Uri) -> HeaderValue {
    let host = url.host().unwrap_or_default();
    let default_port = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let text = match url.port_u16() {
        Some(port) if port != default_port => format!("{host}:{port}"),
        _ => host.to_owned(),
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

/// The innermost cause says most: "connection refused", not "client error".
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
