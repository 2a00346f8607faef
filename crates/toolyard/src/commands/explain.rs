//! `toolyard explain`: why a tool is there, under which name and for which clients, or why it is not.

mod chain;
mod listed;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toolyard_config::Config;
use toolyard_config::definition::{Written, written};
use toolyard_core::settings::Pattern;
use toolyard_core::{ProfilePlan, UpstreamKind};
use toolyard_policy::rules::{Annotations, Kind, Target, Who};

use chain::{Chain, Passing};

use super::live::{self, HeldTool};
use super::tools::{Tool, Tools, with_client};
use crate::cli::Common;
use crate::failure::Failure;
use crate::{packs, say};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// `upstream:tool`, the name that clients see, or the tool's own name.
    tool: String,
    /// Explain a prompt, `upstream:name`.
    #[arg(long, conflicts_with = "resource")]
    prompt: bool,
    /// Explain a resource, `upstream:URI`.
    #[arg(long)]
    resource: bool,
    /// Explain what the rules decide for this principal: a name, and after commas `role:NAME` and `class:NAME`.
    #[arg(long = "as", value_name = "WHO")]
    who: Option<String>,
    /// Explain calls of clients of this profile.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prompt", "resource"])]
    profile: Option<String>,
    /// Also decide about a call with these arguments, as JSON; nothing is called.
    #[arg(long, value_name = "JSON", value_parser = arguments)]
    args: Option<Value>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The explanation of a tool.
#[derive(Default, Serialize)]
struct Explanation {
    id: String,
    there: bool,
    /// The name that clients see at `/mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The reasons, in the order in which they are decided.
    reasons: Vec<String>,
    /// The steps that a call passes, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
}

fn arguments(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_object() { Ok(value) } else { Err("arguments are a JSON object".to_owned()) }
}

pub(super) fn explain(common: &Common, args: &ExplainArgs) -> Result<(), Failure> {
    let explanation = with_client(common, None, async |client, settings| {
        known_profile(args, &settings.config)?;
        if args.prompt || args.resource {
            client.settled().await?;
            return listed::explain(client, settings, args).await;
        }
        let tools = Tools::of_operator(client, settings, &args.tool).await?;
        let states = &tools.states;
        let upstreams = written(&settings.found.sources);
        match tools.find(&args.tool) {
            Ok(tool) => {
                let mut explanation = present(tool, &tools, &settings.config, &upstreams);
                let (kind, names) = owner(tool, &tools);
                if let Some(profile) = chosen_profile(args, &settings.config) {
                    explanation.there = in_profile(profile, tool, kind, &names).is_ok();
                }
                let chain = Chain {
                    tool,
                    kind,
                    profile: args.profile.as_deref(),
                    config: &settings.config,
                    place: place_of(&tool.upstream, &upstreams),
                    arguments: args.args.as_ref(),
                    is_decided: args.who.is_some(),
                };
                let (steps, passing) = chain.explained().await;
                if explanation.there {
                    explanation.steps = steps;
                }
                if let Some(who) = &args.who {
                    explanation.reasons.push(of_tool(who, &passing, tool, &settings.config)?);
                }
                Ok(explanation)
            }
            // Offered by several upstreams: the user must choose one.
            Err(failure) if tools.all.iter().any(|tool| tool.own == args.tool) => Err(failure),
            Err(_) => {
                let mut absent = absent(&args.tool, &tools, &settings.config, &upstreams);
                let held = states.iter().flat_map(|state| &state.held).find(|held| held.id == args.tool);
                if let Some((why, help)) = held.map(HeldTool::why) {
                    absent.reasons.truncate(1);
                    absent.reasons.push(format!("{why}; {help}"));
                }
                let mut off = states.iter().flat_map(|state| &state.off);
                if let Some(id) = off.find(|id| id.eq_ignore_ascii_case(&args.tool)) {
                    absent.reasons.truncate(1);
                    absent.reasons.push(live::why_off(id));
                }
                Ok(absent)
            }
        }
    })?;
    if args.json {
        say::json(&explanation)?;
    } else {
        let state = if explanation.there { "is listed" } else { "is not listed" };
        say::result(format_args!("{} {state}", explanation.id));
        explanation.reasons.iter().for_each(|reason| say::result(format_args!("  {reason}")));
        if !explanation.steps.is_empty() {
            say::result("the steps of a call, in this order:");
        }
        explanation.steps.iter().for_each(|step| say::result(format_args!("  {step}")));
    }
    if explanation.there { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
}

fn chosen_profile<'a>(args: &ExplainArgs, config: &'a Config) -> Option<&'a ProfilePlan> {
    let name = args.profile.as_deref()?;
    config.profiles.iter().find(|profile| *profile.name == *name)
}

fn known_profile(args: &ExplainArgs, config: &Config) -> Result<(), Failure> {
    match (&args.profile, chosen_profile(args, config)) {
        (Some(name), None) => {
            let names: Vec<&str> = config.profiles.iter().map(|profile| &*profile.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Failure::Usage(format!("there is no profile `{name}`\n  help: there are: {known}")))
        }
        _ => Ok(()),
    }
}

