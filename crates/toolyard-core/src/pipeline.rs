//! The pipeline that every call passes. The audit wraps the dispatch of every request; the other steps form the chain
//! of a catalog entry, outermost first. Only [`Chains::build`] defines their order.

pub(crate) mod audit;
pub mod deadline;
pub mod limit;
pub mod policy;
mod hooks;
pub mod validate;
pub mod retry;
mod route;
mod rules;
mod sampling;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard};
use toolyard_hooks::Runtime;
use toolyard_model::{Answer, AnswerBody, BoxFuture};
use toolyard_proto::Reason;
use toolyard_proto::name::UpstreamId;

use limit::Limiters;
use policy::Governor;
use retry::{CatalogCell, CoolDowns};
pub(crate) use rules::StepRules;
use rules::StepSettings;

use crate::approvals::Approvals;

pub use crate::call::{Call, Edits, Trace};
use crate::catalog::Catalog;
use crate::event::{Events, Sinks};
use crate::ledger::Ledger;
use crate::plan::{DisabledUpstream, Timeouts, UpstreamPlan};
use crate::report::Sections;
use crate::status::UpstreamStatus;

/// One stage that a call passes. It can inspect the call, wait, refuse it, or pass it on and inspect the answer.
pub trait Step: Send + Sync + 'static {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer>;

    /// Whether the step needs the whole answer. Answers of calls with such a step are buffered, up to the size limit for
    /// answers that are not relayed. All other answers may be streamed.
    fn needs_whole(&self) -> bool {
        false
    }
}

/// The steps that calls of an entry pass, shared by all entries with the same settings.
pub struct Steps {
    steps: Box<[Arc<dyn Step>]>,
    needs_whole: bool,
}

pub type Chain = Arc<Steps>;

impl Steps {
    pub fn new(steps: impl IntoIterator<Item = Arc<dyn Step>>) -> Chain {
        let steps: Box<[Arc<dyn Step>]> = steps.into_iter().collect();
        let needs_whole = steps.iter().any(|step| step.needs_whole());
        Arc::new(Self { steps, needs_whole })
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps({})", self.steps.len())
    }
}

/// Steps that the embedding program adds. They run between hooks and validation, so that schemas and rules judge the
/// arguments as these steps have changed them.
#[derive(Clone, Default)]
pub struct ExtraSteps(pub Vec<Arc<dyn Step>>);

impl fmt::Debug for ExtraSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraSteps({})", self.0.len())
    }
}

/// The records and reports that all parts of a gateway share.
#[derive(Default)]
pub(crate) struct Common {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) events: Arc<Events>,
    /// Additional sections of the report on the gateway.
    pub(crate) sections: Sections,
    /// Upstreams that the config has and that are not started.
    pub(crate) disabled: Mutex<Vec<DisabledUpstream>>,
    /// Upstreams that an operator has switched off, with their plans.
    switched_off: Mutex<BTreeMap<UpstreamId, UpstreamPlan>>,
}

impl Common {
    pub(crate) fn new(sinks: Sinks, disabled: Vec<DisabledUpstream>) -> Self {
        let events = Arc::new(Events::new(sinks));
        let ledger = Arc::new(Ledger::new(events.clone()));
        Self { ledger, events, disabled: Mutex::new(disabled), ..Self::default() }
    }

    pub(crate) fn switched_off(&self) -> MutexGuard<'_, BTreeMap<UpstreamId, UpstreamPlan>> {
        self.switched_off.lock()
    }

    /// The upstreams that do not run, as every report shows them.
    pub(crate) fn disabled_statuses(&self) -> Vec<UpstreamStatus> {
        let disabled = self.disabled.lock();
        let status = |one: &DisabledUpstream| UpstreamStatus::disabled(&one.id, one.kind, one.reason.clone());
        let mut all: Vec<UpstreamStatus> = disabled.iter().map(status).collect();
        all.extend(self.switched_off().values().map(|plan| {
            let hint = format!("`toolyard enable {}` switches it on", plan.id);
            let reason = Reason::new("switched off by an operator").with_hint(hint);
            UpstreamStatus::disabled(&plan.id, plan.kind, reason)
        }));
        all
    }
}

