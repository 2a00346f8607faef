//! The way back from a tool to whoever called it, and from the set to its app.

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use toolyard_model::{Ask, AskError, Back, BoxFuture};
use toolyard_proto::{Method, Notification, Raw};

/// Of one call: progress goes to Toolyard, questions cannot.
pub(crate) struct CallBack {
    pub(crate) id: i64,
    pub(crate) outbox: mpsc::Sender<Bytes>,
}

impl Back for CallBack {
    fn notify(&self, notification: Notification) {
        let Some(params) = notification.params.filter(|_| notification.method == Method::PROGRESS) else {
            return;
        };
        let mut line = Raw::from(json!({ "type": "progress", "correlationId": self.id }));
        for key in ["progress", "total", "message"] {
            line = params.member(key).map_or(line.clone(), |value| line.with(key, &value));
        }
        // Whoever reads too slowly misses some of it.
        let _ = self.outbox.try_send(line.into_bytes());
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("an app cannot ask whoever calls it".into())) })
    }
}

/// Hears that the set offers something else now.
pub(crate) struct ChangeBack(pub(crate) mpsc::Sender<()>);

impl Back for ChangeBack {
    fn notify(&self, notification: Notification) {
        if notification.method == Method::TOOLS_CHANGED {
            let _ = self.0.try_send(());
        }
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Gone) })
    }
}
