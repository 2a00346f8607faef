//! An upstream behind a stream of lines (a child's stdio, a socket): many calls share the one channel, so
//! ids and progress tokens are minted here and mapped back.

mod incoming;
mod mux;
mod pump;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use toolyard_proto::Notification;

pub(crate) use mux::{Ending, ExplainEnd, Mux};

use toolyard_model::{
    Answer, AnswerBody, BoxFuture, Greeting, Link, LinkEvent, LinkRequest, Origin, Peer, Scope,
};

use crate::child::Process;
use crate::levels::SentLevel;
use crate::own::own_hop;

/// A link over any byte stream with one JSON-RPC message per line.
pub struct StreamLink {
    greeting: Greeting,
    channel: Channel,
    sent_level: Mutex<SentLevel>,
}

/// The running half of a link, before and after both sides have met. Dropping it ends it.
pub(crate) struct Channel {
    pub(crate) mux: Mux,
    /// What keeps the other end alive, if that is ours to stop.
    pub(crate) process: Option<Process>,
    pub(crate) scope: Scope,
}

impl StreamLink {
    pub(crate) fn new(greeting: Greeting, channel: Channel) -> Self {
        Self { greeting, channel, sent_level: Mutex::default() }
    }

    /// A link over a stream whose other end has been met already.
    pub fn over<R, W>(
        name: &Arc<str>,
        stream: (R, W),
        greeting: Greeting,
        scope: &Scope,
    ) -> (Self, mpsc::Receiver<LinkEvent>)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let scope = scope.child();
        let (mux, events) = Mux::start(name, stream, None, &scope);
        (Self::new(greeting, Channel { mux, process: None, scope }), events)
    }

    /// How many answers came for no call under way: late, unknown or repeated ones.
    pub fn stray_answers(&self) -> u64 {
        self.channel.mux.stray_answers()
    }

    /// How many lines were not understood.
    pub fn garbage_lines(&self) -> u64 {
        self.channel.mux.garbage_lines()
    }
}

impl std::fmt::Debug for StreamLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamLink").field("upstream", self.channel.mux.name()).finish_non_exhaustive()
    }
}

impl Link for StreamLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        let (mux, revision) = (self.channel.mux.clone(), self.greeting.revision);
        let mut sent = self.sent_level.lock().unwrap_or_else(PoisonError::into_inner);
        let level = sent.before(&request, &self.greeting);
        drop(sent);
        Box::pin(async move {
            if let Some(level) = level {
                // Its answer does not matter: the call is made all the same.
                let _ = Box::pin(mux.call(level, Peer::none())).await;
            }
            let result = mux.call(request, peer).await.map_err(own_hop)?;
            Ok(AnswerBody::Whole(result, revision))
        })
    }

    fn notify(&self, _origin: &Arc<Origin>, notification: Notification) {
        self.channel.mux.notify(notification);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_interactive(&self) -> bool {
        self.channel.mux.is_interactive()
    }

    fn close(&self) -> BoxFuture<()> {
        let (mux, process, scope) =
            (self.channel.mux.clone(), self.channel.process.clone(), self.channel.scope.clone());
        Box::pin(async move {
            mux.shut(&"was closed by the gateway".into());
            if let Some(process) = process {
                process.stop().await;
            }
            mux.ended().await;
            scope.cancel();
        })
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.mux.shut(&"was closed by the gateway".into());
        if let Some(process) = &self.process {
            process.begin_stop();
        }
    }
}
