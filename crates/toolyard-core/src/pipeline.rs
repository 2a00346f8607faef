//! What every call passes. The audit wraps the dispatch of every request; the other steps form the chain of a
//! catalog entry, outermost first. Their order is written in [`Chains::build`] and nowhere else.

pub(crate) mod audit;
pub mod clock;
pub mod deadline;
pub mod limit;
pub mod policy;
mod hooks;
pub mod validate;
pub mod retry;
mod route;
mod sampling;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde_json::Value;
use toolyard_hooks::{Hooks, Point, Runtime};
use toolyard_model::{Answer, AnswerBody, BoxFuture, Origin};
use toolyard_policy::rules::{Do, Policy, Target, has_dot_segments};
use toolyard_proto::Reason;
use toolyard_proto::name::{UpstreamId, canonical};

use hooks::ToolHooks;
use limit::{Limiters, Shared};
use policy::Governor;
use retry::{CatalogCell, CoolDowns, RetrySettings};

use crate::approvals::Approvals;
use crate::catalog::{Entry, Visibility};
use validate::Validate;

pub use crate::call::{Call, Edits, Trace};
use crate::catalog::Catalog;
use crate::event::{Events, Sinks};
use crate::ledger::Ledger;
use crate::plan::{
    CallRules, DisabledUpstream, LimitPlan, SamplingPlan, Timeouts, ToolRule, ToolSettings, UpstreamPlan,
};
use crate::report::Sections;
use crate::settings::{AppliesTo, Pattern, Rules, Subject};
use crate::status;
use crate::upstream::Upstream;

/// One stage that a call passes. It may look at the call, wait, refuse, or pass it on and look at the answer.
pub trait Step: Send + Sync + 'static {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer>;

    /// Whether it has to see the whole answer. Answers of calls with such a step are buffered, up to the limit of
    /// an answer that is not relayed; all others may flow through.
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

/// Steps that the embedding program adds, between validation and retries.
#[derive(Clone, Default)]
pub struct ExtraSteps(pub Vec<Arc<dyn Step>>);

impl fmt::Debug for ExtraSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtraSteps({})", self.0.len())
    }
}

/// What all parts of a gateway share for its records and reports.
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
        self.switched_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The upstreams that do not run, as every report shows them.
    pub(crate) fn disabled_json(&self) -> Vec<Value> {
        let disabled = self.disabled.lock().unwrap_or_else(PoisonError::into_inner);
        let by_config = disabled.iter().map(|one| status::disabled(&one.id, one.kind, &one.reason));
        let mut all: Vec<Value> = by_config.collect();
        all.extend(self.switched_off().values().map(|plan| {
            let hint = format!("`toolyard enable {}` switches it on", plan.id);
            let reason = Reason::new("switched off by an operator").with_hint(hint);
            status::disabled(&plan.id, plan.kind, &reason)
        }));
        all
    }
}

/// Everything that decides which steps are in a chain and how they are set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StepSettings {
    timeouts: Timeouts,
    limits: Vec<LimitPlan>,
    hooks: ToolHooks,
    validate: Validate,
    retry: RetrySettings,
    rules: Option<RulesInForce>,
    sampling: Option<Arc<SamplingPlan>>,
}

/// What all chains made from one config share.
#[derive(Clone, Debug)]
struct RulesInForce(Arc<Policy>);

impl PartialEq for RulesInForce {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RulesInForce {}

impl Hash for RulesInForce {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Finds the chain of an entry from what the config sets for its profile, upstream and tool.
#[derive(Debug, Default)]
pub(crate) struct StepRules {
    given: CallRules,
    tools: Rules<ToolSettings>,
    hooks: Hooks,
    /// The limits of the config by name, also those that no tool has.
    limits: Vec<(Arc<str>, Shared)>,
    chains: Arc<Chains>,
}

impl StepRules {
    pub(crate) fn new(given: CallRules, chains: Arc<Chains>) -> Self {
        Self::following(given, chains, &Hooks::default())
    }

    /// Hooks that are unchanged keep their state.
    fn following(given: CallRules, chains: Arc<Chains>, before: &Hooks) -> Self {
        let rule = |rule: &ToolRule| {
            let applies = AppliesTo { profile: rule.profile.clone(), pattern: Pattern::new(&rule.pattern) };
            (applies, rule.settings.clone())
        };
        let tools = Rules::new(given.tools.iter().map(rule));
        let hooks = Hooks::new(given.hooks.clone(), &chains.runtime, before);
        let limits =
            given.limits.iter().map(|plan| (plan.name.clone(), chains.limiters.shared(plan))).collect();
        Self { given, tools, hooks, limits, chains }
    }

