//! A set as an upstream in the same process, without a transport; for the gateway and for tests.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolyard_model::{
    Answer, BoxFuture, ClientKey, Connected, Greeting, Handler, Link, LinkEvent, LinkRequest, Origin, Peer,
    Request,
};
use toolyard_proto::modern::RequestMeta;
use toolyard_proto::{Notification, Raw, Revision};

use crate::ToolSet;

impl<S: Send + Sync + 'static> ToolSet<S> {
    /// The set as an upstream: a link to call, and what happens outside of calls. Can be called again; all
    /// links lead to the same set.
    ///
    /// Nothing is started and no state is made before the first call. Only stored tasks that an earlier program left
    /// unfinished are taken over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use toolyard_tool::ToolSet;
    ///
    /// let set = Arc::new(ToolSet::new("clock", "1.0.0").instructions("Ask for the time."));
    /// let connected = set.connect();
    /// assert!(connected.link.greeting().instructions.is_some());
    /// ```
    pub fn connect(self: &Arc<Self>) -> Connected {
        self.tasks.adopt();
        let greeting = Greeting::read(Revision::NEWEST, self.greeting());
        let (closed, events) = mpsc::channel(1);
        let link = MemoryLink { handler: self.clone(), greeting, closed: Mutex::new(Some(closed)) };
        Connected { link: Arc::new(link), events }
    }
}

/// A link to a handler in the same process.
struct MemoryLink {
    handler: Arc<dyn Handler>,
    greeting: Greeting,
    closed: Mutex<Option<mpsc::Sender<LinkEvent>>>,
}

impl Link for MemoryLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        let LinkRequest { origin, id, method, params, headers, call, parent, .. } = request;
        let origin = match as_asked(&origin, &params, self.greeting.revision) {
            Ok(origin) => origin,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let request = Request::new(origin, id, method, params).with_headers(headers).numbered(call, parent);
        self.handler.handle(request, peer)
    }

    fn is_in_process(&self) -> bool {
        true
    }

    fn notify(&self, origin: &Arc<Origin>, notification: Notification) {
        self.handler.notice(origin, notification);
    }

    fn forget(&self, client: &ClientKey) {
        self.handler.ended(client);
    }

    fn close(&self) -> BoxFuture<()> {
        let closed = self.closed.lock().take();
        Box::pin(async move {
            if let Some(closed) = closed {
                // If the event is not received, the link has been dropped already.
                let _ = closed.try_send(LinkEvent::Closed("the link was closed".into()));
            }
        })
    }
}

/// The origin as the request's `_meta` describes it. A request of another revision has been converted, and the given
/// origin describes the client as it was before.
fn as_asked(
    origin: &Arc<Origin>,
    params: &Raw,
    revision: Revision,
) -> Result<Arc<Origin>, toolyard_proto::CallError> {
    if origin.revision == revision {
        return Ok(origin.clone());
    }
    let meta = RequestMeta::read(params)?;
    Ok(Arc::new(
        Origin::new(origin.view.clone(), origin.principal.clone(), origin.client.clone(), meta.revision)
            .with_capabilities(meta.capabilities)
            .with_client_info(meta.client_info)
            .with_log_level(meta.log_level)
            .with_place(origin.is_proven, origin.folder.clone()),
    ))
}

impl fmt::Debug for MemoryLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryLink")
    }
}
