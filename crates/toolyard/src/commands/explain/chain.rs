//! The steps that calls of a tool pass, in their order, with the place of each setting and, for given arguments, what
//! each step would decide.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_config::{Config, HookSection, ToolSection};
use toolyard_core::pipeline::validate::{compile, problems};
use toolyard_core::settings::{AppliesTo, Pattern, Rules, Subject};
use toolyard_core::{LimitPlan, Timeouts, ToolSettings, UpstreamKind, Validate};
use toolyard_hooks::{Event, HookKind, Hooks, Point, Runtime};

use super::super::tools::Tool;

pub(super) struct Chain<'a> {
    pub(super) tool: &'a Tool,
    pub(super) kind: UpstreamKind,
    /// The profile of the clients that call it; nothing for `/mcp`.
    pub(super) profile: Option<&'a str>,
    pub(super) config: &'a Config,
    /// Where the config has its upstream.
    pub(super) place: Option<String>,
    /// The arguments of a call to decide about.
    pub(super) arguments: Option<&'a Value>,
    /// Whether what the rules decide is printed already.
    pub(super) is_decided: bool,
}

/// A value and where it is set.
struct Set<'a, T>(T, Option<&'a ToolSection>, &'static str);

impl<T> Set<'_, T> {
    fn place(&self) -> String {
        let place = self.1.and_then(|section| section.places.iter().find(|(key, _)| *key == self.2));
        place.map_or_else(|| " (default)".to_owned(), |(_, place)| format!(" (from {place})"))
    }
}

impl Chain<'_> {
    /// One line for each step.
    pub(super) async fn lines(&self) -> Vec<String> {
        let rules = self.config.tools.iter().map(|section| {
            let rule = &section.rule;
            (AppliesTo { profile: rule.profile.clone(), pattern: Pattern::new(&rule.pattern) }, section)
        });
        let rules = Rules::new(rules);
        let mut lines = Vec::new();
        if self.config.audit.is_some() {
            lines.push("audit: the call is recorded".to_owned());
        }
        if self.config.rules.is_some() && !self.is_decided {
            lines.push("rules: decide for each caller; --as WHO prints the decision".to_owned());
        }
        lines.push(self.deadline(&rules));
        lines.extend(self.limits(&rules));
        lines.extend(self.hooks(&rules).await);
        lines.push(self.validate(&rules));
        lines.extend(self.retry(&rules));
        lines
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

    fn deadline(&self, rules: &Rules<&ToolSection>) -> String {
        let upstream = self.config.upstreams.on.iter().find(|one| *one.id.as_str() == self.tool.upstream);
        // Packs have no section in the config, or one of their own.
        let usual = if upstream.is_some() { Timeouts::MCP_SERVER } else { Timeouts::LOCAL };
        let of_upstream = upstream.and_then(|upstream| upstream.timeout);
        match (self.find(rules, "timeout", |settings| settings.timeout), of_upstream) {
            (Some(set), _) => format!("deadline: {} without progress{}", Time(set.0), set.place()),
            (None, Some(time)) => {
                let place = self.place.as_ref().map(|place| format!(", from {place}")).unwrap_or_default();
                format!(
                    "deadline: {} without progress (`timeout` of {}{place})",
                    Time(time),
                    self.tool.upstream
                )
            }
            (None, None) => format!("deadline: {} without progress (default)", Time(usual.idle)),
        }
    }

    fn limits(&self, rules: &Rules<&ToolSection>) -> Vec<String> {
        let Some(names) = self.find(rules, "limits", |settings| settings.limits.as_deref()) else {
            return Vec::new();
        };
        let known = |name: &String| self.config.limits.iter().find(|limit| *limit.name == **name);
        let line = |limit: &LimitPlan| format!("limit {}: {}{}", limit.name, allowed(limit), names.place());
        names.0.iter().filter_map(known).map(line).collect()
    }

    async fn hooks(&self, rules: &Rules<&ToolSection>) -> Vec<String> {
        if let Some(set) = self.find(rules, "hooks", |settings| settings.hooks).filter(|set| !set.0) {
            return vec![format!("hooks: off{}", set.place())];
        }
        let canonical = self.tool.canonical();
        let fits = |hook: &&HookSection, point| {
            let patterns = &hook.plan.matches;
            let is_meant = patterns.iter().any(|pattern| Pattern::new(pattern).matches(&canonical));
            hook.is_on && hook.plan.points.contains(&point) && (patterns.is_empty() || is_meant)
        };
        let mut lines = Vec::new();
        for (point, when) in [(Point::PreToolCall, "before"), (Point::PostToolCall, "after")] {
            let mut hooks: Vec<&HookSection> =
                self.config.hooks.iter().filter(|hook| fits(hook, point)).collect();
            hooks.sort_by_key(|hook| hook.plan.order);
            for hook in hooks {
                let decision =
                    if point == Point::PreToolCall { self.decision(hook).await } else { String::new() };
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
    async fn decision(&self, hook: &HookSection) -> String {
        let Some(arguments) = self.arguments else { return String::new() };
        if !matches!(hook.plan.kind, HookKind::Shipped { .. }) {
            return "; is run only by a call".to_owned();
        }
        let hooks = Hooks::new(vec![hook.plan.clone()], &Runtime::default(), &Hooks::default());
        let event = Event::new(
            Point::PreToolCall,
            Some(self.tool.canonical().into()),
            json!({ "arguments": arguments }),
        );
        let outcome = hooks.run(event).await;
        // The built-in hooks change or note, and block nothing here.
        match (outcome.is_changed, outcome.notes.first()) {
            (true, _) => format!("; would send {}", outcome.event.data["arguments"]),
            (false, Some(note)) => format!("; would note: {}", note.text),
            (false, None) => "; would pass".to_owned(),
        }
    }

    fn validate(&self, rules: &Rules<&ToolSection>) -> String {
        let of_kind = if self.kind.is_dynamic() { Validate::Input } else { Validate::Off };
        let set = self.find(rules, "validate", |settings| settings.validate);
        let set = set.unwrap_or(Set(of_kind, None, "validate"));
        let decision = match self.arguments.filter(|_| set.0 != Validate::Off) {
            Some(arguments) => {
                match self.tool.definition.member("inputSchema").map(|schema| compile(&schema)) {
                    // An invalid schema is skipped, as in a call.
                    None | Some(Err(_)) => "; would pass".to_owned(),
                    Some(Ok(validator)) => match problems(&validator, arguments, "arguments") {
                        None => "; would pass".to_owned(),
                        Some(problems) => format!("; would refuse: {problems}"),
                    },
                }
            }
            None => String::new(),
        };
        format!("validate: {}{decision}{}", set.0.as_str(), set.place())
    }

    fn retry(&self, rules: &Rules<&ToolSection>) -> Vec<String> {
        let retry = self.find(rules, "retry", |settings| settings.retry).map(|set| {
            let (plan, place) = (set.0, set.place());
            let safe =
                self.find(rules, "idempotent", |settings| settings.idempotent).is_some_and(|set| set.0);
            let when = if safe { "" } else { ", only if it was not carried out" };
            format!("retry: up to {} attempts, first after {}{when}{place}", plan.attempts, Time(plan.wait))
        });
        let fallback = self.find(rules, "fallback", |settings| settings.fallback.as_deref());
        let fallback = fallback.map(|set| format!("fallback: {}{}", set.0, set.place()));
        retry.into_iter().chain(fallback).collect()
    }
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