    /// The rules of another config, or these if they are the same. Chains with the same settings in both are
    /// shared.
    pub(crate) fn replaced(self: &Arc<Self>, given: CallRules) -> Arc<Self> {
        if given == self.given {
            return self.clone();
        }
        Arc::new(Self::following(given, self.chains.clone(), &self.hooks))
    }

    /// All hooks, for what is not a call of a tool.
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The limit of this name, for what is not a call of a tool.
    pub(crate) fn limit(&self, name: &str) -> Option<&Shared> {
        self.limits.iter().find(|(known, _)| **known == *name).map(|(_, limit)| limit)
    }

    /// The rules, except for calls that have passed those of another node.
    fn rules_for(&self, origin: &Origin) -> Option<&Arc<Policy>> {
        self.given.rules.as_ref().filter(|_| !origin.is_relayed)
    }

    /// What a client sees of views. Without rules all clients see the same.
    pub(crate) fn visibility(&self, origin: &Origin) -> Visibility {
        let Some(rules) = self.rules_for(origin) else { return Visibility::default() };
        let class = rules.class_of(&policy::who(origin));
        Visibility::new(class.id(), move |target| !class.verdict(target).may_call())
    }

    /// Whether something seems not to exist for a client.
    pub(crate) fn hides(&self, origin: &Origin, entry: &Entry) -> bool {
        let Some(rules) = self.rules_for(origin) else { return false };
        is_hidden(rules, origin, &policy::target(entry))
    }

    /// The place of the rule that makes something seem not to exist for a client, for records.
    pub(crate) fn hidden_by(&self, origin: &Origin, entry: &Entry) -> Option<String> {
        let rules = self.rules_for(origin)?;
        let verdict = rules.class_of(&policy::who(origin)).verdict(&policy::target(entry));
        let decision = verdict.settled().filter(|decision| decision.action == Do::Hide)?;
        Some(policy::place(rules, decision))
    }

    /// Whether a resource seems not to exist for a client.
    pub(crate) fn hides_resource(&self, origin: &Origin, upstream: &Upstream, uri: &str) -> bool {
        let Some(rules) = self.rules_for(origin) else { return false };
        let canonical = canonical(upstream.id(), uri);
        is_hidden(rules, origin, &policy::resource(upstream, &canonical))
    }

    /// Whether a client may read a resource, perhaps after an approval.
    pub(crate) fn may_read(&self, origin: &Origin, upstream: &Upstream, uri: &str) -> bool {
        let Some(rules) = self.rules_for(origin) else { return true };
        if rules.names_resources() && has_dot_segments(uri) {
            return false;
        }
        let (who, canonical) = (policy::who(origin), canonical(upstream.id(), uri));
        let verdict = rules.class_of(&who).verdict(&policy::resource(upstream, &canonical));
        let decision = verdict.decide(&who, &canonical, &policy::resource_arguments(uri));
        decision.action.is_permissive()
    }

    /// Whether tools of one upstream can have different chains.
    pub(crate) fn differ_by_tool(&self) -> bool {
        !self.tools.is_empty() || !self.hooks.is_empty()
    }

    /// The chain of calls that come from another node.
    pub(crate) fn relayed(&self) -> Chain {
        self.chains.relayed()
    }

    /// How much calls have asked of each limit since this was last read.
    pub(crate) fn take_demands(&self) -> Vec<limit::LimitDemand> {
        self.chains.limiters.take_demands()
    }

    /// Uses only these shares of limits, by their names, and an equal share of limits that are made later.
    pub(crate) fn set_shares(&self, gateways: usize, shares: &HashMap<Arc<str>, limit::LimitShares>) {
        self.chains.limiters.set_shares(gateways, shares);
    }

    /// The chain of a tool or prompt.
    pub(crate) fn chain(&self, profile: Option<&str>, upstream: &Upstream, canonical: &str) -> Chain {
        self.chains.with(self.settings(upstream, Subject { profile, canonical }))
    }

    /// The chain of requests that name neither a tool nor a prompt.
    pub(crate) fn default_chain(&self, profile: Option<&str>, upstream: &Upstream) -> Chain {
        let canonical = format!("{}:", upstream.id());
        self.chain(profile, upstream, &canonical)
    }

