//! A message on its way out. A big prepared result is not copied; only its envelope is written.

use bytes::{BufMut, Bytes, BytesMut};
use toolyard_proto::codec::{line, sse};
use toolyard_proto::message::{outcome_head, render_error, render_result};
use toolyard_proto::{Id, Message, Notification, Raw};

/// Below this, copying into one buffer is cheaper than three.
const WORTH_SHARING: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    head: Bytes,
    /// A result between `head` and a closing brace.
    shared: Option<Bytes>,
}

impl Rendered {
    pub(crate) fn whole(message: Bytes) -> Self {
        Self { head: message, shared: None }
    }

    pub(crate) fn result(id: &Id, result: Raw) -> Self {
        if result.len() < WORTH_SHARING {
            return Self::whole(render_result(id, &result));
        }
        Self { head: outcome_head(id, "result"), shared: Some(result.into_bytes()) }
    }

    pub(crate) fn error(id: Option<&Id>, error: &Raw) -> Self {
        Self::whole(render_error(id, error))
    }

    pub(crate) fn notification(notification: Notification) -> Self {
        Self::whole(Message::Notification(notification).render())
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len() + 1)
    }

    /// The pieces to write one after the other.
    pub(crate) fn into_parts(self) -> [Bytes; 3] {
        match self.shared {
            None => [self.head, Bytes::new(), Bytes::new()],
            Some(shared) => [self.head, shared, Bytes::from_static(b"}")],
        }
    }

    fn contiguous(self) -> Bytes {
        match self.shared {
            None => self.head,
            Some(_) => Bytes::from(self.into_parts().concat()),
        }
    }

    /// One server-sent event. The message is on one `data` line, because some readers support no other form.
    pub(crate) fn into_event(self, id: Option<&str>) -> Bytes {
        sse::encode(&line::one_line(self.contiguous()), id)
    }

    /// The pieces of one line, its end included.
    pub(crate) fn into_line(self) -> [Bytes; 3] {
        let [head, shared, _] = self.into_parts();
        let end = if shared.is_empty() { "\n" } else { "}\n" };
        [line::one_line(head), line::one_line(shared), Bytes::from_static(end.as_bytes())]
    }
}

/// Several answers as one JSON array, for the one revision that had batches.
pub(crate) fn array(messages: Vec<Rendered>) -> Bytes {
    let mut out =
        BytesMut::with_capacity(messages.iter().map(|message| message.len() + 1).sum::<usize>() + 1);
    out.put_u8(b'[');
    for (at, message) in messages.into_iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        for part in message.into_parts() {
            out.put_slice(&part);
        }
    }
    out.put_u8(b']');
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: &str) {
        let raw = Raw::parse(result.to_owned()).unwrap();
        let rendered = Rendered::result(&Id::number(1), raw);
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}");
        assert_eq!(rendered.len(), expected.len());
        assert_eq!(rendered.clone().contiguous(), expected);
        let line = rendered.into_line().concat();
        assert_eq!(line, format!("{}\n", expected.replace('\n', " ")).as_bytes());
    }

    #[test]
    fn small_and_large_results_come_out_the_same() {
        check("{\"a\":\n1}");
        check(&format!("{{\"a\":\n\"{}\"}}", "x".repeat(WORTH_SHARING)));
    }
}
