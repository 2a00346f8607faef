//! One JSON-RPC message, with its payload as the bytes that it was.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) enum Message {
    Request { id: String, method: String, params: String },
    Notification { method: String, params: String },
    Response { id: String, outcome: Result<String, String> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Message {
    pub(crate) fn parse(text: &str) -> Self {
        let envelope: Envelope<'_> =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("not a message ({error}): {text}"));
        assert_eq!(envelope.jsonrpc, "2.0", "{text}");
        let bytes = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
        let id = bytes(envelope.id);
        let params = bytes(envelope.params).unwrap_or_default();
        match (id, envelope.method, bytes(envelope.result), bytes(envelope.error)) {
            (Some(id), Some(method), None, None) => Self::Request { id, method, params },
            (None, Some(method), None, None) => Self::Notification { method, params },
            (Some(id), None, Some(result), None) => Self::Response { id, outcome: Ok(result) },
            (Some(id), None, None, Some(error)) => Self::Response { id, outcome: Err(error) },
            _ => panic!("neither request, notification nor answer: {text}"),
        }
    }
}