    fn settings(&self, upstream: &Upstream, subject: Subject<'_>) -> StepSettings {
        let mut timeouts = upstream.timeouts();
        timeouts.idle = self.tools.find(subject, |tool| tool.timeout).unwrap_or(timeouts.idle);
        let names = self.tools.find(subject, |tool| tool.limits.as_deref()).unwrap_or_default();
        let limit = |name: &String| self.given.limits.iter().find(|limit| *limit.name == **name).cloned();
        let of_kind = if upstream.kind().is_dynamic() { Validate::Input } else { Validate::Off };
        StepSettings {
            timeouts,
            limits: names.iter().filter_map(limit).collect(),
            hooks: self.hooks_of(subject),
            validate: self.tools.find(subject, |tool| tool.validate).unwrap_or(of_kind),
            rules: self.given.rules.clone().map(RulesInForce),
            retry: self.retry_of(subject),
            sampling: upstream.sampling(),
        }
    }

    fn retry_of(&self, subject: Subject<'_>) -> RetrySettings {
        let fallback = self.tools.find(subject, |tool| tool.fallback.as_deref()).map(Arc::from);
        RetrySettings {
            plan: self.tools.find(subject, |tool| tool.retry).filter(|plan| plan.attempts > 1),
            idempotent: self.tools.find(subject, |tool| tool.idempotent),
            trusts_annotations: self.tools.find(subject, |tool| tool.trust_annotations).unwrap_or(false),
            fallback,
            cool_down: self.tools.find(subject, |tool| tool.cool_down),
        }
    }

    fn hooks_of(&self, subject: Subject<'_>) -> ToolHooks {
        if self.hooks.is_empty() || !self.tools.find(subject, |tool| tool.hooks).unwrap_or(true) {
            return ToolHooks::default();
        }
        let of = |point| self.hooks.of(point, Some(subject.canonical));
        ToolHooks { before: of(Point::PreToolCall), after: of(Point::PostToolCall) }
    }
}

fn is_hidden(rules: &Policy, origin: &Origin, target: &Target<'_>) -> bool {
    let verdict = rules.class_of(&policy::who(origin)).verdict(target);
    verdict.settled().is_some_and(|decision| decision.action == Do::Hide)
}

/// All chains in use, by their settings.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    extra: ExtraSteps,
    runtime: Runtime,
    limiters: Limiters,
    catalog: CatalogCell,
    cool_downs: CoolDowns,
    /// What the rules ask for.
    approvals: Option<Arc<Approvals>>,
    known: Mutex<HashMap<StepSettings, Weak<Steps>>>,
    relayed: OnceLock<Chain>,
}

impl Chains {
    pub(crate) fn new(extra: ExtraSteps, runtime: Runtime, approvals: Arc<Approvals>) -> Self {
        Self { extra, runtime, approvals: Some(approvals), ..Self::default() }
    }

    /// The chain of calls that have passed all steps on another node. Only the hard maximum of a call's time
    /// holds here too, in case that node does not end it.
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
        let (policy, approvals) = (settings.rules.as_ref()?.0.clone(), self.approvals.clone()?);
        Some(Governor { policy, approvals })
    }

    /// Sets the catalog in which fallbacks are found.
    pub(crate) fn attach(&self, catalog: &Arc<Catalog>) {
        let _ = self.catalog.set(Arc::downgrade(catalog));
    }

    fn with(&self, settings: StepSettings) -> Chain {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
        let order: [Option<Arc<dyn Step>>; 7] = [
            governor.clone().map(|governor| Arc::new(policy::Authorize(governor)) as Arc<dyn Step>),
            // Before the deadline, whose clock is paused while a question is answered.
            sampling::step(settings.sampling.as_ref(), &self.catalog),
            Some(Arc::new(deadline::Deadline::new(settings.timeouts))),
            limit::step(&settings.limits, &self.limiters),
            hooks::step(&settings.hooks),
            validate::step(settings.validate),
            governor.map(|governor| Arc::new(policy::Judge(governor)) as Arc<dyn Step>),
        ];
        let retry = retry::step(&settings.retry, &self.catalog, &self.cool_downs);
        Steps::new(order.into_iter().flatten().chain(self.extra.0.iter().cloned()).chain(retry))
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

/// Keeps `guard` until the answer has ended: at once for a whole answer, with the last byte for a stream, also
/// when the client disconnects before.
pub fn hold_until_end(answer: Answer, guard: impl Send + Sync + 'static) -> Answer {
    match answer {
        Ok(AnswerBody::Stream(mut relay)) => {
            relay.hold(Box::new(guard));
            Ok(AnswerBody::Stream(relay))
        }
        answer => answer,
    }
}
