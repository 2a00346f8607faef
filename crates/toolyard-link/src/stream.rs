//! An upstream behind a stream of lines (a child's stdio, a socket). All calls share one channel, so their ids and
//! progress tokens are replaced by our own and mapped back.

mod incoming;
mod mux;
mod pump;

use std::sync::Arc;

use parking_lot::Mutex;
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
    channel: StreamChannel,
    sent_level: Mutex<SentLevel>,
}

/// The channel of a link, before and after the handshake. Dropping it closes the channel.
pub(crate) struct StreamChannel {
    pub(crate) mux: Mux,
    /// The process at the other end, if it is ours to stop.
    pub(crate) process: Option<Process>,
    pub(crate) scope: Scope,
}

impl StreamLink {
    pub(crate) fn new(greeting: Greeting, channel: StreamChannel) -> Self {
        if !greeting.revision.keeps_level() {
            channel.mux.take_levels();
        }
        Self { greeting, channel, sent_level: Mutex::default() }
    }

    /// A link over a stream after its handshake.
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
        (Self::new(greeting, StreamChannel { mux, process: None, scope }), events)
    }

    /// How many answers matched no call in flight: late, unknown or repeated answers.
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
        let mut sent = self.sent_level.lock();
        let level = sent.before(&request, &self.greeting);
        drop(sent);
        Box::pin(async move {
            if let Some(level) = level {
                // The answer is ignored: the call is made even if the level could not be set.
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
        let mux = self.channel.mux.clone();
        let process = self.channel.process.clone();
        let scope = self.channel.scope.clone();
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

impl Drop for StreamChannel {
    fn drop(&mut self) {
        self.mux.shut(&"was closed by the gateway".into());
        if let Some(process) = &self.process {
            process.begin_stop();
        }
    }
}
