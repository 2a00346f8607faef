//! The steps that calls of a tool pass, in their order, with the place of each setting and, for given arguments, what
//! each step would decide.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_config::{Config, HookSection, Reach, ToolSection, UpstreamConfig};
use toolyard_core::pipeline::validate::{compile, problems};
use toolyard_core::settings::{AppliesTo, Pattern, Rules, Subject};
use toolyard_core::{LimitPlan, Timeouts, ToolSettings, UpstreamKind, Validate};
use toolyard_hooks::{Event, HookKind, Hooks, Outcome, Point, Runtime};
use toolyard_tool::Pack;

use super::super::tools::Tool;
use crate::packs;

pub(super) struct Chain<'a> {
    pub(super) tool: &'a Tool,
    pub(super) kind: UpstreamKind,
    /// The profile of the clients that call it; nothing for `/mcp`.
    pub(super) profile: Option<&'a str>,
    pub(super) config: &'a Config,
    /// The file and line of its upstream's section.
    pub(super) place: Option<String>,
    /// The arguments of a call to decide about.
    pub(super) arguments: Option<&'a Value>,
    /// Whether what the rules decide is printed already.
    pub(super) is_decided: bool,
}

/// The arguments on their way through the steps.
pub(super) enum Passing {
    /// No arguments were given.
    Unknown,
    /// The arguments after the steps so far.
    With(Value),
    /// This step refuses the call.
    Refused(&'static str),
}

const NOT_CARRIED_OUT: &str = "a call is repeated only if it was not carried out";

/// A value and where it is set.
struct Set<'a, T>(T, Option<&'a ToolSection>, &'static str);

impl<T> Set<'_, T> {
    fn place(&self) -> String {
        let place = self.1.and_then(|section| section.places.iter().find(|(key, _)| *key == self.2));
        place.map_or_else(|| " (default)".to_owned(), |(_, place)| format!(" (from {place})"))
    }
}

