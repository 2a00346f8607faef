//! Connecting to an upstream on a stream of lines: a child process or a socket. A probe may end a legacy server,
//! so it never costs more than the child or connection that it was sent to: a fresh one is opened for the legacy
//! handshake.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use toolyard_model::{Connected, Greeting, LinkEvent, Peer};
use toolyard_proto::{CallError, Era, Id, Kind, Method, Notification, Raw, Revision};

use super::source::{OpenedSource, Source};
use super::{ConnectError, FirstProbe, Plan, Trouble};
use crate::child::Input;
use crate::own::own_request;
use crate::probe::{Discovered, judge, legacy_greeting, rejected};
use crate::stream::{StreamChannel, StreamLink};

pub(super) async fn connect(
    plan: &Plan<'_>,
    source: Source<'_>,
    first: FirstProbe,
) -> Result<Connected, ConnectError> {
    match first {
        FirstProbe::Only(Era::Legacy) => fresh_legacy(plan, source, Revision::NEWEST_LEGACY).await,
        FirstProbe::Only(Era::Modern) => modern_only(plan, source).await,
        FirstProbe::Probe => probe(plan, source, Silence::MeansLegacy).await,
        FirstProbe::ProbeModern => probe(plan, source, Silence::MeansSlow).await,
        FirstProbe::LegacyThenProbe => match fresh_legacy(plan, source, Revision::NEWEST_LEGACY).await {
            Err(error) if !matches!(error.trouble, Trouble::CannotStart | Trouble::NoAnswer) => {
                let probed = probe(plan, source, Silence::MeansLegacy).await;
                probed.map_err(|again| again.after([error.reason]))
            }
            settled => settled,
        },
    }
}

/// The meaning of a probe that is not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    MeansLegacy,
    MeansSlow,
}

async fn probe(plan: &Plan<'_>, source: Source<'_>, silence: Silence) -> Result<Connected, ConnectError> {
    let attempt = ChildAttempt::start(plan, source).await?;
    let mut discover = Box::pin(attempt.discover(plan));
    let in_time = match silence {
        Silence::MeansLegacy => attempt.answer_to_probe(plan, &mut discover).await,
        Silence::MeansSlow => match timeout(attempt.patience(plan), &mut discover).await {
            Ok(answer) => Some(answer),
            Err(_) => return Err(attempt.silent(plan)),
        },
    };
    let was_silent = in_time.is_none();
    let late = was_silent.then_some(discover);
    let limit = plan.timeouts.probe;
    let (offer, why) =
        match judge(plan.name, in_time.unwrap_or_else(|| Err(no_answer(plan, &Method::DISCOVER, limit)))) {
            Discovered::Modern(greeting) => return Ok(attempt.connected(greeting)),
            Discovered::Incompatible(why) => return Err(ConnectError::new(Trouble::Incompatible, why)),
            Discovered::Legacy { offer, why } => (offer, why),
        };
    let mut tried = vec![why];
    if !attempt.channel.mux.is_over() {
        match (attempt.initialize(plan, offer).await, late) {
            (Ok(greeting), None) => return Ok(attempt.connected(greeting)),
            (Ok(greeting), Some(late)) => return Ok(settle(plan, source, attempt, greeting, late).await),
            (Err(error), None) if error.trouble == Trouble::NoAnswer => return Err(error),
            (Err(error), None) => tried.push(error.reason),
            (Err(error), Some(late)) => {
                // A modern server that was merely slow to start has answered both questions by now.
                if let Ok(Discovered::Modern(greeting)) =
                    timeout(limit, late).await.map(|late| judge(plan.name, late))
                {
                    return Ok(attempt.connected(greeting));
                }
                if error.trouble == Trouble::NoAnswer {
                    return Err(error);
                }
                tried.push(error.reason);
            }
        }
    }
    let was_gone = attempt.channel.mux.is_over();
    drop(attempt);
    fresh_legacy(plan, source, offer).await.map_err(|error| match error.trouble {
        // A child that ends, or does not answer, in either era did not fail because of the era.
        Trouble::Gone if was_gone => error,
        Trouble::NoAnswer if was_silent => error,
        _ => error.after(tried),
    })
}

/// Decides the era of a child that did not answer `server/discover` in time, but accepted `initialize`. Since
/// `server/discover` was sent first, its answer has arrived by now, if there is one. If it is modern, a new
/// connection is made: how a server behaves that has received both on one connection is not defined.
async fn settle(
    plan: &Plan<'_>,
    source: Source<'_>,
    attempt: ChildAttempt,
    greeting: Greeting,
    late: impl Future<Output = Result<Raw, CallError>>,
) -> Connected {
    let guessed = match late.now_or_never().map(|late| judge(plan.name, late)) {
        Some(Discovered::Modern(_)) => match modern_only(plan, source).await {
            Ok(modern) => return modern,
            Err(_) => true,
        },
        Some(Discovered::Legacy { .. }) => false,
        Some(Discovered::Incompatible(_)) | None => true,
    };
    attempt.connected(Greeting { guessed, ..greeting })
}

