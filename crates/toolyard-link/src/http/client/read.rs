//! Reads an answer of a modern upstream whole.

use http::Response;
use toolyard_model::Peer;
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::modern::SUBSCRIPTION_ID;
use toolyard_proto::{CallError, Id, Message, Method, Notification, Raw, Response as RpcResponse};

use crate::held_back::UNASKED_PROGRESS;
use crate::http::body::{Content, ReadError, content, read_whole};
use crate::http::connections::Arriving;
use crate::http::relayed;
use crate::http::sse::EventStream;
use crate::http::upstream::{FOREIGN_ANSWER, HttpUpstream, NO_MESSAGE, REQUEST};

/// Reads an answer whole; notifications on the way go to `peer`.
pub(crate) struct AnswerReader<'a> {
    pub(crate) upstream: &'a HttpUpstream,
    pub(crate) peer: &'a Peer,
    pub(crate) listens: bool,
    /// The request whose answer is waited for; any answer counts if this is `None`.
    pub(crate) id: Option<&'a Id>,
    /// The client that it is read for, if there is one.
    pub(crate) client: Option<&'a relayed::Client>,
}

impl AnswerReader<'_> {
    pub(crate) async fn read(&self, response: Response<Arriving>) -> Result<Raw, CallError> {
        match content(response.headers()) {
            Content::Json => self.read_json(response.into_body()).await,
            Content::Events => self.read_events(response.into_body()).await,
            Content::Other => Err(self.upstream.not_mcp(response.headers())),
        }
    }

    async fn read_json(&self, body: Arriving) -> Result<Raw, CallError> {
        let body = read_whole(body, MAX_MESSAGE).await.map_err(|error| match error {
            ReadError::Broken(cause) => self.upstream.lost(&cause),
            ReadError::TooLarge => self.upstream.too_large(),
        })?;
        match Message::parse(&body) {
            Ok(Message::Response(response)) if self.is_answered_by(&response) => {
                self.settle(response.outcome)
            }
            Ok(Message::Response(_)) => Err(self.upstream.bad_answer("it answered another request")),
            Ok(_) => Err(self.upstream.bad_answer("its answer is not a response")),
            Err(error) => Err(self.upstream.bad_answer(&error.message)),
        }
    }

    async fn read_events(&self, body: Arriving) -> Result<Raw, CallError> {
        let mut events = EventStream::new(body);
        while let Some(event) = events.next().await.map_err(|cause| self.upstream.lost(&cause))? {
            match Message::parse(&event.data) {
                Ok(Message::Response(response)) if self.is_answered_by(&response) => {
                    return self.settle(response.outcome);
                }
                Ok(Message::Notification(notification)) if self.may_pass(&notification) => {
                    self.note_unwanted(&notification);
                    self.peer.notify(plain(notification, self.listens));
                }
                Ok(Message::Notification(_)) => {
                    self.upstream.held_back.note(UNASKED_PROGRESS);
                    self.peer.alive();
                }
                Err(error) if error.is_answer => return Err(self.upstream.bad_answer(&error.message)),
                Ok(Message::Response(_)) => self.upstream.held_back.note(FOREIGN_ANSWER),
                Ok(Message::Request(_)) => self.upstream.held_back.note(REQUEST),
                Err(_) if event.data.is_empty() => {}
                Err(_) => self.upstream.held_back.note(NO_MESSAGE),
            }
        }
        Err(self.upstream.lost("the stream ended before the answer"))
    }

    /// All but progress is filtered nearer to the client, which may set its log level during the call.
    fn may_pass(&self, notification: &Notification) -> bool {
        let wants = |client: &relayed::Client| client.wants_progress;
        notification.method != Method::PROGRESS || self.client.is_none_or(wants)
    }

    fn note_unwanted(&self, notification: &Notification) {
        let client = self.client.filter(|_| !self.listens);
        if let Some(what) = client.and_then(|client| client.unwanted(notification)) {
            self.upstream.held_back.note(what);
        }
    }

    /// The id as it was sent, or in another spelling of the same string; an error may come without an id.
    fn is_answered_by(&self, response: &RpcResponse) -> bool {
        let (Some(wanted), Some(id)) = (self.id, &response.id) else { return true };
        is_same_id(id, wanted)
    }

    fn settle(&self, outcome: Result<Raw, Raw>) -> Result<Raw, CallError> {
        outcome.map_err(|error| CallError::reported(error).at(&self.upstream.name))
    }
}

/// Whether two ids are the same, however their string is spelled.
pub(crate) fn is_same_id(found: &Id, wanted: &Id) -> bool {
    found == wanted || {
        let text = found.as_raw().as_string();
        text.is_some() && text == wanted.as_raw().as_string()
    }
}

/// A notification for a listen, without the subscription id: the client's own subscription has another.
fn plain(notification: Notification, listens: bool) -> Notification {
    let Notification { method, params } = notification;
    let strip = |params: Raw| if listens { params.without_in("_meta", &[SUBSCRIPTION_ID]) } else { params };
    Notification { method, params: params.map(strip) }
}