/// The file and line of an upstream's section.
fn place_of(id: &str, upstreams: &[Written]) -> Option<String> {
    upstreams.iter().find(|upstream| upstream.id == id).map(|upstream| upstream.place.to_string())
}

/// The decision of the rules about a call as the steps before them have changed it.
fn of_tool(who: &str, passing: &Passing, tool: &Tool, config: &Config) -> Result<String, Failure> {
    let args = match passing {
        Passing::Unknown => None,
        Passing::With(args) => Some(args),
        Passing::Refused(step) => {
            return Ok(format!("the rules do not decide about this call, because {step} refuses it before"));
        }
    };
    let upstream = config.upstreams.on.iter().find(|upstream| upstream.id.as_str() == tool.upstream);
    let definition: Value = tool.definition.read().unwrap_or_default();
    let canonical = tool.canonical();
    let target = Target {
        kind: Kind::Tool,
        canonical: &canonical,
        annotations: Annotations::of(&definition),
        is_trusted: upstream.is_none_or(|upstream| upstream.trusted),
    };
    decision(who, args, &target, config)
}

/// The decision of the rules about a call, and the rule that made it.
fn decision(
    who: &str,
    args: Option<&Value>,
    target: &Target<'_>,
    config: &Config,
) -> Result<String, Failure> {
    let Some(policy) = &config.rules else { return Ok(format!("{who} may call it: there are no rules")) };
    let args = args.cloned().unwrap_or_else(|| serde_json::json!({}));
    let mut parts = who.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let (mut roles, mut class) = (Vec::new(), "");
    for part in parts {
        match part.split_once(':') {
            Some(("role", role)) => roles.push(role),
            Some(("class", given)) => class = given,
            _ => return Err(Failure::Usage(format!("expected `role:NAME` or `class:NAME`, found `{part}`"))),
        }
    }
    // The name of an agent is that of the principal it acts for, and its run.
    let parents: Vec<&str> = name.match_indices("/agent_").map(|(at, _)| &name[..at]).collect();
    let caller = Who { name, parents: &parents, roles: &roles, class };
    let verdict = policy.class_of(&caller).verdict(target);
    let decision = verdict.decide(&caller, target.canonical, &args);
    let by = match policy.rule(&decision) {
        Some(rule) => format!("the rule at {}", rule.place),
        None => "the default, because no rule matches".to_owned(),
    };
    let seen = if verdict.may_call() { "sees it" } else { "does not see it" };
    let why = decision.error.map(|error| format!(" (its condition failed: {error})")).unwrap_or_default();
    let request = match target.kind {
        Kind::Tool => "a call",
        Kind::Prompt | Kind::Resource => "a request for it",
    };
    Ok(format!("{name} {seen}; {request} is decided as `{}` by {by}{why}", decision.action))
}

fn present(tool: &Tool, tools: &Tools, config: &Config, upstreams: &[Written]) -> Explanation {
    let mut reasons = vec![server(&tool.upstream, tools, upstreams)];
    if let Some(fault) = tool.left_out(config) {
        reasons.push(format!(
            "at /mcp and in profiles it is left out, because clients would refuse it: {fault}"
        ));
        reasons.push(format!("clients of /mcp/{} call it {}", tool.upstream, tool.own));
        return Explanation { id: tool.canonical(), there: true, name: None, reasons, steps: Vec::new() };
    }
    reasons.push(name(tool, config));
    let first = tools.all.iter().find(|other| other.shown == tool.shown);
    let hidden_by = first.filter(|first| first.canonical() != tool.canonical());
    if let Some(first) = hidden_by {
        reasons.push(format!("at /mcp it is left out: its name there is taken by {}", first.canonical()));
    }
    reasons.push(format!("clients of /mcp/{} call it {}", tool.upstream, tool.own));
    let (kind, names) = owner(tool, tools);
    let in_profiles = config.profiles.iter().map(|profile| in_profile(profile, tool, kind, &names));
    reasons.extend(in_profiles.map(|found| found.unwrap_or_else(|why_not| why_not)));
    let name = hidden_by.is_none().then(|| tool.shown.clone());
    Explanation { id: tool.canonical(), there: true, name, reasons, steps: Vec::new() }
}

fn server(id: &str, tools: &Tools, upstreams: &[Written]) -> String {
    let state = tools.states.iter().find(|state| state.id == id);
    let place = place_of(id, upstreams);
    let Some(state) = state else { return format!("its server is {id}, built in") };
    let why = state.why().map(|why| format!(": {why}")).unwrap_or_default();
    let phase = &state.phase;
    match (state.kind.as_deref(), place) {
        (Some(kind @ ("app" | "instance")), _) => {
            let name = state.about.as_ref().and_then(|about| about["name"].as_str());
            let name = name.filter(|name| *name != id).map(|name| format!(" ({name})")).unwrap_or_default();
            format!("its server is the {kind} {id}{name}, {phase}{why}")
        }
        (_, Some(place)) => format!("its server is {id}, {phase}{why} (from {place})"),
        _ => format!("its server is {id}, built in"),
    }
}

