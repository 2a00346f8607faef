//! Meeting a child process. A probe may be the end of an older server, so it never costs more than the child
//! it was put to: a fresh one is spawned and spoken to in the old way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
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
    let limit = plan.timeouts.probe;
    let mut discover = Box::pin(attempt.discover(plan));
    let in_time = timeout(limit, &mut discover).await;
    let late = in_time.is_err().then_some(discover);
    let (offer, why) = match judge(in_time.unwrap_or_else(|_| Err(no_answer(limit)))) {
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
        // A modern server that was merely slow to start has answered both questions by now.
        if let Some(late) = late
            && let Ok(outcome) = timeout(limit, late).await
            && let Discovered::Modern(greeting) = judge(outcome)
        {
            return Ok(attempt.met(greeting));
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
    let limit = plan.timeouts.connect;
    let outcome = timeout(limit, attempt.discover(plan)).await.unwrap_or_else(|_| Err(no_answer(limit)));
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

    /// Asks the modern question.
    fn discover(&self, plan: &Plan<'_>) -> impl Future<Output = Result<Raw, CallError>> + use<> {
        self.ask(plan, Method::DISCOVER, plan.offer.discover_params())
    }

    /// Borrows nothing, so that a late answer can still be taken.
    fn ask(
        &self,
        plan: &Plan<'_>,
        method: Method,
        params: Raw,
    ) -> impl Future<Output = Result<Raw, CallError>> + use<> {
        let request = own_request(&plan.offer.origin(), Id::number(0), method, params);
        let mux = self.channel.mux.clone();
        async move { mux.call(request, Peer::nobody()).await }
    }

    async fn initialize(&self, plan: &Plan<'_>, offer: Revision) -> Result<Greeting, ConnectError> {
        let (params, limit) = (plan.offer.initialize_params(offer), plan.timeouts.connect);
        let asked = timeout(limit, self.ask(plan, Method::INITIALIZE, params)).await;
        let result = asked.unwrap_or_else(|_| Err(no_answer(limit))).map_err(|error| refused(&error))?;
        let greeting =
            legacy_greeting(result).map_err(|why| ConnectError::new(Trouble::Incompatible, why))?;
        self.channel.mux.say(Notification::new(Method::INITIALIZED, None)).await;
        Ok(greeting)
    }
}

fn no_answer(limit: Duration) -> CallError {
    CallError::timeout(format!("no answer within {limit:?}"))
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
    mux.shut(&process.epitaph().await);
}
