//! Listening to a modern upstream for changes of its lists, and listening again after it has ended that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolyard_model::{Answer, Peer};
use toolyard_proto::error::code;
use toolyard_proto::{Kind, Method};

use super::{Driver, STEADY};
use crate::catalog::ListKind;
use crate::upstream::fetch::own_request;
use crate::upstream::subscribe::NotificationSink;

pub(super) const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// The longest pause before listening again to an upstream that always ends it at once.
const LISTEN_AT_MOST: Duration = Duration::from_mins(1);

impl Driver<'_> {
    pub(super) fn listen(&mut self) {
        self.listen_at = None;
        self.listen_since = Instant::now();
        let params = serde_json::json!({ "notifications": {
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        } });
        let request = own_request(
            self.link.as_ref(),
            &self.outlets.origin,
            Method::LISTEN,
            params.into(),
            "yard-listen",
        );
        self.listening =
            Some(self.link.call(request, Peer::new(Arc::new(NotificationSink(self.notify.clone())))));
    }

    pub(super) fn listen_ended(&mut self, answer: Answer) {
        self.listening = None;
        match answer {
            Err(error) if error.code() == code::METHOD_NOT_FOUND => return,
            Err(error) if matches!(error.kind, Kind::Unavailable | Kind::Unreachable | Kind::Lost) => {
                self.upstream.life.suspect();
            }
            _ => {}
        }
        // Changes in between were missed.
        self.dirty = ListKind::ALL.to_vec();
        let held = self.listen_since.elapsed() >= STEADY;
        self.listen_pause = if held { LISTEN_AGAIN } else { (self.listen_pause * 2).min(LISTEN_AT_MOST) };
        self.listen_at = Some(Instant::now() + self.listen_pause);
    }
}
