//! `toolyard list`: the servers of the config and the enabled packs and, if a gateway runs with it, their status, apps
//! and instances.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toolyard_config::definition::{Shown, Written, written};
use toolyard_config::state_dir::Running;
use toolyard_config::{Config, Found, Loaded};

use super::live::{self, Client, UpstreamState};
use crate::cli::Common;
use crate::failure::Failure;
use crate::packs::{PackState, states};
use crate::say::{self, Colour};
use crate::settings;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json` for each upstream, here and in `get`.
#[derive(Serialize)]
pub(super) struct ListedServer<'a> {
    id: &'a str,
    /// Its name in the file, if that is not a valid id.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    kind: &'static str,
    file: String,
    line: u32,
    enabled: bool,
    #[serde(flatten)]
    definition: Shown,
    /// `None` if no gateway runs.
    live: Option<&'a UpstreamState>,
}

impl<'a> ListedServer<'a> {
    pub(super) fn new(upstream: &'a Written, live: Option<&'a UpstreamState>) -> Self {
        Self {
            id: &upstream.id,
            name: upstream.name.as_deref(),
            kind: "server",
            file: upstream.file.display().to_string(),
            line: upstream.place.line,
            enabled: !upstream.definition.is_off,
            definition: upstream.definition.shown(),
            live,
        }
    }
}

/// An upstream that no file defines as a server: a pack, an app, an instance.
#[derive(Serialize)]
pub(super) struct Other<'a> {
    pub(super) id: &'a str,
    pub(super) kind: &'a str,
    enabled: bool,
    pub(super) live: Option<&'a UpstreamState>,
}

/// The answer of the gateway that runs with these files.
pub(super) enum ListedStates {
    NoGateway,
    /// It cannot be asked.
    Silent,
    States(Vec<UpstreamState>),
}

impl ListedStates {
    pub(super) fn states(&self) -> &[UpstreamState] {
        if let Self::States(states) = self { states } else { &[] }
    }
}

pub(super) fn list(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let (found, loaded, running) = settings::look_for_gateway(common);
    let upstreams = written(&found.sources);
    let asked = ask(running.as_ref(), &loaded);
    let state = |upstream: &Written| asked.states().iter().find(|state| state.id == upstream.id);
    let others = others(&asked, loaded.config.as_ref());
    if args.json {
        let own = upstreams.iter().map(|own| serde_json::to_value(ListedServer::new(own, state(own))));
        let entries = own.chain(others.iter().map(serde_json::to_value));
        let entries: Vec<Value> = entries.collect::<Result<_, _>>().map_err(anyhow::Error::from)?;
        return Ok(say::json(&entries)?);
    }
    if upstreams.is_empty() && loaded.config.is_none() {
        return Err(Failure::Config(loaded.problems));
    }
    if !common.quiet {
        loaded.problems.iter().for_each(say::line);
    }
    print(&upstreams, &others, &found, loaded.config.as_ref(), &state);
    asked.states().iter().for_each(print_reason);
    if !common.quiet {
        // Users who have set up a pack know what is in it.
        let has_packs =
            loaded.config.as_ref().is_some_and(|config| config.packs.iter().any(|pack| pack.enabled));
        if upstreams.is_empty() && !has_packs {
            say::line("no servers yet: toolyard add NAME -- COMMAND…, or toolyard import");
        }
        if matches!(asked, ListedStates::NoGateway) {
            say::line("no gateway runs with this config; `toolyard` starts one");
        }
    }
    Ok(())
}

/// The upstreams that are not servers of the config: as the gateway reports them, or the packs that it would have.
pub(super) fn others<'a>(asked: &'a ListedStates, config: Option<&Config>) -> Vec<Other<'a>> {
    let other = |state: &'a UpstreamState| {
        let kind = match state.kind.as_deref()? {
            "server" => return None,
            "built-in" => "pack",
            guest => guest,
        };
        Some(Other { id: &state.id, kind, enabled: true, live: Some(state) })
    };
    if let ListedStates::States(states) = asked {
        return states.iter().filter_map(other).collect();
    }
    let packs = config.map(states).unwrap_or_default().into_iter();
    let on = packs.filter(|state| state.config.is_ok() || lacks_value(state.pack.name(), config));
    let pack = |PackState { pack, .. }| Other { id: pack.name(), kind: "pack", enabled: true, live: None };
    on.map(pack).collect()
}

/// Asks the running gateway. Its config may be a valid one although the current file is not.
pub(super) fn ask(running: Option<&Running>, loaded: &Loaded) -> ListedStates {
    let Some(running) = running else { return ListedStates::NoGateway };
    let asked = live::block_on(async {
        let client = Client::of_running(running, loaded.config.as_ref(), loaded.auth.as_ref());
        let states = client.states().await.inspect_err(|error| say::line(format_args!("warning: {error:#}")));
        client.end().await;
        states.ok()
    });
    asked.ok().flatten().map_or(ListedStates::Silent, ListedStates::States)
}

fn print<'a>(
    upstreams: &'a [Written],
    others: &[Other<'_>],
    found: &Found,
    config: Option<&Config>,
    state: &impl Fn(&'a Written) -> Option<&'a UpstreamState>,
) {
    let mut rows = vec![["NAME", "STATE", "TOOLS", "HOW"].map(str::to_owned)];
    for upstream in upstreams {
        let name = match &upstream.name {
            Some(name) => format!("{} ({name})", upstream.id),
            None => upstream.id.clone(),
        };
        let [word, tools] = match state(upstream) {
            _ if upstream.definition.is_off => ["off", "-"].map(str::to_owned),
            None if is_disabled(upstream, config) => ["disabled", "-"].map(str::to_owned),
            state => cells(state),
        };
        let from = match found.sources.len() {
            0 | 1 => String::new(),
            _ => format!("  ({})", upstream.file.file_name().unwrap_or_default().display()),
        };
        rows.push([name, word, tools, format!("{}{from}", upstream.definition.how())]);
    }
    for Other { id, kind, live, .. } in others {
        let [word, tools] = match live {
            None if lacks_value(id, config) => ["disabled", "-"].map(str::to_owned),
            live => cells(*live),
        };
        rows.push([(*id).to_owned(), word, tools, how_found(kind, *live)]);
    }
    say::table(&rows);
}

/// The kind of an upstream and, if the gateway discovered it, its source.
fn how_found(kind: &str, live: Option<&UpstreamState>) -> String {
    let about = live.and_then(|state| state.about.as_ref());
    let text = |key: &str| about.and_then(|about| about[key].as_str());
    match (text("origin"), text("endpoint")) {
        (Some(origin), Some(endpoint)) => format!("{kind} (found by scan: {origin} at {endpoint})"),
        _ => kind.to_owned(),
    }
}

/// Whether a variable or a secret that it needs has no value.
pub(super) fn is_disabled(upstream: &Written, config: Option<&Config>) -> bool {
    let off = config.into_iter().flat_map(|config| &config.upstreams.off);
    off.into_iter().any(|off| off.missing.is_some() && off.id.as_str() == upstream.id)
}

/// The same for a pack.
fn lacks_value(pack: &str, config: Option<&Config>) -> bool {
    let mut packs = config.into_iter().flat_map(|config| &config.packs);
    packs.any(|written| written.name == pack && written.enabled && written.missing.is_some())
}

/// Its state and the number of its tools.
fn cells(state: Option<&UpstreamState>) -> [String; 2] {
    state
        .map_or_else(|| ["-", "-"].map(str::to_owned), |state| [state.phase.clone(), state.tools.to_string()])
}

/// Why it is not active, and which of its tools clients do not get.
pub(super) fn print_reason(state: &UpstreamState) {
    if let Some(reason) = state.why().filter(|_| state.phase != "active") {
        say::result(format_args!("  {}: {reason}", say::coloured(&state.id, Colour::Red)));
    }
    if let Some(revision) = state.second_link.as_ref().and_then(|link| link["revision"].as_str()) {
        let text = format!("a second connection, of revision {revision}, serves clients of the other era");
        say::result(format_args!("  {}: {text}", state.id));
    }
    for held in &state.held {
        let (why, help) = held.why();
        say::result(format_args!("  {}: {why}; {help}", say::coloured(&state.id, Colour::Yellow)));
        held.differences().for_each(|line| say::result(format_args!("    {line}")));
    }
    for id in &state.off {
        say::result(format_args!("  {}: {}", say::coloured(&state.id, Colour::Yellow), live::why_off(id)));
    }
    for fault in &state.faults {
        say::result(format_args!("  {}: {fault}", say::coloured(&state.id, Colour::Yellow)));
    }
}