impl Chain<'_> {
    /// One line for each step, and what is left of the arguments for the rules, which judge what is sent.
    pub(super) async fn explained(&self) -> (Vec<String>, Passing) {
        let rules = self.config.tools.iter().map(|section| {
            let rule = &section.rule;
            (AppliesTo { profile: rule.profile.clone(), pattern: Pattern::new(&rule.pattern) }, section)
        });
        let rules = Rules::new(rules);
        let mut lines = Vec::new();
        if self.config.audit.is_some() {
            lines.push(format!("audit: the call is recorded{}", self.written("audit")));
        }
        let has_rules = self.config.rules.is_some();
        if has_rules && !self.is_decided {
            lines.push("rules: decide for each caller; --as WHO prints the decision".to_owned());
        }
        lines.extend(self.sampling());
        lines.push(self.deadline(&rules));
        lines.extend(self.limits(&rules));
        let mut passing = self.arguments.cloned().map_or(Passing::Unknown, Passing::With);
        lines.extend(self.hooks(&rules, &mut passing).await);
        lines.push(self.validate(&rules, &mut passing));
        if has_rules {
            lines.push("rules on arguments: judge what is sent; approvals are asked for here".to_owned());
        }
        lines.extend(self.retry(&rules));
        lines.extend(self.spare());
        (lines, passing)
    }

    fn find<'a, T>(
        &self,
        rules: &Rules<&'a ToolSection>,
        key: &'static str,
        pick: impl Fn(&'a ToolSettings) -> Option<T>,
    ) -> Option<Set<'a, T>> {
        let canonical = self.tool.canonical();
        let subject = Subject { profile: self.profile, canonical: &canonical };
        rules.find(subject, |section| Some(Set(pick(&section.rule.settings)?, Some(*section), key)))
    }

    /// Where a section of the config is written.
    fn written(&self, path: &str) -> String {
        self.config.places.get(path).map(|place| format!(" (from {place})")).unwrap_or_default()
    }

    /// A setting of the upstream, with the place of the upstream.
    fn of_upstream(&self, key: &str) -> String {
        let place = self.place.as_ref().map(|place| format!(", from {place}")).unwrap_or_default();
        format!("(`{key}` of {}{place})", self.tool.upstream)
    }

    fn upstream(&self) -> Option<&UpstreamConfig> {
        self.config.upstreams.on.iter().find(|one| *one.id.as_str() == self.tool.upstream)
    }

    /// Which model answers questions of the upstream to the client's model.
    fn sampling(&self) -> Option<String> {
        let plan = self.upstream()?.sampling.as_ref()?;
        let place = self.of_upstream("sampling");
        Some(format!(
            "sampling: {} answers for clients that cannot, up to {} times per call with {} tokens each {place}",
            plan.model, plan.per_call, plan.max_tokens
        ))
    }

    fn deadline(&self, rules: &Rules<&ToolSection>) -> String {
        // Packs have no section in the config, or one of their own.
        let usual = if self.upstream().is_some() { Timeouts::MCP_SERVER } else { Timeouts::LOCAL };
        let (idle, place) = self.idle(rules, usual);
        format!("deadline: {} without progress {place}; at most {} in all", Time(idle), Time(usual.hard))
    }

    /// How long the call may go without progress, and where that is set.
    fn idle(&self, rules: &Rules<&ToolSection>, usual: Timeouts) -> (Duration, String) {
        if let Some(set) = self.find(rules, "timeout", |settings| settings.timeout) {
            let place = set.place().trim_start().to_owned();
            return (set.0, place);
        }
        if let Some(time) = self.upstream().and_then(|upstream| upstream.timeout) {
            return (time, self.of_upstream("timeout"));
        }
        let pack = packs::find(&self.tool.upstream).filter(|_| self.upstream().is_none());
        if let Some(time) = pack.and_then(Pack::idle_limit) {
            return (time, format!("(default of {})", self.tool.upstream));
        }
        match self.config.apps.timeout.filter(|_| self.kind == UpstreamKind::App) {
            Some(time) => (time, format!("(`timeout` of apps{})", self.comma_written("apps.timeout"))),
            None => (usual.idle, "(default)".to_owned()),
        }
    }

    fn comma_written(&self, path: &str) -> String {
        self.config.places.get(path).map(|place| format!(", from {place}")).unwrap_or_default()
    }

    fn limits(&self, rules: &Rules<&ToolSection>) -> Vec<String> {
        let Some(names) = self.find(rules, "limits", |settings| settings.limits.as_deref()) else {
            return Vec::new();
        };
        let is_given = |limit: &&LimitPlan| names.0.iter().any(|name| **name == *limit.name);
        let decision = if self.arguments.is_some() { "; would wait if this is reached" } else { "" };
        let line = |limit: &LimitPlan| {
            let own = self.written(&format!("limits.{}", limit.name));
            format!(
                "limit {}: {}{own}{decision}; given to the tool{}",
                limit.name,
                allowed(limit),
                names.place()
            )
        };
        // In the order in which a call acquires them.
        self.config.limits.iter().filter(is_given).map(line).collect()
    }

    /// The hooks before and after the call. Each sees what those before it have changed.
    async fn hooks(&self, rules: &Rules<&ToolSection>, passing: &mut Passing) -> Vec<String> {
        if let Some(set) = self.find(rules, "hooks", |settings| settings.hooks).filter(|set| !set.0) {
            return vec![format!("hooks: off{}", set.place())];
        }
        let canonical = self.tool.canonical();
        let fits = |hook: &&HookSection, point| {
            let made = Hooks::new(vec![hook.plan.clone()], &Runtime::default(), &Hooks::default());
            hook.is_on && !made.of(point, Some(&canonical)).is_empty()
        };
        let mut lines = Vec::new();
        for (point, when) in [(Point::PreToolCall, "before"), (Point::PostToolCall, "after")] {
            let mut hooks: Vec<&HookSection> =
                self.config.hooks.iter().filter(|hook| fits(hook, point)).collect();
            hooks.sort_by_key(|hook| hook.plan.order);
            for hook in hooks {
                let is_before = point == Point::PreToolCall;
                let decision = if is_before { self.decision(hook, passing).await } else { String::new() };
                let (name, place) = (&hook.plan.name, &hook.place);
                lines.push(format!(
                    "hook {name}, {when} the call: {}{decision} (from {place})",
                    kind(&hook.plan.kind)
                ));
            }
        }
        lines
    }

    /// The effect of a built-in hook on the arguments. Programs and webhooks are not run.
    async fn decision(&self, hook: &HookSection, passing: &mut Passing) -> String {
        let Passing::With(arguments) = passing else { return String::new() };
        if !matches!(hook.plan.kind, HookKind::Shipped { .. }) {
            return "; is run only by a call".to_owned();
        }
        let hooks = Hooks::new(vec![hook.plan.clone()], &Runtime::default(), &Hooks::default());
        let event = Event::new(
            Point::PreToolCall,
            Some(self.tool.canonical().into()),
            json!({ "arguments": arguments }),
        );
        let mut outcome = hooks.run(event).await;
        let sent = outcome.event.data.remove("arguments").unwrap_or_default();
        let (decision, left) = judged(outcome, sent);
        *passing = left;
        decision
    }

    fn validate(&self, rules: &Rules<&ToolSection>, passing: &mut Passing) -> String {
        let of_kind = if self.kind.is_dynamic() { Validate::Input } else { Validate::Off };
        let set = self.find(rules, "validate", |settings| settings.validate);
        let set = set.unwrap_or(Set(of_kind, None, "validate"));
        let decision = match passing {
            Passing::With(arguments) if set.0 != Validate::Off => {
                let schema = self.tool.definition.member("inputSchema");
                // An invalid schema is skipped, as in a call.
                let validator = schema.and_then(|schema| compile(&schema).ok());
                let problems = validator.and_then(|validator| problems(&validator, arguments, "arguments"));
                match problems {
                    None => "; would pass".to_owned(),
                    Some(problems) => {
                        *passing = Passing::Refused("validation");
                        format!("; would refuse: {problems}")
                    }
                }
            }
            _ => String::new(),
        };
        format!("validate: {}{decision}{}", set.0.as_str(), set.place())
    }

    /// When a call is sent again, and to which tool.
    fn retry(&self, rules: &Rules<&ToolSection>) -> Vec<String> {
        let when = self.repeats(rules);
        let retry = self.find(rules, "retry", |settings| settings.retry).map(|set| {
            let (plan, place) = (set.0, set.place());
            format!("retry: up to {} attempts, first after {}{place}; {when}", plan.attempts, Time(plan.wait))
        });
        let fallback = self.find(rules, "fallback", |settings| settings.fallback.as_deref());
        let fallback = fallback.map(|set| {
            let cool_down = self.find(rules, "cool_down", |settings| settings.cool_down).map(|cool_down| {
                let (time, place) = (Time(cool_down.0), cool_down.place());
                format!("; only this one for {time} after a refusal because of too many calls{place}")
            });
            format!("fallback: {}{}{}", set.0, set.place(), cool_down.unwrap_or_default())
        });
        retry.into_iter().chain(fallback).collect()
    }

    /// Whether a call that may have been carried out is sent again, and why.
    fn repeats(&self, rules: &Rules<&ToolSection>) -> String {
        let is_safe = "a call is repeated even if it may have been carried out";
        match self.find(rules, "idempotent", |settings| settings.idempotent) {
            Some(set) if set.0 => return format!("{is_safe}, because `idempotent` is set{}", set.place()),
            Some(_) => return NOT_CARRIED_OUT.to_owned(),
            None => {}
        }
        let trusted = self.find(rules, "trust_annotations", |settings| settings.trust_annotations);
        let Some(trusted) = trusted.filter(|set| set.0) else { return NOT_CARRIED_OUT.to_owned() };
        let annotation = |key: &str| self.tool.definition.at(&["annotations", key]);
        let is = |key: &&&str| annotation(key).is_some_and(|flag| flag.as_str() == "true");
        match ["readOnlyHint", "idempotentHint"].iter().find(is) {
            Some(key) => format!("{is_safe}, because its `{key}` is trusted{}", trusted.place()),
            None => NOT_CARRIED_OUT.to_owned(),
        }
    }

    /// The second credential of its upstream.
    fn spare(&self) -> Option<String> {
        let Reach::Server(server) = &self.upstream()?.reach else { return None };
        let time = Time(server.spare.as_ref()?.cool_down);
        let place = self.of_upstream("spare");
        Some(format!(
            "credential: the second one for {time} after a refusal because of too many calls {place}"
        ))
    }
}

