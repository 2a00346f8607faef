//! The JSON-RPC envelope: parsed once, payloads left raw, ids kept as they were sent.

mod envelope;
mod nesting;

pub use nesting::Nesting;

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use crate::error::code;
use crate::raw::put_string;
use crate::scan::Scan;
use crate::{Method, Params, Raw, RpcError};
use envelope::Envelope;

/// Messages of clients with deeper nesting are refused.
pub const MAX_NESTING: usize = 128;

/// A request id in the text it was sent in: `1` and `"1"` are different ids.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Raw);

impl Id {
    pub fn number(n: u64) -> Self {
        Self(Raw::assembled(n.to_string()))
    }

    pub fn string(text: &str) -> Self {
        Self(Raw::from_serialize(&text))
    }

    /// A string or an integer; nothing else identifies a request.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        let bytes = raw.as_bytes();
        let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
        let integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        (bytes.first() == Some(&b'"') || integer).then_some(Self(raw))
    }

    /// The number, if the id is one that Toolyard made.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.read().ok()
    }

    pub fn as_raw(&self) -> &Raw {
        &self.0
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request as it is on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMessage {
    pub id: Id,
    pub method: Method,
    pub params: Option<Params>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    pub method: Method,
    pub params: Option<Raw>,
}

impl Notification {
    pub fn new(method: Method, params: impl Into<Option<Raw>>) -> Self {
        Self { method, params: params.into() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Absent only in an error about a message whose id could not be read.
    pub id: Option<Id>,
    /// The error is the whole raw error object, unchanged.
    pub outcome: Result<Raw, Raw>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Request(RequestMessage),
    Notification(Notification),
    Response(Response),
}

/// One message, or a batch of them as 2025-03-26 allowed. A bad element keeps its place.
#[derive(Debug)]
pub enum Incoming {
    One(Message),
    Batch(Vec<Result<Message, ParseError>>),
}

/// Why a message was not understood, and the id to answer with if there was one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    pub code: i32,
    pub message: String,
    pub id: Option<Id>,
    /// Whether it was meant as the answer to a request. That request will get no other answer.
    pub is_answer: bool,
}

impl ParseError {
    fn syntax(error: &serde_json::Error) -> Self {
        let message = format!("the message is not valid JSON: {error}");
        Self { code: code::PARSE_ERROR, message, id: None, is_answer: false }
    }

    fn shape(message: impl Into<String>, id: Option<Id>) -> Self {
        Self { code: code::INVALID_REQUEST, message: message.into(), id, is_answer: false }
    }

    pub fn to_rpc(&self) -> RpcError {
        RpcError { code: self.code, message: self.message.clone(), data: None }
    }
}

impl Incoming {
    pub fn parse(bytes: &Bytes) -> Result<Self, ParseError> {
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Self::parse_batch(bytes);
        }
        Message::parse(bytes).map(Self::One)
    }

    fn parse_batch(bytes: &Bytes) -> Result<Self, ParseError> {
        let parts: Vec<&RawValue> =
            serde_json::from_str(text_of(bytes)?).map_err(|error| ParseError::syntax(&error))?;
        if parts.is_empty() {
            return Err(ParseError::shape("a batch holds at least one message", None));
        }
        let element = |part: &&RawValue| Message::parse(&bytes.slice_ref(part.get().as_bytes()));
        Ok(Self::Batch(parts.iter().map(element).collect()))
    }
}

impl Message {
    pub fn parse(bytes: &Bytes) -> Result<Self, ParseError> {
        let text = text_of(bytes)?;
        let envelope = Envelope::read(text).map_err(|error| not_an_envelope(text, &error))?;
        let is_answer = envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some());
        Self::from_envelope(bytes, envelope).map_err(|error| ParseError { is_answer, ..error })
    }

    fn from_envelope(bytes: &Bytes, envelope: Envelope<'_>) -> Result<Self, ParseError> {
        let raw = |value: Option<&str>| value.map(|value| Raw::part_of(bytes, value));
        let id = match raw(envelope.id).map(Id::from_raw) {
            Some(None) if envelope.error.is_some() => None,
            Some(None) => return Err(ParseError::shape("a request id is a string or an integer", None)),
            Some(id) => id,
            None => None,
        };
        if envelope.jsonrpc.is_none_or(|version| version.0 != "2.0") {
            return Err(ParseError::shape("`jsonrpc` must be \"2.0\"", id));
        }
        let params = raw(envelope.params).map(|params| Params::new(params, envelope.outline));
        match (envelope.method, id, raw(envelope.result), raw(envelope.error)) {
            (Some(method), id, None, None) => Self::with_method(Method::new(&method.0), id, params),
            (None, Some(id), Some(result), None) => {
                Ok(Self::Response(Response { id: Some(id), outcome: Ok(result) }))
            }
            (None, id, None, Some(error)) => Ok(Self::Response(Response { id, outcome: Err(error) })),
            (_, id, _, _) => Err(ParseError::shape(
                "a message has either `method`, or `id` with one of `result` and `error`",
                id,
            )),
        }
    }

    fn with_method(method: Method, id: Option<Id>, params: Option<Params>) -> Result<Self, ParseError> {
        let params = params.filter(|params| !params.is_null());
        if params.as_ref().is_some_and(|params| !matches!(params.as_bytes().first(), Some(b'{' | b'['))) {
            return Err(ParseError::shape("`params` must be an object", id));
        }
        Ok(match id {
            Some(id) => Self::Request(RequestMessage { id, method, params }),
            None => Self::Notification(Notification { method, params: params.map(Params::into_raw) }),
        })
    }

    /// The message as one line of bytes, without the line end.
    pub fn render(&self) -> Bytes {
        match self {
            Self::Request(m) => render_call(Some(&m.id), &m.method, m.params.as_deref()),
            Self::Notification(m) => render_call(None, &m.method, m.params.as_ref()),
            Self::Response(m) => match &m.outcome {
                Ok(result) => render_outcome(m.id.as_ref(), b"result", result.as_bytes()),
                Err(error) => render_outcome(m.id.as_ref(), b"error", error.as_bytes()),
            },
        }
    }
}

