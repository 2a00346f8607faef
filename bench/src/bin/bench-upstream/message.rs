//! JSON-RPC as this server reads and writes it: only what it routes on is parsed.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) arguments: Arguments<'a>,
    pub(crate) cursor: Option<String>,
    pub(crate) protocol_version: Option<String>,
    pub(crate) notifications: HashMap<String, Value>,
    #[serde(rename = "_meta", borrow)]
    pub(crate) meta: Meta<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow)]
    pub(crate) version: Option<Cow<'a, str>>,
    #[serde(rename = "progressToken", borrow)]
    pub(crate) progress_token: Option<&'a RawValue>,
}

/// The arguments of all tools in one; each tool reads its own.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Arguments<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<Cow<'a, str>>,
    pub(crate) a: Option<f64>,
    pub(crate) b: Option<f64>,
    pub(crate) ms: Option<u64>,
    pub(crate) kb: Option<usize>,
    pub(crate) n: Option<u64>,
    pub(crate) delay_ms: Option<u64>,
}

/// Which form results take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A result message; `fields` is the inside of the result object.
pub(crate) fn result(id: &RawValue, era: Era, fields: &str) -> String {
    let stamp = match era {
        Era::Modern if fields.is_empty() => r#""resultType":"complete""#,
        Era::Modern => r#""resultType":"complete","#,
        Era::Legacy => "",
    };
    [r#"{"jsonrpc":"2.0","id":"#, id.get(), r#","result":{"#, stamp, fields, "}}"].concat()
}

/// The result of a tool call; `quoted` is a JSON string.
pub(crate) fn text_result(id: &RawValue, era: Era, quoted: &str) -> String {
    let fields = [r#""content":[{"type":"text","text":"#, quoted, r#"}],"isError":false"#].concat();
    result(id, era, &fields)
}

pub(crate) fn error(id: Option<&RawValue>, code: i32, message: &str, data: Option<Value>) -> String {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let id = id.map_or("null", RawValue::get);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

pub(crate) fn progress(token: &str, step: u64, total: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step},"total":{total}}}}}"#
    )
}

pub(crate) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
