//! An upstream at an HTTP address: its connections, the headers that every request carries, and its errors.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{HeaderMap, Uri};
use toolyard_model::Scope;
pub(crate) use toolyard_model::headers::{LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
use toolyard_proto::{CallError, Reason};

use super::connections::{ConnectionPool, SendError};
use super::connector::Connector;
use super::obstacle::Obstacle;
use super::{Authorize, HttpSpec, Spare};
use crate::held_back::HeldBack;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Messages that are held back, besides those that the client did not ask for.
pub(super) const FOREIGN_ANSWER: &str = "an answer to another request";
pub(super) const REQUEST: &str = "a request, which modern servers must not send";
pub(super) const NO_MESSAGE: &str = "an event that is not a message";

/// The hint about a call whose answer was lost.
pub(crate) const MAY_HAVE_RUN: &str = "the call may have been carried out";
/// The hint about an address that leads to something else than an MCP endpoint.
pub(crate) const CHECK_PATH: &str = "check the path in `url`; it is often `/mcp` or `/sse`";

pub(crate) struct HttpUpstream {
    pub(crate) name: Arc<str>,
    pub(super) pool: ConnectionPool,
    url: Uri,
    /// The URL in the form of a request line.
    pub(super) target: Uri,
    /// The headers of every POST and every GET.
    post: HeaderMap,
    get: HeaderMap,
    pub(super) authorize: Option<Arc<dyn Authorize>>,
    /// Whether requests carry credentials of `authorize`, or would if there were any.
    is_guarded: AtomicBool,
    pub(super) spare: Option<Arc<Spare>>,
    pub(crate) held_back: HeldBack,
}

impl HttpUpstream {
    /// Fails if the address is invalid or no certificates can be read.
    pub(crate) fn new(
        name: &Arc<str>,
        spec: &HttpSpec,
        limit: Duration,
        scope: &Scope,
    ) -> Result<Self, Reason> {
        let scheme = spec.url.scheme_str();
        if !matches!(scheme, Some("http" | "https")) || spec.url.host().is_none() {
            let what = format!("`{}` is not an http:// or https:// address", shown(&spec.url));
            return Err(Reason::new(what).with_hint("correct `url`"));
        }
        let connector = match spec.dial.clone() {
            Some(dial) => Ok(Connector::own(dial, limit)),
            None => Connector::new(&spec.url, spec.identity.as_ref(), limit),
        };
        let connector = connector.map_err(|error| {
            if spec.identity.is_some() {
                return Reason::new("no connection can be made").because(error.to_string()).with_hint(
                    "check `client_cert` and `client_key`, two files in PEM, and the system's CA certificates",
                );
            }
            Reason::new("the system's certificates cannot be read")
                .because(error.to_string())
                .with_hint("install the system's CA certificates, or point SSL_CERT_FILE at a file of them")
        })?;
        let pool = ConnectionPool::new(connector, spec.url.clone(), scope);
        let mut get = spec.headers.clone();
        get.entry(HOST).or_insert(host(&spec.url));
        get.insert(ACCEPT, EVENTS);
        let mut post = get.clone();
        post.insert(ACCEPT, EITHER);
        post.insert(CONTENT_TYPE, JSON);
        let authorize = spec.authorize.clone();
        let is_guarded = AtomicBool::new(authorize.is_some());
        let name = name.clone();
        let url = spec.url.clone();
        let target = target(&spec.url);
        let (spare, held_back) = (spec.spare.clone(), HeldBack::new(&name));
        Ok(Self { name, pool, url, target, post, get, authorize, is_guarded, spare, held_back })
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

    /// Whether the principal of a request decides its credentials.
    pub(crate) fn is_guarded(&self) -> bool {
        self.is_guarded.load(Ordering::Relaxed)
    }

    /// The server was reached. If it required no credentials, requests are sent without them.
    pub(crate) async fn settle(&self) {
        let Some(authorize) = &self.authorize else { return };
        let has_credentials = !matches!(authorize.authorization(None).await, Ok(None));
        self.is_guarded.store(has_credentials, Ordering::Relaxed);
    }

    /// The server refused a request without credentials. Returns whether the next one carries some, if there are any.
    pub(crate) fn begin_guarding(&self) -> bool {
        self.authorize.is_some() && !self.is_guarded.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn can_sign_in(&self) -> bool {
        self.authorize.is_some()
    }

    /// Why a request could not be sent.
    pub(super) fn failed(&self, error: &SendError) -> CallError {
        let obstacle = match error {
            SendError::NotConnected(obstacle) => obstacle,
            SendError::Lost(cause) => return self.lost(cause),
        };
        let reason = obstacle.reason(&self.name, &self.shown_url());
        let failed = match obstacle {
            Obstacle::Refused(_) => CallError::unavailable(reason),
            Obstacle::NoTls | Obstacle::Certificate { .. } | Obstacle::Unreachable(_) => {
                CallError::unreachable(reason)
            }
        };
        failed.at(&self.name)
    }

    /// The connection broke after the request was sent.
    pub(crate) fn lost(&self, cause: &str) -> CallError {
        let reason = self.reason("closed the connection before it answered");
        CallError::lost(reason.because(cause).with_hint(MAY_HAVE_RUN)).at(&self.name)
    }

    pub(crate) fn too_large(&self) -> CallError {
        CallError::answer_too_large(self.reason("sent an answer of more than 64 MiB")).at(&self.name)
    }

    pub(crate) fn bad_answer(&self, why: &str) -> CallError {
        CallError::bad_answer(self.reason("violated the protocol").because(why)).at(&self.name)
    }

    /// The answer is of a type that the protocol does not have.
    pub(crate) fn not_mcp(&self, headers: &HeaderMap) -> CallError {
        let kind = headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()));
        let reason = match kind {
            Some(kind) if kind.starts_with("text/html") => self.reason("answered with a web page, not MCP"),
            Some(kind) => self.reason(format!("answered with `{}`, not MCP", one_line(&kind))),
            None => self.reason("answered without a content type, which MCP requires"),
        };
        CallError::bad_answer(reason.with_hint(CHECK_PATH)).at(&self.name)
    }

    /// A predicate of this upstream.
    pub(crate) fn reason(&self, what: impl Into<String>) -> Reason {
        Reason::of_upstream(&self.name, what)
    }

    /// Whether the config sends credentials in `Authorization`.
    pub(crate) fn has_credentials(&self) -> bool {
        self.get.contains_key(AUTHORIZATION)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.url.scheme_str() == Some("http")
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

pub(super) fn target(url: &Uri) -> Uri {
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

/// Text of the server, bounded, on one line.
fn one_line(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The innermost cause, which is the most precise: "connection refused", not "client error".
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
