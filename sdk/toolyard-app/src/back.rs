//! The messages of a running tool to its caller, and of the tool set to its app.

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use toolyard_model::{Ask, AskError, Back, BoxFuture};
use toolyard_proto::app;
use toolyard_proto::codec::line::one_line;
use toolyard_proto::{Method, Notification, Raw};

/// Of one call: progress and partial results go to Toolyard; questions cannot.
pub(crate) struct CallBack {
    pub(crate) id: i64,
    pub(crate) outbox: mpsc::Sender<Bytes>,
}

impl Back for CallBack {
    fn notify(&self, notification: Notification) {
        let Some(params) = notification.params.filter(|_| notification.method == Method::PROGRESS) else {
            return;
        };
        if let Some(content) = params.at(&["_meta", app::PARTIAL]) {
            let line = Raw::from(json!({ "type": "toolPartial", "correlationId": self.id }));
            let _ = self.outbox.try_send(one_line(line.with("content", &content).into_bytes()));
            return;
        }
        let mut line = Raw::from(json!({ "type": "progress", "correlationId": self.id }));
        for key in ["progress", "total", "message"] {
            line = params.member(key).map_or(line.clone(), |value| line.with(key, &value));
        }
        // Dropped if Toolyard reads too slowly.
        let _ = self.outbox.try_send(line.into_bytes());
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("an app cannot ask its caller".into())) })
    }
}

/// Receives a notice when the tools of the set have changed.
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
