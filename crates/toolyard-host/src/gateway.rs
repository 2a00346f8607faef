//! The gateway that hosts the packs, as their tools call it. It owns the packs, so it is held weakly.

use std::sync::{Arc, OnceLock, Weak};

use toolyard_model::{Answer, BoxFuture, Handler, Origin, Peer, Request};
use toolyard_proto::{CallError, Raw};
use toolyard_tool::host::Gateway;

#[derive(Default)]
pub(crate) struct TheGateway(OnceLock<Weak<dyn Handler>>);

impl TheGateway {
    pub(crate) fn set(&self, gateway: &Arc<dyn Handler>) {
        let _ = self.0.set(Arc::downgrade(gateway));
    }
}

impl Gateway for TheGateway {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        match self.0.get().map(Weak::upgrade) {
            Some(Some(gateway)) => gateway.handle(request, peer),
            Some(None) => Box::pin(async { Err(CallError::unavailable("the gateway is stopping")) }),
            None => Box::pin(async {
                Err(CallError::unavailable(
                    "this pack is served alone, and other tools are only in the gateway",
                ))
            }),
        }
    }

    fn tool_id(&self, origin: &Origin, shown: &str) -> Option<String> {
        self.0.get().and_then(Weak::upgrade)?.tool_id(origin, shown)
    }

    fn search_tools(&self, origin: &Arc<Origin>, words: &str, limit: usize) -> Option<BoxFuture<Vec<Raw>>> {
        self.0.get().and_then(Weak::upgrade)?.search_tools(origin, words, limit)
    }
}