/// All chains in use, by their settings.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    extra: ExtraSteps,
    runtime: Runtime,
    limiters: Limiters,
    catalog: CatalogCell,
    cool_downs: CoolDowns,
    /// The approvals that rules ask for.
    approvals: Option<Arc<Approvals>>,
    known: Mutex<HashMap<StepSettings, Weak<Steps>>>,
    relayed: OnceLock<Chain>,
}

impl Chains {
    pub(crate) fn new(extra: ExtraSteps, runtime: Runtime, approvals: Arc<Approvals>) -> Self {
        Self { extra, runtime, approvals: Some(approvals), ..Self::default() }
    }

    /// The chain of calls that have passed all steps on another node. Its only step is the maximum time of a call, in
    /// case that node does not end the call.
    pub(crate) fn relayed(&self) -> Chain {
        let hard = Timeouts::MCP_SERVER.hard;
        self.relayed
            .get_or_init(|| {
                Steps::new(
                    [Arc::new(deadline::Deadline::new(Timeouts { idle: hard, hard })) as Arc<dyn Step>],
                )
            })
            .clone()
    }

    fn governor(&self, settings: &StepSettings) -> Option<Governor> {
        let policy = settings.rules.as_ref()?.0.clone();
        let approvals = self.approvals.clone()?;
        Some(Governor { policy, approvals })
    }

    /// Sets the catalog in which fallbacks are found.
    pub(crate) fn attach(&self, catalog: &Arc<Catalog>) {
        let _ = self.catalog.set(Arc::downgrade(catalog));
    }

    fn with(&self, settings: StepSettings) -> Chain {
        let mut known = self.known.lock();
        if let Some(chain) = known.get(&settings).and_then(Weak::upgrade) {
            return chain;
        }
        known.retain(|_, chain| chain.strong_count() > 0);
        let chain = self.build(&settings);
        known.insert(settings, Arc::downgrade(&chain));
        chain
    }

    /// The order of steps, outermost first. A step that is not configured is not in the chain.
    fn build(&self, settings: &StepSettings) -> Chain {
        let governor = self.governor(settings);
        let outer: [Option<Arc<dyn Step>>; 5] = [
            governor.clone().map(|governor| Arc::new(policy::Authorize(governor)) as Arc<dyn Step>),
            // Before the deadline, whose clock is paused while a question is answered.
            sampling::step(settings.sampling.as_ref(), &self.catalog),
            Some(Arc::new(deadline::Deadline::new(settings.timeouts))),
            limit::step(&settings.limits, &self.limiters),
            hooks::step(&settings.hooks),
        ];
        let inner: [Option<Arc<dyn Step>>; 3] = [
            validate::step(settings.validate),
            // After everything that can change arguments: rules and approvals are about what is sent.
            governor.map(|governor| Arc::new(policy::Judge(governor)) as Arc<dyn Step>),
            retry::step(&settings.retry, &self.catalog, &self.cool_downs),
        ];
        let extra = self.extra.0.iter().cloned();
        Steps::new(outer.into_iter().flatten().chain(extra).chain(inner.into_iter().flatten()))
    }
}

/// The rest of the chain, ending with the route to the upstream.
#[derive(Clone)]
pub struct Next {
    chain: Chain,
    at: usize,
}

impl Next {
    /// Sends a call through its whole chain.
    pub fn start(chain: Chain, mut call: Call) -> BoxFuture<Answer> {
        call.needs_whole |= chain.needs_whole;
        Self { chain, at: 0 }.run(call)
    }

    pub fn run(mut self, call: Call) -> BoxFuture<Answer> {
        let Some(step) = self.chain.steps.get(self.at).cloned() else { return Box::pin(route::route(call)) };
        self.at += 1;
        step.run(call, self)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} of {})", self.at, self.chain.steps.len())
    }
}

/// Keeps `guard` until the answer has ended. A whole answer has ended already; a stream ends with its last byte, or when
/// the client disconnects.
pub fn hold_until_end(answer: Answer, guard: impl Send + Sync + 'static) -> Answer {
    match answer {
        Ok(AnswerBody::Stream(mut relay)) => {
            relay.hold(Box::new(guard));
            Ok(AnswerBody::Stream(relay))
        }
        answer => answer,
    }
}