/// The message as text. All of it must be UTF-8, including members that are not read.
fn text_of(bytes: &Bytes) -> Result<&str, ParseError> {
    std::str::from_utf8(bytes).map_err(|error| ParseError {
        code: code::PARSE_ERROR,
        message: format!("the message is not valid UTF-8: {error}"),
        id: None,
        is_answer: false,
    })
}

fn not_an_envelope(text: &str, error: &serde_json::Error) -> ParseError {
    match serde_json::from_str::<&RawValue>(text) {
        Err(syntax) => ParseError::syntax(&syntax),
        Ok(_) => ParseError::shape(format!("the message is not a JSON-RPC object: {error}"), None),
    }
}

fn render_call(id: Option<&Id>, method: &Method, params: Option<&Raw>) -> Bytes {
    const FIXED: usize = r#"{"jsonrpc":"2.0","method":""}"#.len();
    let id_size = id.map_or(0, |id| r#""id":,"#.len() + id.as_bytes().len());
    let params_size = params.map_or(0, |params| r#","params":"#.len() + params.len());
    // The exact capacity: a full buffer becomes `Bytes` without another allocation.
    let mut out = Vec::with_capacity(FIXED + method.as_str().len() + id_size + params_size);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"method\":");
    put_string(&mut out, method.as_str());
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
    Bytes::from(out)
}

fn render_outcome(id: Option<&Id>, key: &[u8], value: &[u8]) -> Bytes {
    // The exact capacity: a full buffer becomes `Bytes` without another allocation.
    let id_length = id.map_or(0, |id| br#""id":,"#.len() + id.as_bytes().len());
    let fixed = br#"{"jsonrpc":"2.0","":}"#.len();
    let mut out = BytesMut::with_capacity(fixed + id_length + key.len() + value.len());
    put_outcome_head(&mut out, id, key);
    out.put_slice(value);
    out.put_u8(b'}');
    out.freeze()
}

/// The part of a response before the value; the value and `}` follow. With it, a large result is sent without a copy.
pub fn outcome_head(id: &Id, key: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(id.as_bytes().len() + 48);
    put_outcome_head(&mut out, Some(id), key.as_bytes());
    out.freeze()
}

fn put_outcome_head(out: &mut BytesMut, id: Option<&Id>, key: &[u8]) {
    out.put_slice(b"{\"jsonrpc\":\"2.0\",");
    // An id that could not be read is left out: the schemas know no `null` there.
    if let Some(id) = id {
        out.put_slice(b"\"id\":");
        out.put_slice(id.as_bytes());
        out.put_u8(b',');
    }
    out.put_u8(b'"');
    out.put_slice(key);
    out.put_slice(b"\":");
}

/// The answer of a request.
pub fn render_result(id: &Id, result: &Raw) -> Bytes {
    render_outcome(Some(id), b"result", result.as_bytes())
}

/// An error answer; without an id where the message's own could not be read.
pub fn render_error(id: Option<&Id>, error: &Raw) -> Bytes {
    render_outcome(id, b"error", error.as_bytes())
}

/// Whether `bytes` nest deeper than [`MAX_NESTING`]. Strings are skipped; invalid JSON is judged elsewhere.
pub fn nests_too_deep(bytes: &[u8]) -> bool {
    // A message with no more opening brackets than that cannot nest deeper, and counting them is fast.
    if count_openings(bytes) <= MAX_NESTING {
        return false;
    }
    let (mut depth, mut at) = (0usize, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = crate::splice::end_of_string(bytes, at).saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The id at the start of a long answer, where it comes before the result.
pub fn leading_id(start: &Bytes) -> Option<Id> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The end of the piece may cut a character.
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
    };
    let (mut scan, mut id) = (Scan::new(text), None);
    scan.skip_space();
    let _ = scan.object(|scan, key| match &text[key.plain()?] {
        "jsonrpc" => scan.value().map(drop),
        "id" => {
            id = scan.value();
            None
        }
        _ => None,
    });
    Id::from_raw(Raw::part_of(start, id?))
}

/// Counts opening brackets in pieces whose count fits into a byte, so that many bytes are counted at once.
fn count_openings(bytes: &[u8]) -> usize {
    let count = |piece: &[u8]| piece.iter().map(|byte| u8::from(matches!(byte, b'{' | b'['))).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|piece| usize::from(count(piece))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let got = match Incoming::parse(&bytes) {
            Ok(Incoming::One(message)) => String::from_utf8(message.render().to_vec()).unwrap(),
            Ok(Incoming::Batch(parts)) => format!("batch of {}", parts.len()),
            Err(error) => format!("{} id {:?}: {}", error.code, error.id, error.message),
        };
        assert!(got.starts_with(expected), "{text}\n got {got}\nwant {expected}");
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1.50,"b":"\u00e9"}}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"x/y"}"#,
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","extra":[1 , 2]}}"#,
        ] {
            check(text, text);
        }
    }

    /// Whether the parameters of a request share the memory of the whole message.
    fn shares_memory(padding: usize, text: usize) -> bool {
        let (padding, text) = ("p".repeat(padding), "t".repeat(text));
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","unknown":"{padding}","params":{{"text":"{text}"}}}}"#
        );
        let bytes = Bytes::from(message);
        let Ok(Message::Request(request)) = Message::parse(&bytes) else { panic!("it is a request") };
        let params = request.params.unwrap();
        assert_eq!(params.as_str(), format!(r#"{{"text":"{text}"}}"#));
        bytes.as_ptr_range().contains(&params.as_bytes().as_ptr())
    }

    #[test]
    fn a_call_keeps_nothing_large_in_memory_that_is_never_read() {
        assert!(shares_memory(100, 10));
        assert!(shares_memory(100, 1_000_000));
        assert!(!shares_memory(1_000_000, 10));
        assert!(!shares_memory(600_000, 400_000));
    }

    #[test]
    fn a_bad_message_is_refused_with_its_id_where_it_has_one() {
        check("{", "-32700 id None");
        check("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} x", "-32700");
        check("7", "-32600 id None");
        check(r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, "-32600 id None: a request id");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "-32600 id None: a request id");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "-32600 id None: a request id");
        check(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, "-32600 id None: a request id");
        check(r#"{"jsonrpc":"1.0","id":4,"method":"a"}"#, "-32600 id Some(4)");
        check(r#"{"jsonrpc":"2.0","id":4,"method":"a","params":3}"#, "-32600 id Some(4)");
        check(r#"{"jsonrpc":"2.0","id":4}"#, "-32600 id Some(4)");
        check("[]", "-32600");
        check(r#"[{"jsonrpc":"2.0","method":"a"},1]"#, "batch of 2");
    }

    #[test]
    fn an_error_about_an_unreadable_message_has_no_id() {
        let error = Raw::parse(r#"{"code":-32700,"message":"m"}"#).unwrap();
        assert_eq!(render_error(None, &error), r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#);
        assert_eq!(
            render_error(Some(&Id::number(3)), &error),
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32700,"message":"m"}}"#
        );
    }

    #[test]
    fn invalid_utf8_is_a_parse_error() {
        let bytes = Bytes::from_static(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":\"\xff\"}}",
        );
        assert_eq!(Incoming::parse(&bytes).unwrap_err().code, code::PARSE_ERROR);
    }

    #[test]
    fn nesting_is_counted_outside_strings_only() {
        assert!(!nests_too_deep("[".repeat(MAX_NESTING).as_bytes()));
        assert!(nests_too_deep("[".repeat(MAX_NESTING + 1).as_bytes()));
        assert!(!nests_too_deep(format!("\"{}\\\"\"", "[".repeat(500)).as_bytes()));
    }

    #[test]
    fn a_broken_answer_is_known_as_one_and_a_broken_question_is_not() {
        let check = |text: &str, expected: (bool, bool)| {
            let error = Incoming::parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap_err();
            assert_eq!((error.is_answer, error.id.is_some()), expected, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, (true, true));
        check(r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, (true, true));
        check(r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, (true, false));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":5}"#, (false, true));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, (false, true));
        check(r#"{"jsonrpc":"2.0","id":1}"#, (false, true));
    }
}