fn name(tool: &Tool, config: &Config) -> String {
    if config.transparent && config.upstreams.on.len() == 1 {
        return format!("clients of /mcp call it {}, because `transparent` is on", tool.own);
    }
    let plain = [tool.canonical(), format!("{}__{}", tool.upstream, tool.own)].contains(&tool.shown);
    let why =
        if plain { "" } else { ": the plain name is too long, or has characters that models do not accept" };
    format!("clients of /mcp call it {}{why}", tool.shown)
}

/// The kind of its upstream, and the upstream's other names, as reported by the gateway.
fn owner(tool: &Tool, tools: &Tools) -> (UpstreamKind, Vec<String>) {
    let state = tools.states.iter().find(|state| state.id == tool.upstream);
    let kind = match state.and_then(|state| state.kind.as_deref()) {
        Some("app") => UpstreamKind::App,
        Some("instance") => UpstreamKind::Instance,
        Some("node") => UpstreamKind::Node,
        _ => UpstreamKind::Server,
    };
    let about = state.and_then(|state| state.about.as_ref()).filter(|_| kind == UpstreamKind::Instance);
    let name = |key: &str| about.and_then(|about| about[key].as_str().map(str::to_owned));
    (kind, ["id", "name"].into_iter().filter_map(name).collect())
}

/// The path at which a profile shows the tool, or why it does not.
fn in_profile(
    profile: &ProfilePlan,
    tool: &Tool,
    kind: UpstreamKind,
    names: &[String],
) -> Result<String, String> {
    let place = format!("/mcp/p/{}", profile.name);
    let key = match kind {
        UpstreamKind::App => "apps",
        UpstreamKind::Instance => "instances",
        UpstreamKind::Server | UpstreamKind::BuiltIn | UpstreamKind::Node => "upstreams",
    };
    let ids = profile.ids_of(kind, &tool.upstream, names, &tool.own);
    let fits = |pattern: &Pattern| ids.iter().any(|id| pattern.matches(id));
    let is_inside = if profile.lists_upstreams() {
        profile.includes_upstream(kind, &tool.upstream, names)
    } else {
        tool.upstream != "yard"
    };
    if !is_inside {
        Err(format!("not at {place}: `{key}` does not name {}", tool.upstream))
    } else if profile.deny.iter().any(fits) {
        Err(format!("not at {place}: `deny` matches it"))
    } else if profile.includes(&ids) {
        Ok(format!("at {place}, too"))
    } else {
        Err(format!("not at {place}: `allow` does not match it"))
    }
}

/// Why there is no such tool, as far as its name determines the upstream.
fn absent(name: &str, tools: &Tools, config: &Config, upstreams: &[Written]) -> Explanation {
    let prefix = name.split_once(':').or_else(|| name.split_once("__")).map(|(prefix, _)| prefix);
    let mut reasons = Vec::new();
    match prefix.map(|prefix| (prefix, upstreams.iter().find(|own| own.id.eq_ignore_ascii_case(prefix)))) {
        None => {
            reasons.push("no server that is active offers it".to_owned());
            reasons.extend(tools.near(name).map(|near| format!("did you mean {near}?")));
        }
        Some((prefix, None)) => match tools.states.iter().find(|own| own.id.eq_ignore_ascii_case(prefix)) {
            Some(own) if tools.missing.iter().all(|(id, _)| *id != own.id) => {
                reasons.extend(offers_no_such(&own.id, name, tools, upstreams));
            }
            Some(_) => {}
            None => reasons.push(match packs::why_off(config, prefix) {
                Some(why) => format!("the pack {prefix} is off: {why}"),
                None => format!("there is no server `{prefix}` in the config"),
            }),
        },
        Some((prefix, Some(own))) if own.definition.is_off => {
            reasons.push(format!("{prefix} is switched off: `enabled = false` (from {})", own.place));
        }
        Some((prefix, Some(_))) if tools.missing.iter().all(|(id, _)| !id.eq_ignore_ascii_case(prefix)) => {
            reasons.extend(offers_no_such(prefix, name, tools, upstreams));
        }
        Some(_) => {}
    }
    let is_meant = |id: &str| prefix.is_none_or(|prefix| prefix.eq_ignore_ascii_case(id));
    let missing = tools.missing.iter().filter(|(id, _)| is_meant(id));
    reasons.extend(missing.map(|(id, why)| format!("{id} is not active: {why}")));
    Explanation { id: name.to_owned(), there: false, name: None, reasons, steps: Vec::new() }
}

fn offers_no_such(id: &str, name: &str, tools: &Tools, upstreams: &[Written]) -> [String; 2] {
    let help = match tools.near_at(id, name) {
        Some(near) => format!("{id} offers no such tool: did you mean {near}?"),
        None => format!("{id} offers no such tool: `toolyard tools list --upstream {id}`"),
    };
    [server(id, tools, upstreams), help]
}
