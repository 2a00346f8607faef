//! Which steps the config sets for calls of an entry, and what its rules hide from a client.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use toolyard_hooks::{Hooks, Point};
use toolyard_model::Origin;
use toolyard_policy::rules::{Do, Policy, Target, has_dot_segments};
use toolyard_proto::name::canonical;

use super::hooks::ToolHooks;
use super::limit::{self, SharedLimit};
use super::retry::RetrySettings;
use super::validate::Validate;
use super::{Chain, Chains, policy};
use crate::catalog::{Entry, Visibility};
use crate::plan::{CallRules, LimitPlan, SamplingPlan, Timeouts, ToolRule, ToolSettings};
use crate::settings::{AppliesTo, Pattern, Rules, Subject};
use crate::upstream::Upstream;

/// Everything that decides which steps are in a chain and how they are set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StepSettings {
    pub(super) timeouts: Timeouts,
    pub(super) limits: Vec<LimitPlan>,
    pub(super) hooks: ToolHooks,
    pub(super) validate: Validate,
    pub(super) retry: RetrySettings,
    pub(super) rules: Option<RulesInForce>,
    pub(super) sampling: Option<Arc<SamplingPlan>>,
}

/// The rules that all chains made from one config share.
#[derive(Clone, Debug)]
pub(super) struct RulesInForce(pub(super) Arc<Policy>);

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
    limits: Vec<(Arc<str>, SharedLimit)>,
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
    pub(crate) fn limit(&self, name: &str) -> Option<&SharedLimit> {
        self.limits.iter().find(|(known, _)| **known == *name).map(|(_, limit)| limit)
    }

    /// The rules, except for calls that have passed those of another node.
    fn rules_for(&self, origin: &Origin) -> Option<&Arc<Policy>> {
        self.given.rules.as_ref().filter(|_| !origin.is_relayed)
    }

    /// The visibility of entries for a client. Without rules all clients see the same.
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
        let of_kind = if upstream.kind().is_dynamic() { Validate::Input } else { Validate::Off };
        StepSettings {
            timeouts,
            limits: in_order(&self.given.limits, names),
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

/// The limits of these names in the order of the config: a call holds the first while it waits for the second, so calls of
/// two tools with orders of their own could wait for each other.
fn in_order(limits: &[LimitPlan], names: &[String]) -> Vec<LimitPlan> {
    limits.iter().filter(|limit| names.iter().any(|name| **name == *limit.name)).cloned().collect()
}

fn is_hidden(rules: &Policy, origin: &Origin, target: &Target<'_>) -> bool {
    let verdict = rules.class_of(&policy::who(origin)).verdict(target);
    verdict.settled().is_some_and(|decision| decision.action == Do::Hide)
}
