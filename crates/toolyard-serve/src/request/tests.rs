//! Posted notifications are limited, and the headers of a modern request must agree with its body.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::*;
use crate::Options;
use toolyard_model::{Answer, BoxFuture, ClientKey, Handler, Peer, Principal, Scope};

/// The clients that sent messages.
#[derive(Default)]
struct Senders(Mutex<Vec<Principal>>);

impl Handler for Senders {
    fn handle(&self, _: toolyard_model::Request, _: Peer) -> BoxFuture<Answer> {
        Box::pin(std::future::pending())
    }

    fn notice(&self, origin: &Arc<Origin>, _: Notification) {
        self.0.lock().push(origin.principal.clone());
    }

    fn ended(&self, _: &ClientKey) {}
}

#[tokio::test(start_paused = true)]
async fn posted_notifications_beyond_the_limit_are_dropped_per_principal() {
    let (received, scope) = (Arc::new(Senders::default()), Scope::new());
    let endpoint = Endpoint::new(received.clone(), Options::default(), &scope);
    let say = |name: &str| {
        let admitted = Admitted::proven(Principal::token(name));
        notice(&endpoint, View::Everything, admitted, Notification::new(Method::ROOTS_CHANGED, None));
    };
    (0..1_000).for_each(|_| say("ann"));
    (0..50).for_each(|_| say("bob"));
    let count = |name: &str| received.0.lock().iter().filter(|who| **who.name() == *name).count();
    assert_eq!((count("ann"), count("bob")), (100, 50));
    assert_eq!(endpoint.counts.dropped.load(Ordering::Relaxed), 900);
    // The last change is passed on when the burst is over.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!((count("ann"), count("bob")), (101, 50));
}

/// Headers as `name: value` lines; the expected code, or 0 for agreement.
fn check_case(lines: &[(&str, &str)], method: &str, params: &str, expected: i32) {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    let (method, params) = (Method::new(method), Raw::parse(params.to_owned()).unwrap().into());
    let found = find_parts(&method, Some(&params));
    let claim = found.envelope.claim();
    let got =
        check_headers(Fields::Map(&headers), &method, &claim, found).map_or_else(|error| error.code(), |_| 0);
    assert_eq!(got, expected, "{lines:?} {method} {params:?}");
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[test]
fn headers_and_body_must_agree() {
    let list = format!("{{{META}}}");
    let call = format!(r#"{{"name":"é",{META}}}"#);
    let version = ("mcp-protocol-version", "2026-07-28");
    let old = list.replace("2026-07-28", "v999.0.0");
    check_case(&[version, ("mcp-method", "tools/list")], "tools/list", &list, 0);
    check_case(&[version, ("MCP-METHOD", " tools/list ")], "tools/list", &list, 0);
    check_case(&[("mcp-method", "tools/list")], "tools/list", &list, -32020);
    check_case(&[version], "tools/list", &list, -32020);
    check_case(&[version, ("mcp-method", "TOOLS/LIST")], "tools/list", &list, -32020);
    check_case(&[version, version, ("mcp-method", "tools/list")], "tools/list", &list, -32020);
    check_case(&[version, ("mcp-method", "tools/list")], "tools/list", &old, -32020);
    check_case(&[("mcp-protocol-version", "v999.0.0")], "tools/list", &old, -32022);
    check_case(&[version], "tools/list", "{}", -32602);
    let named = |name| [version, ("mcp-method", "tools/call"), ("mcp-name", name)];
    check_case(&named("=?base64?w6k=?="), "tools/call", &call, 0);
    check_case(&named("=?base64?w6k?="), "tools/call", &call, -32020);
    check_case(&named("e"), "tools/call", &call, -32020);
    check_case(&named("e"), "tools/call", &list, -32020);
    check_case(&named("e")[..2], "tools/call", &call, -32020);
    check_case(&named("e")[..2], "tools/call", &list, 0);
}

#[test]
fn parameter_headers_are_collected() {
    let mut headers = HeaderMap::new();
    assert!(param_headers(Fields::Map(&headers)).is_none());
    headers.insert("mcp-param-region", "eu".parse().unwrap());
    headers.insert("mcp-name", "x".parse().unwrap());
    assert_eq!(param_headers(Fields::Map(&headers)).unwrap().len(), 1);
}
