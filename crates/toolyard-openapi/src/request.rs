//! Converts the arguments of a call to the request to the service.

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Uri};
use oas3::spec::ParameterIn;
use serde_json::{Map, Value};

use crate::describe::{Body, Operation, Place};

impl Operation {
    /// The request of a call with these arguments. The error states which argument is wrong.
    pub(crate) fn request(
        &self,
        base: &str,
        own: &HeaderMap,
        arguments: &Map<String, Value>,
    ) -> Result<Request<Bytes>, String> {
        let (mut path, mut headers) = (self.path.clone(), HeaderMap::new());
        let mut query = Serializer::new(String::new());
        for place in &self.places {
            let Some(value) = arguments.get(&place.argument).filter(|value| !value.is_null()) else {
                continue;
            };
            match place.location {
                ParameterIn::Path => path = fill(&path, place, value)?,
                ParameterIn::Query => add_query(&mut query, place, value),
                _ => add_header(&mut headers, place, value)?,
            }
        }
        if let Some(open) = path.split('{').nth(1).and_then(|rest| rest.split('}').next()) {
            return Err(format!("`{open}` is required"));
        }
        let (body, kind) = self.body(arguments.get("body"))?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
        headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
        // What the user has configured wins over what a model sends.
        own.iter().for_each(|(name, value)| drop(headers.insert(name.clone(), value.clone())));
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        let uri: Uri = format!("{base}{path}{mark}{query}")
            .parse()
            .map_err(|error| format!("its URL is invalid: {error}"))?;
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn body(&self, argument: Option<&Value>) -> Result<(Bytes, Option<&'static str>), String> {
        let (Some(kind), Some(value)) = (self.body, argument) else { return Ok((Bytes::new(), None)) };
        Ok(match kind {
            Body::Json => (value.to_string().into(), Some("application/json")),
            Body::Text => (plain(value).into(), Some("text/plain; charset=utf-8")),
            Body::Form => {
                let fields = value.as_object().ok_or("`body` must be an object")?;
                let mut form = Serializer::new(String::new());
                for (name, value) in fields {
                    for one in each(value) {
                        form.append_pair(name, &plain(one));
                    }
                }
                (form.finish().into(), Some("application/x-www-form-urlencoded"))
            }
        })
    }
}

/// A value fills one segment of the path and cannot leave it.
fn fill(path: &str, place: &Place, value: &Value) -> Result<String, String> {
    let text = each(value).into_iter().map(plain).collect::<Vec<_>>().join(",");
    if matches!(text.as_str(), "" | "." | "..") {
        return Err(format!("`{}` must not be `{text}`", place.argument));
    }
    Ok(path.replace(&format!("{{{}}}", place.name), &encoded(&text)))
}

fn add_query(query: &mut Serializer<'_, String>, place: &Place, value: &Value) {
    let name = &place.name;
    if place.is_json {
        query.append_pair(name, &value.to_string());
        return;
    }
    match value {
        Value::Object(fields) if place.is_deep => {
            for (key, value) in fields {
                query.append_pair(&format!("{name}[{key}]"), &plain(value));
            }
        }
        Value::Object(fields) if place.is_exploded => {
            for (key, value) in fields {
                query.append_pair(key, &plain(value));
            }
        }
        Value::Object(fields) => {
            let pairs: Vec<String> =
                fields.iter().flat_map(|(key, value)| [key.clone(), plain(value)]).collect();
            query.append_pair(name, &pairs.join(","));
        }
        Value::Array(items) if place.is_exploded => {
            for item in items {
                query.append_pair(name, &plain(item));
            }
        }
        value => {
            let items: Vec<String> = each(value).into_iter().map(plain).collect();
            query.append_pair(name, &items.join(","));
        }
    }
}

fn add_header(headers: &mut HeaderMap, place: &Place, value: &Value) -> Result<(), String> {
    let wrong = || format!("`{}` cannot be sent as a header", place.argument);
    let name = HeaderName::from_bytes(place.name.as_bytes()).map_err(|_| wrong())?;
    let text = each(value).into_iter().map(plain).collect::<Vec<_>>().join(",");
    headers.insert(name, HeaderValue::from_str(&text).map_err(|_| wrong())?);
    Ok(())
}

fn each(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        value => vec![value],
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Everything but unreserved characters.
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b',') {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
