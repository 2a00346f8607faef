//! Spans in the binary form of OTLP: the message `ExportTraceServiceRequest`, written field by field. Few kinds of
//! fields are needed, so that a library and its code generator would be larger than this file.

use toolyard_core::ledger::spans::Sending;

use crate::finished::Finished;

const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const FAILED: u64 = 2;

/// The attributes of the gateway itself.
pub(crate) struct Resource<'a> {
    pub(crate) service: &'a str,
    pub(crate) instance: &'a str,
}

/// One request with the spans of these calls.
pub(crate) fn request(resource: &Resource<'_>, calls: &[Finished]) -> Vec<u8> {
    let mut out = Message::default();
    out.message(1, |resource_spans| {
        resource_spans.message(1, |out| {
            out.attribute(1, "service.name", Value::Text(resource.service));
            out.attribute(1, "service.version", Value::Text(env!("CARGO_PKG_VERSION")));
            out.attribute(1, "service.instance.id", Value::Text(resource.instance));
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, b"toolyard");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for call in calls {
                scope_spans.message(2, |span| server_span(span, call));
                for (at, sending) in call.sends.iter().enumerate() {
                    let is_last = at + 1 == call.sends.len();
                    scope_spans.message(2, |span| client_span(span, call, sending, is_last));
                }
            }
        });
    });
    out.0
}

/// The call as the client sees it.
fn server_span(out: &mut Message, call: &Finished) {
    out.ids(call, &call.span, call.parent.as_ref());
    out.bytes(5, call.span_name().as_bytes());
    out.number(6, SERVER);
    out.fixed(7, call.at(0));
    out.fixed(8, call.end());
    common(out, call);
    out.attribute(9, "mcp.protocol.version", Value::Text(call.revision));
    out.attribute(9, "toolyard.principal", Value::Text(&call.record.principal));
    out.attribute(9, "toolyard.call", Value::Number(call.call));
    out.attribute(9, "toolyard.attempts", Value::Number(u64::from(call.record.attempts)));
    if let Some(passed) = call.passed {
        out.attribute(9, "toolyard.steps_us", Value::Number(passed));
    }
    if let (Some(passed), Some(leased)) = (call.passed, call.leased) {
        out.attribute(9, "toolyard.wait_us", Value::Number(leased.saturating_sub(passed)));
    }
    for note in &call.notes {
        out.message(11, |event| {
            event.fixed(1, call.at(note.at));
            event.bytes(2, note.step.as_bytes());
            event.attribute(3, "toolyard.decision", Value::Text(&note.text));
        });
    }
    status(out, call);
}

/// The call as it was sent to an upstream.
fn client_span(out: &mut Message, call: &Finished, sending: &Sending, is_last: bool) {
    out.ids(call, &sending.span, Some(&call.span));
    out.bytes(5, call.span_name().as_bytes());
    out.number(6, CLIENT);
    out.fixed(7, call.at(sending.from));
    out.fixed(8, sending.until.map_or_else(|| call.end(), |until| call.at(until)));
    common(out, call);
    out.attribute(9, "toolyard.upstream", Value::Text(&sending.upstream));
    if is_last {
        status(out, call);
    }
}

/// The attributes of the conventions for MCP that both kinds of spans have.
fn common(out: &mut Message, call: &Finished) {
    out.attribute(9, "mcp.method.name", Value::Text(call.record.method.as_str()));
    if let Some(target) = call.target() {
        let key = if call.is_tool_call() { "gen_ai.tool.name" } else { "gen_ai.prompt.name" };
        out.attribute(9, key, Value::Text(target));
    }
    if call.is_tool_call() {
        out.attribute(9, "gen_ai.operation.name", Value::Text("execute_tool"));
    }
    if let Some(error) = call.error() {
        out.attribute(9, "error.type", Value::Text(&error));
    }
    if let Some(code) = call.record.status.code() {
        out.attribute(9, "rpc.response.status_code", Value::Text(&code.to_string()));
    }
}

fn status(out: &mut Message, call: &Finished) {
    if let Some(error) = call.error().filter(|_| call.record.status.is_failure()) {
        out.message(15, |status| {
            status.bytes(2, error.as_bytes());
            status.number(3, FAILED);
        });
    }
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a str),
    Number(u64),
}

/// A message as it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap_or(0));
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn ids(&mut self, call: &Finished, span: &[u8], parent: Option<&[u8; 8]>) {
        self.bytes(1, &call.trace);
        self.bytes(2, span);
        if let Some(parent) = parent {
            self.bytes(4, parent);
        }
    }

    fn attribute(&mut self, field: u64, key: &str, value: Value<'_>) {
        self.message(field, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, |any| match value {
                Value::Text(text) => any.bytes(1, text.as_bytes()),
                Value::Number(number) => any.number(3, number),
            });
        });
    }
}
