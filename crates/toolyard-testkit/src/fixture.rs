//! The conformance fixture: a tool set of the SDK with the tools, resources and prompts that the official
//! suite calls, plus a few of our own that show whether a payload came through unchanged.
//!
//! Its answers depend on the request alone, so that an answer through a gateway can be compared with a
//! direct one byte by byte. What changes does so only when a tool is called for it (`test_trigger_*`).
//!
//! A thin [`Handler`] around the set does what no set should do: speak one era only, have lists
//! that differ from one moment to the next, and offer unknown fields.

mod by_era;
mod completion;
mod content;
mod counts;
mod interactive;
mod jobs;
mod live;
mod odd;
mod plain;
mod prompts;
mod resources;
mod set;
mod skills;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::json;
use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Request};
use toolyard_proto::error::code::UNSUPPORTED_VERSION;
use toolyard_proto::{CallError, Notification, Raw, Revision};
use toolyard_tool::ToolSet;

use self::counts::Counts;

/// Whose requests are answered at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eras {
    #[default]
    Both,
    /// Modern requests are answered as by a server that does not know them.
    Legacy,
    /// An `initialize` is answered with the supported versions.
    Modern,
}

/// The server under test. Cheap to clone; clones are the same server.
#[derive(Clone, Debug)]
pub struct Fixture {
    eras: Eras,
    asks_by_era: bool,
    counts: Arc<Counts>,
    set: Arc<ToolSet<Arc<Counts>>>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self::speaking(Eras::default())
    }
}

impl Fixture {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn speaking(eras: Eras) -> Self {
        let counts = Arc::<Counts>::default();
        Self { eras, asks_by_era: false, set: Arc::new(set::set(counts.clone())), counts }
    }

    /// A server that also serves a skill of this name.
    pub fn with_skill(name: &str) -> Self {
        let counts = Arc::<Counts>::default();
        let set = skills::with_skill(set::set(counts.clone()), name);
        Self { eras: Eras::default(), asks_by_era: false, set: Arc::new(set), counts }
    }

    /// A server for both eras whose tools ask as those of the SDKs' own servers do: by a request in legacy sessions
    /// only, or by `input_required` in modern requests only.
    pub fn asking_by_era() -> Self {
        Self { asks_by_era: true, ..Self::new() }
    }
}

impl Eras {
    fn speak(self, revision: Revision) -> bool {
        match self {
            Self::Both => true,
            Self::Legacy => !revision.is_modern(),
            Self::Modern => revision.is_modern(),
        }
    }

    fn versions(self) -> Vec<&'static str> {
        let spoken = Revision::ALL.into_iter().rev().filter(|revision| self.speak(*revision));
        spoken.map(Revision::as_str).collect()
    }

    fn refusal(self, request: &Request) -> CallError {
        if self == Self::Legacy {
            return CallError::unknown_method(request.method.as_str());
        }
        let data = json!({ "supported": self.versions(), "requested": request.origin.revision.as_str() });
        let message = "this server speaks no legacy version";
        CallError::reported(json!({ "code": UNSUPPORTED_VERSION, "message": message, "data": data }).into())
    }
}

impl Handler for Fixture {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        if !self.eras.speak(request.origin.revision) {
            let refusal = self.eras.refusal(&request);
            return Box::pin(async { Err(refusal) });
        }
        let refusal = self.asks_by_era.then(|| by_era::refusal(&request)).flatten();
        if let Some(refusal) = refusal {
            return Box::pin(async { refusal });
        }
        let peer = if self.asks_by_era { by_era::peer(&request, peer) } else { peer };
        let eras = self.eras;
        let counts = self.counts.clone();
        let method = request.method.clone();
        let answering = self.set.handle(request, peer);
        Box::pin(async move {
            let answer = answering.await?;
            let AnswerBody::Whole(result, revision) = answer else { return Ok(answer) };
            let result = match method.as_str() {
                "server/discover" => result.with("supportedVersions", &Raw::from_serialize(&eras.versions())),
                method => odd::list(method, result, &counts),
            };
            Ok(AnswerBody::Whole(result, revision))
        })
    }

    fn notice(&self, origin: &Arc<Origin>, notification: Notification) {
        self.set.notice(origin, notification);
    }

    fn ended(&self, client: &ClientKey) {
        self.set.ended(client);
    }
}
