//! The headers of a modern request: they repeat parts of the body, and must agree with it.

use http::{HeaderMap, HeaderName};
pub(crate) use toolyard_model::headers::PROTOCOL_VERSION as VERSION;
use toolyard_model::headers::{METHOD, NAME};
use toolyard_proto::modern::{Claim, Found, RequestMeta, header_text, name_member};
use toolyard_proto::{CallError, Method, Raw};

use super::fields::{Fields, Twice, text};

/// The folder that the client works in.
pub(crate) const FOLDER: HeaderName = HeaderName::from_static("toolyard-folder");
const PARAM_PREFIX: &str = "mcp-param-";

/// Reads the envelope of a modern request and checks it against the headers. A disagreement about the
/// version is found before the version is judged.
pub(crate) fn check(
    fields: Fields<'_>,
    method: &Method,
    claim: &Claim,
    found: Found,
) -> Result<RequestMeta, CallError> {
    let version = single(fields, &VERSION)?;
    if let Claim::Version(claimed) = claim
        && !version.is_some_and(|version| is_same_text(claimed, version))
        && let Some(claimed) = claimed.text()
    {
        agree("MCP-Protocol-Version", version, &claimed)?;
    }
    let meta = RequestMeta::judge(found.envelope)?;
    agree("Mcp-Method", single(fields, &METHOD)?, method.as_str())?;
    if name_member(method).is_some() {
        let (header, named) = (single(fields, &NAME)?, found.name.as_ref());
        if !header.zip(named).is_some_and(|(header, named)| is_same_text(named, header)) {
            check_name(header, named.and_then(Raw::text).as_deref())?;
        }
    }
    Ok(meta)
}

/// Whether a header equals a string of the body, with nothing encoded in either. This is nearly always so,
/// and the fastest to check.
fn is_same_text(body: &Raw, header: &[u8]) -> bool {
    let inside = body.as_bytes().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let is_plain = header.is_ascii() && !header.contains(&b'\\') && !header.starts_with(b"=?");
    is_plain && inside == Some(header)
}

fn check_name(header: Option<&[u8]>, named: Option<&str>) -> Result<(), CallError> {
    let Some(named) = named else {
        // Without a name in the body the handler reports what is missing.
        return header
            .map_or(Ok(()), |_| Err(CallError::header_mismatch("Mcp-Name names what the body does not")));
    };
    let header = header.ok_or_else(|| missing("Mcp-Name"))?;
    let malformed = || malformed("Mcp-Name");
    let decoded =
        text(header).ok_or_else(malformed).and_then(|text| header_text(text).ok_or_else(malformed))?;
    if decoded == named { Ok(()) } else { Err(mismatch("Mcp-Name", &decoded, named)) }
}

fn agree(name: &str, header: Option<&[u8]>, body: &str) -> Result<(), CallError> {
    let header = header.ok_or_else(|| missing(name))?;
    if header == body.as_bytes() && body.is_ascii() {
        return Ok(());
    }
    Err(text(header).map_or_else(|| malformed(name), |header| mismatch(name, header, body)))
}

fn mismatch(name: &str, header: &str, body: &str) -> CallError {
    CallError::header_mismatch(format!("{name} is {header:?}, but the body has {body:?}"))
}

fn malformed(name: &str) -> CallError {
    CallError::header_mismatch(format!("the {name} header is malformed"))
}

fn missing(name: &str) -> CallError {
    CallError::header_mismatch(format!("the {name} header is required"))
}

/// The value of a header that may occur only once.
fn single<'a>(fields: Fields<'a>, name: &HeaderName) -> Result<Option<&'a [u8]>, CallError> {
    let twice = |Twice| CallError::header_mismatch(format!("duplicate {name} header"));
    Ok(fields.once(name).map_err(twice)?.map(<[u8]>::trim_ascii))
}

/// The `Mcp-Param-*` headers, to be passed on as they came.
pub(crate) fn params(fields: Fields<'_>) -> Option<Box<HeaderMap>> {
    fields.starting(PARAM_PREFIX)
}

#[cfg(test)]
mod tests {
    use toolyard_proto::modern::find_parts;

    use super::*;

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
            check(Fields::Map(&headers), &method, &claim, found).map_or_else(|error| error.code(), |_| 0);
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
        assert!(params(Fields::Map(&headers)).is_none());
        headers.insert("mcp-param-region", "eu".parse().unwrap());
        headers.insert("mcp-name", "x".parse().unwrap());
        assert_eq!(params(Fields::Map(&headers)).unwrap().len(), 1);
    }
}
