//! The body of an answer from another node. It breaks off when the node has stopped responding: a machine that is
//! lost does not close its connections.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use toolyard_model::BoxFuture;
use toolyard_model::answer::{RelayBody, RelayError};
use toolyard_proto::CallError;

pub(super) struct Watched {
    pub(super) body: RelayBody,
    /// Completes when the node is lost. Taken then.
    pub(super) lost: Option<BoxFuture<()>>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some(lost) = &mut self.lost else { return Poll::Ready(None) };
        ready!(lost.as_mut().poll(cx));
        self.lost = None;
        Poll::Ready(Some(Err(RelayError::from(CallError::lost("its node has stopped responding")))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_body_breaks_off_when_its_node_is_lost() {
        let silent = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, RelayError>>());
        let mut body = Watched { body: Box::pin(silent), lost: Some(Box::pin(std::future::ready(()))) };
        assert!(body.frame().await.is_some_and(|frame| frame.is_err()));
        assert!(body.frame().await.is_none());
    }
}
