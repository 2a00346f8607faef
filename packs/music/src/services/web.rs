//! A small HTTP client: one User-Agent, a time limit, a size limit, redirects that are followed. Made when first
//! needed, since the system's certificates must be read for it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXUPPER;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use toolyard_dial::Dialer;
use toolyard_tool::ToolError;

const LIMIT: Duration = Duration::from_secs(30);
const MOST_REDIRECTS: usize = 10;

type Connection = Client<HttpsConnector<Dialer>, Full<Bytes>>;

#[derive(Clone)]
pub(crate) struct Web {
    agent: Arc<str>,
    client: Arc<OnceLock<Connection>>,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The final URL after redirects.
    pub(crate) url: String,
}

impl Reply {
    /// How long the service asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// Whether asking again may help.
    pub(crate) fn is_worth_retrying(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS || self.status.is_server_error()
    }
}

impl Web {
    pub(crate) fn new(contact: Option<&str>) -> Self {
        let about = contact.map(|contact| format!(" ( {contact} )")).unwrap_or_default();
        let agent = format!("Toolyard-Music/{}{about}", env!("CARGO_PKG_VERSION"));
        // Characters that are invalid in a header are left out.
        let agent: String = agent.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        Self { agent: agent.into(), client: Arc::default() }
    }

    pub(crate) async fn get(&self, url: &str, most_bytes: usize) -> Result<Reply, ToolError> {
        let mut url = url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let reply = self.send(Method::GET, &url, None, most_bytes).await?;
            let target = reply.headers.get(LOCATION).filter(|_| reply.status.is_redirection());
            match target.and_then(|target| target.to_str().ok()) {
                Some(target) => url = redirected(&url, target)?,
                None => return Ok(reply),
            }
        }
        Err(ToolError::new(format!("`{url}` leads to more than {MOST_REDIRECTS} other places"))
            .hint("check the URLs in [packs.music], or try again later"))
    }

    pub(crate) async fn post_form(
        &self,
        url: &str,
        fields: &[(&str, &str)],
        most_bytes: usize,
    ) -> Result<Reply, ToolError> {
        self.send(Method::POST, url, Some(query(fields)), most_bytes).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        form: Option<String>,
        most_bytes: usize,
    ) -> Result<Reply, ToolError> {
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(USER_AGENT, &*self.agent)
            .header(ACCEPT, "application/json, image/*");
        if form.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let request = request.body(Full::from(form.unwrap_or_default()))?;
        let exchange = async {
            let response = self.client()?.request(request).await.map_err(|error| unreachable(url, &error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, most_bytes).collect().await.map_err(|error| {
                ToolError::new(format!("`{url}`: {error}"))
                    .hint(format!("answers of more than {most_bytes} bytes are not taken"))
            })?;
            Ok(Reply {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes(),
                url: url.to_owned(),
            })
        };
        tokio::time::timeout(LIMIT, exchange).await.unwrap_or_else(|_| {
            Err(ToolError::new(format!("`{url}` did not answer within {LIMIT:?}")).hint("try again later"))
        })
    }

    fn client(&self) -> Result<&Connection, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let connector = toolyard_dial::https_or_http()?;
        Ok(self.client.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector)))
    }
}

fn unreachable(url: &str, error: &(dyn std::error::Error + 'static)) -> ToolError {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        why = format!("{why}: {inner}");
        cause = inner.source();
    }
    ToolError::new(format!("`{url}` cannot be reached: {why}"))
        .hint("check the connection to the internet, and the URLs in [packs.music]")
}

/// The target of a redirect. Never from HTTPS to HTTP.
fn redirected(from: &str, target: &str) -> Result<String, ToolError> {
    let base: Uri = from.parse()?;
    let to = match (target.starts_with("//"), target.starts_with('/')) {
        (true, _) => format!("{}:{target}", base.scheme_str().unwrap_or("https")),
        (false, true) => {
            let authority = base.authority().map(ToString::to_string).unwrap_or_default();
            format!("{}://{authority}{target}", base.scheme_str().unwrap_or("https"))
        }
        (false, false) => target.to_owned(),
    };
    Ok(as_safe_as(from, &to))
}

/// `http` becomes `https` where the first request was safe.
pub(crate) fn as_safe_as(base: &str, url: &str) -> String {
    match url.strip_prefix("http://") {
        Some(rest) if base.starts_with("https://") => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

/// `a=1&b=2`, with everything escaped that must be.
pub(crate) fn query(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    pairs.join("&")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            b' ' => escaped.push('+'),
            _ => escaped.extend(["%", &HEXUPPER.encode(&[byte])]),
        }
    }
    escaped
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Web").field(&self.agent).finish()
    }
}
