//! From one incoming message to what the transport has to do about it, for both eras.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolyard_bench::wire;

use crate::args::{Args, Eras};
use crate::message::{self, Era, Incoming, Params, result};
use crate::tools::Tools;

const SERVER_INFO: &str =
    concat!(r#"{"name":"bench-upstream","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

pub(crate) struct Server {
    eras: Eras,
    tools: Tools,
}

/// What a message asks of the transport.
pub(crate) enum Answer {
    /// Nothing: it was a notification or a response.
    Nothing,
    /// One message. `status` matters to HTTP only.
    Now { status: u16, body: String },
    /// The answer to `initialize`: HTTP opens a session with it.
    Welcome { body: String },
    /// One message after a while.
    Later { wait: Duration, body: String },
    /// Progress notifications, then one message.
    Progress { count: u64, pause: Duration, token: String, body: String },
    /// One message on a stream that stays open.
    Listen { first: String },
}

impl Answer {
    pub(crate) fn ok(body: String) -> Self {
        Self::Now { status: 200, body }
    }
}

impl Server {
    pub(crate) fn new(args: &Args) -> Self {
        Self { eras: args.era, tools: Tools::new(args.tools, args.page_size) }
    }

    /// Makes the next list differ from the last.
    pub(crate) fn change(&self) {
        self.tools.change();
    }

    pub(crate) fn speaks_legacy(&self) -> bool {
        self.eras != Eras::Modern
    }

    /// Answers one message; `headers` is absent where the transport has none. The closure reports
    /// whether a legacy request has the session that it needs.
    pub(crate) fn answer(
        &self,
        raw: &[u8],
        headers: Option<&HeaderMap>,
        in_session: impl FnOnce() -> Result<(), u16>,
    ) -> Answer {
        let Ok(incoming) = serde_json::from_slice::<Incoming<'_>>(raw) else {
            return Answer::Now { status: 400, body: message::error(None, -32700, "parse error", None) };
        };
        let (Some(method), Some(id)) = (incoming.method.as_deref(), incoming.id) else {
            return Answer::Nothing;
        };
        let params = match incoming.params.map(|params| serde_json::from_str::<Params<'_>>(params.get())) {
            None => Params::default(),
            Some(Ok(params)) => params,
            Some(Err(error)) => {
                return Answer::ok(message::error(Some(id), -32602, &error.to_string(), None));
            }
        };
        // A server of the legacy era alone does not know the modern envelope.
        if params.meta.version.is_some() && self.eras != Eras::Legacy {
            return self.modern(id, method, &params, headers);
        }
        if self.eras == Eras::Modern {
            return unsupported(id, params.protocol_version.as_deref());
        }
        if method == "initialize" {
            return initialize(id, params.protocol_version.as_deref());
        }
        match in_session() {
            Ok(()) => self.legacy(id, method, &params),
            Err(status) => {
                Answer::Now { status, body: message::error(Some(id), -32600, "no such session", None) }
            }
        }
    }

    fn modern(
        &self,
        id: &RawValue,
        method: &str,
        params: &Params<'_>,
        headers: Option<&HeaderMap>,
    ) -> Answer {
        if params.meta.version.as_deref() != Some(wire::MODERN) {
            return unsupported(id, params.meta.version.as_deref());
        }
        if let Some(name) = headers.and_then(|headers| disagreement(headers, method, params)) {
            let why = format!("header {name} does not agree with the body");
            return Answer::Now { status: 400, body: message::error(Some(id), -32020, &why, None) };
        }
        match method {
            "server/discover" => Answer::ok(result(id, Era::Modern, &discovery())),
            "subscriptions/listen" => Answer::Listen { first: acknowledgement(id, params) },
            "tools/list" => self.list(id, Era::Modern, params),
            "tools/call" => self.tools.call(id, Era::Modern, params),
            _ => {
                Answer::Now { status: 404, body: message::error(Some(id), -32601, "method not found", None) }
            }
        }
    }

    fn legacy(&self, id: &RawValue, method: &str, params: &Params<'_>) -> Answer {
        match method {
            "ping" => Answer::ok(result(id, Era::Legacy, "")),
            "tools/list" => self.list(id, Era::Legacy, params),
            "tools/call" => self.tools.call(id, Era::Legacy, params),
            _ => Answer::ok(message::error(Some(id), -32601, "method not found", None)),
        }
    }

    fn list(&self, id: &RawValue, era: Era, params: &Params<'_>) -> Answer {
        Answer::ok(match self.tools.list(era, params.cursor.as_deref()) {
            Some(fields) => result(id, era, &fields),
            None => message::error(Some(id), -32602, "invalid cursor", None),
        })
    }
}

fn unsupported(id: &RawValue, requested: Option<&str>) -> Answer {
    let data = json!({ "supported": [wire::MODERN], "requested": requested });
    let body = message::error(Some(id), -32022, "unsupported protocol version", Some(data));
    Answer::Now { status: 400, body }
}

fn initialize(id: &RawValue, requested: Option<&str>) -> Answer {
    let version = requested.filter(|version| wire::LEGACY.contains(version)).unwrap_or(wire::LEGACY[0]);
    let fields = format!(
        r#""protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{SERVER_INFO}"#
    );
    Answer::Welcome { body: result(id, Era::Legacy, &fields) }
}

/// The first header that contradicts the body of a modern request.
fn disagreement(headers: &HeaderMap, method: &str, params: &Params<'_>) -> Option<HeaderName> {
    let is = |name: &HeaderName, value: Option<&str>| {
        headers.get(name).map(hyper::header::HeaderValue::as_bytes) == value.map(str::as_bytes)
    };
    if !is(&wire::PROTOCOL_VERSION, params.meta.version.as_deref()) {
        Some(wire::PROTOCOL_VERSION)
    } else if !is(&wire::METHOD, Some(method)) {
        Some(wire::METHOD)
    } else if method == "tools/call" && !is(&wire::NAME, params.name.as_deref()) {
        Some(wire::NAME)
    } else {
        None
    }
}

fn discovery() -> String {
    format!(
        r#""supportedVersions":["{}"],"capabilities":{{"tools":{{}}}},"_meta":{{"{}":{SERVER_INFO}}},"ttlMs":3600000,"cacheScope":"public""#,
        wire::MODERN,
        wire::META_SERVER_INFO,
    )
}

fn acknowledgement(id: &RawValue, params: &Params<'_>) -> String {
    let mut honoured = json!({});
    if let Some(wanted) = params.notifications.get("toolsListChanged") {
        honoured["toolsListChanged"] = wanted.clone();
    }
    let id = serde_json::from_str(id.get()).unwrap_or(Value::Null);
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": { wire::META_SUBSCRIPTION: id }, "notifications": honoured },
    })
    .to_string()
}
