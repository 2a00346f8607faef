//! What the tests of links share: requests, a peer that records, and bounded waits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolyard_link::Offer;
use toolyard_model::{
    Answer, AnswerBody, Ask, AskError, Back, BoxFuture, ClientKey, LinkEvent, LinkRequest, Origin, Peer,
    Principal, View,
};
use toolyard_proto::{CallError, Id, Method, Notification, Raw, Revision};
use tracing::subscriber::DefaultGuard;

/// Every wait in these tests ends.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it happens in time")
}

/// For tests with a paused clock and a network: a wait for the network would make time leap to the next
/// deadline. As long as the result lives it only goes ten times as fast as it should.
pub(crate) fn time_walks() -> JoinSet<()> {
    let mut walking = JoinSet::new();
    walking.spawn(async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    walking
}

pub(crate) fn raw(value: Value) -> Raw {
    value.into()
}

pub(crate) fn value(raw: &Raw) -> Value {
    raw.read().unwrap()
}

pub(crate) fn offer() -> Offer {
    Offer { capabilities: raw(json!({"roots": {}})), client_info: raw(json!({"name": "t", "version": "1"})) }
}

pub(crate) fn origin(client: ClientKey, revision: Revision) -> Arc<Origin> {
    Arc::new(
        Origin::new(View::Everything, Principal::local(), client, revision)
            .with_capabilities(raw(json!({"elicitation": {}})))
            .with_client_info(Some(raw(json!({"name": "client", "version": "1"})))),
    )
}

pub(crate) fn connection(number: u64) -> Arc<Origin> {
    origin(ClientKey::Connection(number), Revision::NEWEST_LEGACY)
}

pub(crate) fn request(origin: &Arc<Origin>, id: Id, method: Method, params: Value) -> LinkRequest {
    LinkRequest::new(origin.clone(), id, method, raw(params))
}

pub(crate) fn call(client: u64, params: Value) -> LinkRequest {
    request(&connection(client), Id::string("c"), Method::TOOLS_CALL, params)
}

/// A way back that keeps what it receives and answers every question the same.
pub(crate) struct Recorder {
    seen: mpsc::UnboundedSender<Received>,
    answer: Value,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Received {
    Note(String, Value),
    Ask(String),
    HangUp(Duration),
}

pub(crate) fn recorder() -> (Peer, mpsc::UnboundedReceiver<Received>) {
    let (seen, received) = mpsc::unbounded_channel();
    (Peer::new(Arc::new(Recorder { seen, answer: json!({"action": "accept"}) })), received)
}

impl Back for Recorder {
    fn notify(&self, notification: Notification) {
        let params = notification.params.map_or(Value::Null, |params| value(&params));
        let _ = self.seen.send(Received::Note(notification.method.as_str().to_owned(), params));
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let _ = self.seen.send(Received::Ask(ask.method.as_str().to_owned()));
        let answer = raw(self.answer.clone());
        Box::pin(async move { Ok(answer) })
    }

    fn hang_up(&self, come_back_after: Duration) {
        let _ = self.seen.send(Received::HangUp(come_back_after));
    }
}

/// A file with what this thread logs for users while the guard lives.
pub(crate) fn logged() -> (NamedTempFile, DefaultGuard) {
    let log = NamedTempFile::new().unwrap();
    let logger = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
    let guard = tracing::subscriber::set_default(logger.with_writer(log.reopen().unwrap()).finish());
    (log, guard)
}

pub(crate) fn whole(answer: Answer) -> Value {
    match answer {
        Ok(AnswerBody::Whole(result, _)) => value(&result),
        other => panic!("not a whole answer: {other:?}"),
    }
}

pub(crate) fn failed(answer: Answer) -> CallError {
    answer.expect_err("the call fails")
}

pub(crate) async fn next_event(events: &mut mpsc::Receiver<LinkEvent>) -> LinkEvent {
    soon(events.recv()).await.expect("there is an event")
}

/// Waits for the end of a link and returns its reason.
pub(crate) async fn closed(events: &mut mpsc::Receiver<LinkEvent>) -> String {
    loop {
        if let LinkEvent::Closed(why) = next_event(events).await {
            return why.to_string();
        }
    }
}
