//! Meeting a child process. A probe may be the end of an older server, so it never costs more than the child
//! it was put to: a fresh one is spawned and spoken to in the old way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use toolyard_proto::{CallError, Era, Id, Kind, Method, Notification, Raw, Revision};

use super::{ConnectError, Connected, First, Plan, Trouble};
use crate::child::{self, ChildSpec, Process};
use crate::link::own_request;
use crate::probe::{Discovered, judge, legacy_greeting};
use crate::stream::{Channel, Mux, StreamLink};
use crate::{Greeting, LinkEvent, Peer};

/// How long output may still be read after the child itself has gone.
const DRAIN: Duration = Duration::from_millis(500);

pub(super) async fn connect(
    plan: &Plan<'_>,
    spec: &ChildSpec,
    first: First,
) -> Result<Connected, ConnectError> {
    match first {
        First::Only(Era::Legacy) => fresh_legacy(plan, spec, Revision::NEWEST_LEGACY).await,
        First::Only(Era::Modern) => modern_only(plan, spec).await,
        First::Probe => probe(plan, spec).await,
        First::LegacyThenProbe => match fresh_legacy(plan, spec, Revision::NEWEST_LEGACY).await {
            Err(error) if error.trouble != Trouble::CannotStart => {
                probe(plan, spec).await.map_err(|again| again.after(vec![error.message]))
            }
            settled => settled,
        },
    }
}

async fn probe(plan: &Plan<'_>, spec: &ChildSpec) -> Result<Connected, ConnectError> {
    let attempt = Attempt::start(plan, spec)?;
    let outcome =
        attempt.ask(plan, Method::DISCOVER, plan.offer.discover_params(), plan.timeouts.probe).await;
    let (offer, why) = match judge(outcome) {
        Discovered::Modern(greeting) => return Ok(attempt.met(greeting)),
        Discovered::Incompatible(why) => return Err(ConnectError::new(Trouble::Incompatible, why)),
        Discovered::Legacy { offer, why } => (offer, why),
    };
    let mut tried = vec![why];
    if !attempt.channel.mux.is_over() {
        match attempt.initialize(plan, offer).await {
            Ok(greeting) => return Ok(attempt.met(greeting)),
            Err(error) => tried.push(error.message),
        }
    }
    drop(attempt);
    fresh_legacy(plan, spec, offer).await.map_err(|error| error.after(tried))
}

async fn fresh_legacy(plan: &Plan<'_>, spec: &ChildSpec, offer: Revision) -> Result<Connected, ConnectError> {
    let attempt = Attempt::start(plan, spec)?;
    let greeting = attempt.initialize(plan, offer).await?;
    Ok(attempt.met(greeting))
}

async fn modern_only(plan: &Plan<'_>, spec: &ChildSpec) -> Result<Connected, ConnectError> {
    let attempt = Attempt::start(plan, spec)?;
    let outcome =
        attempt.ask(plan, Method::DISCOVER, plan.offer.discover_params(), plan.timeouts.connect).await;
    match judge(outcome) {
        Discovered::Modern(greeting) => Ok(attempt.met(greeting)),
        Discovered::Incompatible(why) => Err(ConnectError::new(Trouble::Incompatible, why)),
        Discovered::Legacy { why, .. } => Err(super::not_modern(&why)),
    }
}

/// One child, being met.
struct Attempt {
    channel: Channel,
    events: mpsc::Receiver<LinkEvent>,
}

impl Attempt {
    fn start(plan: &Plan<'_>, spec: &ChildSpec) -> Result<Self, ConnectError> {
        let scope = plan.scope.child();
        let started = child::spawn(plan.name, spec, &scope)
            .map_err(|why| ConnectError::new(Trouble::CannotStart, why))?;
        let process = started.process;
        let last_words = process.last_words();
        let (mux, events) = Mux::start(plan.name, (started.stdout, started.stdin), Some(last_words), &scope);
        scope.spawn(end_with(process.clone(), mux.clone()));
        Ok(Self { channel: Channel { mux, process: Some(process), scope }, events })
    }

    fn met(self, greeting: Greeting) -> Connected {
        Connected { link: Arc::new(StreamLink::new(greeting, self.channel)), events: self.events }
    }

    async fn ask(
        &self,
        plan: &Plan<'_>,
        method: Method,
        params: Raw,
        limit: Duration,
    ) -> Result<Raw, CallError> {
        let request = own_request(&plan.offer.origin(), Id::number(0), method, params);
        let answer = self.channel.mux.call(request, Peer::nobody());
        match tokio::time::timeout(limit, answer).await {
            Ok(outcome) => outcome,
            Err(_) => Err(CallError::timeout(format!("no answer within {limit:?}"))),
        }
    }

    async fn initialize(&self, plan: &Plan<'_>, offer: Revision) -> Result<Greeting, ConnectError> {
        let params = plan.offer.initialize_params(offer);
        let outcome = self.ask(plan, Method::INITIALIZE, params, plan.timeouts.connect).await;
        let result = outcome.map_err(|error| refused(&error))?;
        let greeting =
            legacy_greeting(result).map_err(|why| ConnectError::new(Trouble::Incompatible, why))?;
        self.channel.mux.say(Notification::new(Method::INITIALIZED, None)).await;
        Ok(greeting)
    }
}

fn refused(error: &CallError) -> ConnectError {
    let trouble =
        if matches!(error.kind, Kind::Reported(_)) { Trouble::Incompatible } else { Trouble::NoAnswer };
    ConnectError::new(trouble, format!("initialize: {}", error.message))
}

/// A child that is gone is no upstream, even if something it left behind still holds its output open.
async fn end_with(process: Process, mux: Mux) {
    process.exited().await;
    tokio::time::sleep(DRAIN).await;
    mux.shut("its process has ended");
}