async fn fresh_legacy(
    plan: &Plan<'_>,
    source: Source<'_>,
    offer: Revision,
) -> Result<Connected, ConnectError> {
    let attempt = ChildAttempt::start(plan, source).await?;
    let greeting = attempt.initialize(plan, offer).await?;
    Ok(attempt.connected(greeting))
}

async fn modern_only(plan: &Plan<'_>, source: Source<'_>) -> Result<Connected, ConnectError> {
    let attempt = ChildAttempt::start(plan, source).await?;
    let limit = attempt.patience(plan);
    let outcome = timeout(limit, attempt.discover(plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(no_answer(plan, &Method::DISCOVER, limit)));
    match judge(plan.name, outcome) {
        Discovered::Modern(greeting) => Ok(attempt.connected(greeting)),
        Discovered::Incompatible(why) => Err(ConnectError::new(Trouble::Incompatible, why)),
        Discovered::Legacy { why, .. } => Err(super::not_modern(plan.name, &why)),
    }
}

/// An attempt to connect to one child or socket.
struct ChildAttempt {
    channel: StreamChannel,
    events: mpsc::Receiver<LinkEvent>,
    input: Option<Input>,
}

impl ChildAttempt {
    async fn start(plan: &Plan<'_>, source: Source<'_>) -> Result<Self, ConnectError> {
        let OpenedSource { channel, events, input } = source.open(plan).await?;
        Ok(Self { channel, events, input })
    }

    /// Waits for the answer to a probe; `None` if the upstream is silent. A child that has not read the probe yet
    /// is still starting, so its silence does not count.
    async fn answer_to_probe<F>(&self, plan: &Plan<'_>, probe: &mut F) -> Option<F::Output>
    where
        F: Future + Unpin,
    {
        let begun = Instant::now();
        loop {
            if let Ok(answer) = timeout(plan.timeouts.probe, &mut *probe).await {
                return Some(answer);
            }
            let is_starting = self.input.as_ref().is_some_and(Input::is_unread);
            if !is_starting || begun.elapsed() >= self.patience(plan) {
                return None;
            }
        }
    }

    /// How long the upstream may take to answer.
    fn patience(&self, plan: &Plan<'_>) -> Duration {
        if self.channel.process.is_some() { plan.timeouts.start } else { plan.timeouts.connect }
    }

    fn connected(self, greeting: Greeting) -> Connected {
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
        async move { mux.call(request, Peer::none()).await }
    }

    async fn initialize(&self, plan: &Plan<'_>, offer: Revision) -> Result<Greeting, ConnectError> {
        let (params, limit) = (plan.offer.initialize_params(offer), self.patience(plan));
        let asked = timeout(limit, self.ask(plan, Method::INITIALIZE, params)).await;
        let result = asked.unwrap_or_else(|_| Err(no_answer(plan, &Method::INITIALIZE, limit)));
        let result =
            result.map_err(|error| self.gone(plan, &error).unwrap_or_else(|| self.refused(plan, error)))?;
        let greeting = legacy_greeting(plan.name, result)
            .map_err(|why| ConnectError::new(Trouble::Incompatible, why))?;
        self.channel.mux.say(Notification::new(Method::INITIALIZED, None)).await;
        Ok(greeting)
    }
}

impl ChildAttempt {
    /// The error where it ended instead of answering.
    fn gone(&self, plan: &Plan<'_>, error: &CallError) -> Option<ConnectError> {
        let mut ending = self.channel.mux.over().filter(|_| error.kind == Kind::Lost)?;
        ending.what.push_str(" before it answered");
        let reason = ending.reason(plan.name).with_hint(format!("check that {}", self.expected()));
        Some(ConnectError::new(Trouble::Gone, reason))
    }

    fn refused(&self, plan: &Plan<'_>, error: CallError) -> ConnectError {
        let (trouble, hint) = match error.kind {
            Kind::Reported(_) => (Trouble::Incompatible, "look at the log of the server".to_owned()),
            Kind::Timeout => (Trouble::NoAnswer, self.advice()),
            _ => (Trouble::NoAnswer, format!("check that {}", self.expected())),
        };
        let reason = rejected(plan.name, &Method::INITIALIZE, error);
        ConnectError::new(trouble, reason.or_hint(hint))
    }

    /// The expectation about the other side, for messages.
    fn expected(&self) -> &'static str {
        if self.channel.process.is_some() {
            "`command` and `args` start an MCP server"
        } else {
            "an MCP server listens there"
        }
    }

    /// The error of an upstream that was modern before and does not answer.
    fn silent(&self, plan: &Plan<'_>) -> ConnectError {
        let error = no_answer(plan, &Method::DISCOVER, self.patience(plan));
        ConnectError::new(Trouble::NoAnswer, error.reason.or_hint(self.advice()))
    }

    fn advice(&self) -> String {
        let key = if self.channel.process.is_some() { "start_timeout" } else { "connect_timeout" };
        format!("check that {}, or raise `{key}`", self.expected())
    }
}

fn no_answer(plan: &Plan<'_>, method: &Method, limit: Duration) -> CallError {
    CallError::timeout(super::silent(plan, method, limit))
}