/// The decision of a hook, and what the next step gets.
fn judged(outcome: Outcome, sent: Value) -> (String, Passing) {
    if let Some(block) = outcome.blocked {
        return (format!("; would block: {}", block.reason), Passing::Refused("a hook"));
    }
    let decision = match (outcome.is_changed, outcome.notes.first()) {
        (true, _) => format!("; would send {sent}"),
        (false, Some(note)) => format!("; would note: {}", note.text),
        (false, None) => "; would pass".to_owned(),
    };
    (decision, Passing::With(sent))
}

fn allowed(LimitPlan { limit, per, .. }: &LimitPlan) -> String {
    let per = toolyard_core::Per::ALL.iter().find(|(_, one)| one == per).map_or("", |(name, _)| name);
    let concurrent = limit.concurrent.map(|count| format!("{count} at once"));
    let rate = limit.rate.map(|rate| format!("{} evenly in {}", rate.count, Time(rate.per)));
    let window = limit.window.map(|window| format!("{} in any {}", window.count, Time(window.per)));
    let parts: Vec<String> = concurrent.into_iter().chain(rate).chain(window).collect();
    let (queue, wait) = (limit.queue, Time(limit.max_wait));
    format!("{} per {per}; {queue} may wait for up to {wait}", parts.join(", "))
}

fn kind(kind: &HookKind) -> String {
    match kind {
        HookKind::Command(command) => format!("runs {}", command.program.display()),
        HookKind::Web(_) => "posts to its URL".to_owned(),
        HookKind::Shipped { name, .. } => name.clone(),
        HookKind::Own(_) => "built in".to_owned(),
    }
}

/// `1.5 s`
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f32())
    }
}
