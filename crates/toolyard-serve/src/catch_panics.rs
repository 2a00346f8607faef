//! Converts a panic of a handler into an error answer to the one request that caused it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use toolyard_proto::{CallError, Method, Notification, Raw};

use toolyard_model::{Answer, BoxFuture, ClientKey, Handler, Origin, Peer, Request, View};

pub(super) struct CatchPanics(pub(super) Arc<dyn Handler>);

impl Handler for CatchPanics {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        let method = request.method.clone();
        match catch_unwind(AssertUnwindSafe(|| self.0.handle(request, peer))) {
            Ok(answer) => Box::pin(
                AssertUnwindSafe(answer)
                    .catch_unwind()
                    .map(move |answer| answer.unwrap_or_else(|panic| Err(broken(method.as_str(), &*panic)))),
            ),
            Err(panic) => {
                let error = broken(method.as_str(), &*panic);
                Box::pin(async { Err(error) })
            }
        }
    }

    fn notice(&self, origin: &Arc<Origin>, notification: Notification) {
        let method = notification.method.clone();
        let noticed = catch_unwind(AssertUnwindSafe(|| self.0.notice(origin, notification)));
        noticed.unwrap_or_else(|panic| drop(broken(method.as_str(), &*panic)));
    }

    fn began(&self, origin: &Arc<Origin>) {
        let began = catch_unwind(AssertUnwindSafe(|| self.0.began(origin)));
        began.unwrap_or_else(|panic| drop(broken("the start of a client", &*panic)));
    }

    fn ended(&self, client: &ClientKey) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.0.ended(client)));
        ended.unwrap_or_else(|panic| drop(broken("the end of a client", &*panic)));
    }

    fn save_session(&self, origin: &Origin) -> Option<String> {
        let kept = catch_unwind(AssertUnwindSafe(|| self.0.save_session(origin)));
        kept.unwrap_or_else(|panic| {
            broken("what a session keeps", &*panic);
            None
        })
    }

    fn restore_session(&self, origin: &Arc<Origin>, handler_state: &str) {
        let restored = catch_unwind(AssertUnwindSafe(|| self.0.restore_session(origin, handler_state)));
        restored.unwrap_or_else(|panic| drop(broken("a session that came back", &*panic)));
    }

    fn tool_id(&self, origin: &Origin, shown: &str) -> Option<String> {
        let found = catch_unwind(AssertUnwindSafe(|| self.0.tool_id(origin, shown)));
        found.unwrap_or_else(|panic| {
            broken("the id of a tool", &*panic);
            None
        })
    }

    fn search_tools(&self, origin: &Arc<Origin>, words: &str, limit: usize) -> Option<BoxFuture<Vec<Raw>>> {
        self.0.search_tools(origin, words, limit)
    }

    fn knows(&self, view: &View, method: &Method) -> bool {
        self.0.knows(view, method)
    }

    fn offers(&self, view: &View) -> bool {
        self.0.offers(view)
    }
}

/// The details go only to the log: they may contain something that the client must not see.
fn broken(what: &str, panic: &(dyn Any + Send)) -> CallError {
    let message =
        panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!("{what} panicked: {}", message.unwrap_or("no message"));
    CallError::internal(format!("{what} failed inside the server; its log has the reason"))
}
