//! The table of faults: what a client does wrong, and the answer.

use serde_json::json;

use crate::wire::{Era, Transport, Wire};

/// A message that the client must receive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// An error with this code.
    Error(i64),
    /// An answer whose id is exactly this text.
    Echo(&'static str),
    /// Over HTTP a refusal without a message.
    Status(u16),
}

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// What is sent, and in that order.
    pub(crate) does: fn(&Wire, Transport) -> Vec<Vec<u8>>,
    /// The expected messages, in any order; `None` where the fault cannot happen.
    pub(crate) expects: fn(Transport, Era) -> Option<Vec<Expected>>,
    /// Whether lines end with it.
    pub(crate) ends_lines: bool,
}

const fn fault(
    name: &'static str,
    does: fn(&Wire, Transport) -> Vec<Vec<u8>>,
    expects: fn(Transport, Era) -> Option<Vec<Expected>>,
) -> Fault {
    Fault { name, does, expects, ends_lines: false }
}

fn list(wire: &Wire, id: &str) -> Vec<u8> {
    wire.request(id, "tools/list", json!({})).into_bytes()
}

fn call(wire: &Wire, id: &str, name: &str) -> Vec<u8> {
    wire.request(id, "tools/call", json!({ "name": name, "arguments": {} })).into_bytes()
}

macro_rules! id {
    ($name:literal, $id:literal, refused) => {
        fault($name, |wire, _| vec![list(wire, $id)], |_, _| Some(vec![Expected::Error(-32600)]))
    };
    ($name:literal, $id:literal, echoed) => {
        fault($name, |wire, _| vec![list(wire, $id)], |_, _| Some(vec![Expected::Echo($id)]))
    };
}

/// More than a line or a body may hold.
const TOO_MUCH: usize = 64 * 1024 * 1024 + 1024;

pub(crate) const TABLE: &[Fault] = &[
    fault("garbage", |_, _| vec![b"what?".to_vec()], |_, _| Some(vec![Expected::Error(-32700)])),
    fault(
        "truncated JSON",
        |wire, _| vec![list(wire, "1")[..40].to_vec()],
        |_, _| Some(vec![Expected::Error(-32700)]),
    ),
    id!("id true", "true", refused),
    id!("id 1.5", "1.5", refused),
    id!("id null", "null", refused),
    id!("id object", "{}", refused),
    id!("id 2^63", "9223372036854775808", echoed),
    id!("id negative", "-7", echoed),
    id!("id string", r#""a\u0000 é \" 1""#, echoed),
    fault(
        "invalid UTF-8",
        |wire, _| {
            let text = call(wire, "1", "X");
            vec![text.iter().map(|byte| if *byte == b'X' { 0xff } else { *byte }).collect()]
        },
        |_, _| Some(vec![Expected::Error(-32700)]),
    ),
    fault(
        "deep nesting",
        |wire, _| {
            let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
            let text = wire.request("1", "tools/call", json!({ "name": "sh__say", "arguments": "DEEP" }));
            vec![text.replace("\"DEEP\"", &deep).into_bytes()]
        },
        |_, _| Some(vec![Expected::Error(-32600)]),
    ),
    fault(
        "batch",
        |wire, _| vec![[b"[", list(wire, "1").as_slice(), b"]"].concat()],
        |_, _| Some(vec![Expected::Error(-32600)]),
    ),
    fault("empty batch", |_, _| vec![b"[]".to_vec()], |_, _| Some(vec![Expected::Error(-32600)])),
    fault(
        "not JSON-RPC 2.0",
        |wire, _| vec![wire.request("1", "tools/list", json!({})).replace("\"2.0\"", "\"1.0\"").into_bytes()],
        |_, _| Some(vec![Expected::Error(-32600)]),
    ),
    fault(
        "unknown method",
        |wire, _| vec![wire.request("1", "no/such", json!({})).into_bytes()],
        |_, _| Some(vec![Expected::Error(-32601)]),
    ),
    fault(
        "unknown tool",
        |wire, _| vec![call(wire, "1", "sh__none")],
        |_, _| Some(vec![Expected::Error(-32602)]),
    ),
    fault(
        "params that are no object",
        |_, _| vec![br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":5}"#.to_vec()],
        |_, _| Some(vec![Expected::Error(-32600)]),
    ),
    fault(
        "a call without a name",
        |wire, _| vec![wire.request("1", "tools/call", json!({})).into_bytes()],
        |_, _| Some(vec![Expected::Error(-32602)]),
    ),
    fault(
        "duplicate id in flight",
        |wire, _| vec![call(wire, "1", "sh__hang"), list(wire, "1")],
        |transport, era| {
            // A modern POST is stateless, so there it is not a fault: see the next row.
            (transport != Transport::Http || era == Era::Legacy).then(|| vec![Expected::Error(-32600)])
        },
    ),
    fault(
        "the same id in two POSTs",
        |wire, _| vec![list(wire, "1"), list(wire, "1")],
        |transport, era| {
            (transport == Transport::Http && era == Era::Modern)
                .then(|| vec![Expected::Echo("1"), Expected::Echo("1")])
        },
    ),
    fault(
        "response without a request",
        |_, _| vec![br#"{"jsonrpc":"2.0","id":77,"result":{}}"#.to_vec()],
        |transport, era| {
            // A modern client has nothing to answer, and no session to answer in.
            let refused = transport == Transport::Http && era == Era::Modern;
            Some(if refused { vec![Expected::Error(-32600)] } else { Vec::new() })
        },
    ),
    fault(
        "notification storm",
        |_, transport| {
            let one = br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
            let count = if transport.is_lines() { 10_000 } else { 200 };
            vec![one.to_vec(); count]
        },
        |_, _| Some(Vec::new()),
    ),
    Fault {
        name: "over-long message",
        does: |wire, _| {
            let params = json!({ "name": "sh__say", "arguments": { "text": "LONG" } });
            vec![wire.request("1", "tools/call", params).replace("LONG", &"x".repeat(TOO_MUCH)).into_bytes()]
        },
        expects: |transport, _| {
            Some(vec![if transport.is_lines() { Expected::Error(-32600) } else { Expected::Status(413) }])
        },
        ends_lines: true,
    },
];
