//! Reading an upstream's event stream, message by message.

use http_body_util::BodyExt;
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::sse::{Event, EventDecoder};

use super::connections::Arriving;
use super::upstream::root_cause;

pub(crate) struct EventStream {
    body: Arriving,
    decoder: EventDecoder,
}

impl EventStream {
    pub(crate) fn new(body: Arriving) -> Self {
        Self { body, decoder: EventDecoder::new(MAX_MESSAGE) }
    }

    /// The next event; `None` when the stream ended properly, an error when it broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, String> {
        loop {
            if let Some(event) = self.decoder.next_event().map_err(|error| error.to_string())? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(root_cause(&error)),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.decoder.feed(data);
                    }
                }
            }
        }
    }
}
