//! Parameters that are also sent in headers: a schema marks them with `x-mcp-header`, and then header and body
//! must agree.

use std::iter;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use toolyard_proto::modern::{decode_header, encode_header, same_value};
use toolyard_proto::splice::{Twice, find_once};
use toolyard_proto::{CallError, Raw};

/// The marked parameters of one tool.
#[derive(Debug, Default)]
pub(crate) struct ParamHeaders(Vec<ParamHeader>);

#[derive(Debug)]
struct ParamHeader {
    name: HeaderName,
    /// The path of the value in the arguments.
    path: Vec<String>,
}

/// The headers that a call of `tool` over HTTP needs in addition to its `params`.
pub fn param_headers(tool: &Raw, params: &Raw) -> Option<Box<HeaderMap>> {
    ParamHeaders::of(tool).made(params)
}

impl ParamHeaders {
    /// Most tools mark nothing, which a plain search shows.
    pub(crate) fn of(tool: &Raw) -> Self {
        let mut found = Vec::new();
        if let Some(schema) = tool.member("inputSchema")
            && schema.as_str().contains("x-mcp-header")
            && let Ok(schema) = schema.read::<Value>()
        {
            collect(&schema, &mut Vec::new(), &mut found);
        }
        Self(found)
    }

    /// Whether the headers that a client sent agree with the body.
    pub(crate) fn check(&self, sent: Option<&HeaderMap>, params: &Raw) -> Result<(), CallError> {
        for header in &self.0 {
            let sent = sent.and_then(|sent| sent.get(&header.name));
            let wrong = |why: &str| CallError::header_mismatch(format!("the {} header {why}", header.name));
            let value = header.value(params);
            // The upstream might read the other one.
            let value = value.map_err(|Twice| wrong("names a parameter that occurs twice in the body"))?;
            match (value, sent) {
                (None, None) => {}
                (None, Some(_)) => return Err(wrong("names a parameter that is not in the body")),
                (Some(_), None) => return Err(wrong("is required for this tool")),
                (Some(value), Some(sent)) => {
                    let sent =
                        sent.to_str().ok().and_then(decode_header).ok_or_else(|| wrong("is malformed"))?;
                    if !same_value(&value, &sent) {
                        return Err(wrong("does not agree with the body"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The headers for a client that has none to send.
    pub(crate) fn made(&self, params: &Raw) -> Option<Box<HeaderMap>> {
        let mut out: Option<Box<HeaderMap>> = None;
        for header in &self.0 {
            let value = header.value(params).ok().flatten().map(|value| encode_header(&value));
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                out.get_or_insert_default().insert(header.name.clone(), value);
            }
        }
        out
    }
}

impl ParamHeader {
    /// The value as text; absent and `null` are the same.
    fn value(&self, params: &Raw) -> Result<Option<String>, Twice> {
        let mut value = params.clone();
        for key in iter::once("arguments").chain(self.path.iter().map(String::as_str)) {
            let Some(range) = find_once(value.as_bytes(), key)? else { return Ok(None) };
            value = value.slice(range);
        }
        let text = || value.as_string().unwrap_or_else(|| value.as_str().to_owned());
        Ok((!value.is_null()).then(text))
    }
}

/// Only what can be reached through `properties` alone counts.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (key, property) in properties {
        path.push(key.clone());
        let name =
            property["x-mcp-header"].as_str().map(|name| format!("mcp-param-{name}").to_ascii_lowercase());
        if let Some(name) = name.and_then(|name| HeaderName::try_from(name).ok()) {
            found.push(ParamHeader { name, path: path.clone() });
        }
        collect(property, path, found);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, sent: &[(&str, &str)], agrees: bool) {
        let tool = r#"{"inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}}"#;
        let headers = ParamHeaders::of(&Raw::parse(tool).unwrap());
        let params = Raw::parse(format!(r#"{{"arguments":{arguments}}}"#)).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in sent {
            map.insert(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        assert_eq!(headers.check(Some(&map), &params).is_ok(), agrees, "{arguments} {sent:?}");
        assert!(headers.check(headers.made(&params).as_deref(), &params).is_ok(), "{arguments}");
    }

    #[test]
    fn marked_parameters_agree_with_their_headers() {
        check("{}", &[], true);
        check(r#"{"region":null}"#, &[], true);
        check(r#"{"region":"Hello"}"#, &[("mcp-param-region", "Hello")], true);
        check(r#"{"region":"Hello"}"#, &[("mcp-param-region", "=?base64?SGVsbG8=?=")], true);
        check(r#"{"region":"Hello"}"#, &[("mcp-param-region", "=?base64?SGVsbG8?=")], false);
        check(r#"{"region":"Hello"}"#, &[("mcp-param-region", "hello")], false);
        check(r#"{"region":"é"}"#, &[], false);
        check("{}", &[("mcp-param-region", "x")], false);
        check(r#"{"deep":{"n":7}}"#, &[("mcp-param-n", "007")], true);
        check(r#"{"deep":{"n":42}}"#, &[("mcp-param-n", "42.0")], true);
        check(r#"{"deep":{"n":42}}"#, &[("mcp-param-n", "42.5")], false);
        check(r#"{"deep":{"n":9007199254740993}}"#, &[("mcp-param-n", "9007199254740992")], false);
        check(r#"{"deep":{"n":7}}"#, &[("mcp-param-n", "8"), ("mcp-param-other", "x")], false);
    }

    #[test]
    fn a_marked_parameter_must_not_be_duplicated() {
        let tool = r#"{"inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
        let headers = ParamHeaders::of(&Raw::parse(tool).unwrap());
        let sent = HeaderMap::from_iter([(
            HeaderName::from_static("mcp-param-region"),
            HeaderValue::from_static("eu"),
        )]);
        for (params, is_good) in [
            (r#"{"arguments":{"region":"eu"}}"#, true),
            (r#"{"arguments":{"region":"us"},"arguments":{"region":"eu"}}"#, false),
            (r#"{"arguments":{"region":"us","region":"eu"}}"#, false),
            (r#"{"arguments":{"regio\u006e":"us","region":"eu"}}"#, false),
        ] {
            let params = Raw::parse(params).unwrap();
            assert_eq!(headers.check(Some(&sent), &params).is_ok(), is_good, "{params:?}");
        }
    }
}
