//! The place of a call in a distributed trace. A sink that exports traces gives it to the call; without one, a call
//! has none and nothing is added to what is sent.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use toolyard_proto::{Params, Raw};

/// How many sends of one call have spans of their own.
const MOST_SENDS: usize = 16;

pub type TraceId = [u8; 16];
pub type SpanId = [u8; 8];

/// The member of `_meta` that has the trace and the caller's span, and the one that goes with it.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// The trace of a call, and the spans that the gateway has in it.
#[derive(Debug)]
pub struct SpanContext {
    pub trace: TraceId,
    /// The span of the call itself.
    pub span: SpanId,
    /// The caller's span, if the caller has sent one.
    pub parent: Option<SpanId>,
    sends: Mutex<Vec<Sending>>,
}

/// The call on its way to an upstream. There are several if it is sent again.
#[derive(Clone, Debug)]
pub struct Sending {
    pub span: SpanId,
    pub upstream: Arc<str>,
    /// Microseconds since the call was opened.
    pub from: u64,
    /// `None` until it is answered, and for an answer that flows on until the end of the call.
    pub until: Option<u64>,
}

impl SpanContext {
    pub fn new(trace: TraceId, span: SpanId, parent: Option<SpanId>) -> Self {
        Self { trace, span, parent, sends: Mutex::default() }
    }

    pub fn sends(&self) -> Vec<Sending> {
        self.sends_mut().clone()
    }

    fn sends_mut(&self) -> MutexGuard<'_, Vec<Sending>> {
        self.sends.lock()
    }

    /// The parameters as they are sent: the span of this send is the parent of what the upstream does.
    pub(super) fn begin(&self, upstream: &Arc<str>, from: u64, params: Params) -> Params {
        let mut span = [0; 8];
        // Without randomness the trace has two spans of one id, which is all that is lost.
        let _ = getrandom::fill(&mut span);
        let mut sends = self.sends_mut();
        if sends.len() < MOST_SENDS {
            sends.push(Sending { span, upstream: upstream.clone(), from, until: None });
        }
        drop(sends);
        let params =
            if self.parent.is_none() { params.without_in("_meta", &[STATE]) } else { params.into_raw() };
        let parent = Raw::from_serialize(&traceparent(&self.trace, span));
        params.with_path(&["_meta", PARENT], &parent).into()
    }

    pub(super) fn end(&self, until: u64) {
        if let Some(last) = self.sends_mut().last_mut() {
            last.until = Some(until);
        }
    }
}

/// The trace context in the `_meta` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// No valid trace context.
    None,
    /// A trace that is recorded, and the caller's span in it.
    Recorded(TraceId, SpanId),
    /// A trace that is not recorded.
    NotRecorded,
}

/// Reads the caller's trace from the parameters of a request.
pub fn caller(params: &Params) -> Caller {
    let text = params.meta(PARENT).and_then(|parent| parent.as_string());
    text.and_then(|text| parse(&text)).unwrap_or(Caller::None)
}

/// `00-TRACE-SPAN-FLAGS` in lower case hex. Later versions may have more fields.
fn parse(text: &str) -> Option<Caller> {
    let mut fields = text.split('-');
    let version = fields.next()?;
    let trace = fields.next()?;
    let span = fields.next()?;
    let flags = fields.next()?;
    let [version] = hex::<1>(version)?;
    let has_known_form = version != u8::MAX && (version != 0 || fields.next().is_none());
    let (trace, span, [flags]) = (hex::<16>(trace)?, hex::<8>(span)?, hex::<1>(flags)?);
    let is_valid = has_known_form && trace != [0; 16] && span != [0; 8];
    is_valid.then_some(if flags & 1 == 1 { Caller::Recorded(trace, span) } else { Caller::NotRecorded })
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn traceparent(trace: &TraceId, span: SpanId) -> String {
    let mut text = String::with_capacity(55);
    text.push_str("00-");
    HEXLOWER.encode_append(trace, &mut text);
    text.push('-');
    HEXLOWER.encode_append(&span, &mut text);
    text.push_str("-01");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        Raw::parse(text.to_owned()).unwrap().into()
    }

    #[test]
    fn the_trace_of_a_caller_is_read_as_the_w3c_describes_it() {
        let read = |parent: &str| caller(&params(&format!(r#"{{"_meta":{{"traceparent":"{parent}"}}}}"#)));
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let recorded = Caller::Recorded(hex(trace).unwrap(), hex(span).unwrap());
        assert_eq!(read(&format!("00-{trace}-{span}-01")), recorded);
        assert_eq!(read(&format!("cc-{trace}-{span}-03-more")), recorded, "a later version");
        assert_eq!(read(&format!("00-{trace}-{span}-00")), Caller::NotRecorded);
        let zero = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{zero}-{span}-01"),
            format!("00-{trace}-{}-01", &zero[..16]),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", &trace[1..]),
        ] {
            assert_eq!(read(&wrong), Caller::None, "{wrong}");
        }
        assert_eq!(caller(&params(r#"{"_meta":{"traceparent":1}}"#)), Caller::None);
        assert_eq!(caller(&params("{}")), Caller::None);
    }

    #[test]
    fn the_sent_request_names_its_span_and_keeps_every_other_byte() {
        let with_parent = SpanContext::new([1; 16], [2; 8], Some([3; 8]));
        let sent = with_parent.begin(
            &"x".into(),
            5,
            params(r#"{"name" : "t", "_meta": {"tracestate":"a=b", "traceparent":"old","z" : 1}}"#),
        );
        let span = traceparent(&[1; 16], with_parent.sends()[0].span);
        assert_eq!(
            sent.as_str(),
            format!(r#"{{"name" : "t", "_meta": {{"tracestate":"a=b", "traceparent":"{span}","z" : 1}}}}"#)
        );
        let without = SpanContext::new([1; 16], [2; 8], None);
        let sent = without.begin(&"x".into(), 5, params(r#"{"_meta":{"tracestate":"a=b"}}"#));
        assert_eq!(caller(&sent), Caller::Recorded([1; 16], without.sends()[0].span));
        assert_eq!(sent.meta("tracestate"), None, "it belongs to a trace that cannot be read");
    }

    #[test]
    fn each_send_has_a_span_and_many_are_bounded() {
        let context = SpanContext::new([1; 16], [2; 8], None);
        for at in 0..100 {
            let _ = context.begin(&"x".into(), at, Params::none());
            context.end(at + 1);
        }
        let sends = context.sends();
        assert_eq!(sends.len(), MOST_SENDS);
        assert_eq!((sends[1].from, sends[1].until), (1, Some(2)));
        assert_ne!(sends[0].span, sends[1].span);
    }
}
