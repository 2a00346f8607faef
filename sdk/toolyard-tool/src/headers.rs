//! Arguments that a tool wants repeated in `Mcp-Param-*` headers (`x-mcp-header` in its schema), so that
//! proxies can route on them: over HTTP, header and argument must be equal.

use serde_json::Value;
use toolyard_model::{ClientKey, Request};
use toolyard_proto::modern::{decode_header, same_value};
use toolyard_proto::{CallError, Raw};

/// An argument and the header that repeats it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repeated {
    header: String,
    path: Vec<String>,
}

/// The marked properties of a schema.
pub(crate) fn marked(schema: &Value) -> Vec<Repeated> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Repeated>) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
            found.push(Repeated {
                header: format!("mcp-param-{header}").to_ascii_lowercase(),
                path: path.clone(),
            });
        }
        collect(property, path, found);
        path.pop();
    }
}

pub(crate) fn check(
    request: &Request,
    repeated: &[Repeated],
    arguments: Option<&Raw>,
) -> Result<(), CallError> {
    let over_http = matches!(request.origin.client, ClientKey::Request(_) | ClientKey::Principal(_));
    if repeated.is_empty() || !over_http {
        return Ok(());
    }
    for one in repeated {
        let path: Vec<&str> = one.path.iter().map(String::as_str).collect();
        let argument = arguments.and_then(|arguments| arguments.at(&path)).filter(|value| !value.is_null());
        let argument = argument.map(|value| value.as_string().unwrap_or_else(|| value.as_str().to_owned()));
        let header = request.headers.as_ref().and_then(|headers| headers.get(&one.header));
        let header = match header.map(|value| value.to_str().ok().and_then(decode_header)) {
            Some(None) => return Err(CallError::header_mismatch(format!("`{}` is malformed", one.header))),
            header => header.flatten(),
        };
        let agrees = match (&header, &argument) {
            (Some(header), Some(argument)) => same_value(argument, header),
            (header, argument) => header.is_none() && argument.is_none(),
        };
        if !agrees {
            let name = one.path.join(".");
            return Err(CallError::header_mismatch(format!("`{}` differs from `{name}`", one.header)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use toolyard_model::Origin;
    use toolyard_proto::{Id, Method};

    use super::*;

    fn check_case(client: ClientKey, header: Option<&str>, arguments: Value, expected: i32) {
        let schema =
            json!({ "properties": { "at": { "properties": { "region": { "x-mcp-header": "Region" } } } } });
        let mut origin = Origin::gateway(Raw::empty_object(), Raw::empty_object());
        Arc::get_mut(&mut origin).unwrap().client = client;
        let mut headers = Box::<http::HeaderMap>::default();
        if let Some(header) = header {
            headers.insert("mcp-param-region", header.parse().unwrap());
        }
        let request = Request::new(origin, Id::number(1), Method::TOOLS_CALL, Raw::empty_object())
            .with_headers(Some(headers));
        let got = check(&request, &marked(&schema), Some(&arguments.into()));
        assert_eq!(got.map_or_else(|error| error.code(), |()| 0), expected, "{header:?}");
    }

    #[test]
    fn over_http_a_header_repeats_its_argument() {
        let eu = || json!({ "at": { "region": "é" } });
        check_case(ClientKey::Request(1), Some("=?base64?w6k=?="), eu(), 0);
        check_case(ClientKey::Request(1), Some("us"), eu(), -32020);
        check_case(ClientKey::Request(1), None, eu(), -32020);
        check_case(ClientKey::Request(1), None, json!({ "at": { "region": null } }), 0);
        check_case(ClientKey::Request(1), Some("7"), json!({ "at": { "region": 7 } }), 0);
        check_case(ClientKey::Connection(1), None, eu(), 0);
    }
}
