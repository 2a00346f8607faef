//! `toolyard list`: the servers of the config, and how they are, if a gateway runs with it; then also the apps and
//! instances that it knows.

use clap::Args;
use serde::Serialize;

use super::live::{self, Client, State};
use crate::cli::Common;
use crate::config::{Config, Found};
use crate::definition::{Shown, Written, written};
use crate::failure::Failure;
use crate::say::{self, Colour};
use crate::settings;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of each, here and in `get`.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
    id: &'a str,
    /// Its name in the file, where that could not be the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    file: String,
    line: usize,
    enabled: bool,
    #[serde(flatten)]
    definition: Shown,
    /// Nothing where no gateway runs.
    live: Option<&'a State>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(upstream: &'a Written, live: Option<&'a State>) -> Self {
        Self {
            id: &upstream.id,
            name: upstream.name.as_deref(),
            file: upstream.file.display().to_string(),
            line: upstream.place.line,
            enabled: !upstream.definition.is_off,
            definition: upstream.definition.shown(),
            live,
        }
    }
}

/// An app or an instance, which no config has to name.
#[derive(Serialize)]
struct Guest<'a> {
    id: &'a str,
    kind: &'a str,
    live: &'a State,
}

impl<'a> Guest<'a> {
    fn new(live: &'a State) -> Option<Self> {
        let kind = live.kind.as_deref().filter(|kind| ["app", "instance"].contains(kind))?;
        Some(Self { id: &live.id, kind, live })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Listed<'a> {
    Server(Box<Entry<'a>>),
    Guest(Guest<'a>),
}

pub(super) fn list(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let (found, loaded) = settings::look(common);
    let upstreams = written(&found.sources);
    let live = states(common, &found, loaded.config.as_ref());
    let state = |upstream: &Written| live.iter().flatten().find(|state| state.id == upstream.id);
    let guests: Vec<Guest<'_>> = live.iter().flatten().filter_map(Guest::new).collect();
    if args.json {
        let entries = upstreams.iter().map(|own| Listed::Server(Box::new(Entry::new(own, state(own)))));
        let entries: Vec<Listed<'_>> = entries.chain(guests.into_iter().map(Listed::Guest)).collect();
        return Ok(say::json(&entries)?);
    }
    if upstreams.is_empty() && loaded.config.is_none() {
        return Err(Failure::Config(loaded.problems));
    }
    if !common.quiet {
        loaded.problems.iter().for_each(say::line);
    }
    if upstreams.is_empty() && guests.is_empty() {
        say::result("no servers yet: toolyard add NAME -- COMMAND…, or toolyard import");
        return Ok(());
    }
    print(&upstreams, &found, &state, &guests);
    match live {
        None if !common.quiet => say::line("no gateway runs with this config; `toolyard` starts one"),
        _ => {
            let states = upstreams.iter().filter_map(state).chain(guests.iter().map(|guest| guest.live));
            states.for_each(print_reason);
        }
    }
    Ok(())
}

/// What the running gateway says; nothing where none runs or it cannot be asked.
pub(super) fn states(common: &Common, found: &Found, config: Option<&Config>) -> Option<Vec<State>> {
    let running = live::running(common, found)?;
    let asked = live::block_on(async {
        let client = Client::of_running(&running, config?);
        let states = client.states().await.inspect_err(|error| say::line(format_args!("warning: {error:#}")));
        client.end().await;
        states.ok()
    });
    asked.ok().flatten()
}

fn print<'a>(
    upstreams: &'a [Written],
    found: &Found,
    state: &impl Fn(&'a Written) -> Option<&'a State>,
    guests: &[Guest<'_>],
) {
    let mut rows = vec![["NAME", "STATE", "TOOLS", "HOW"].map(str::to_owned)];
    for upstream in upstreams {
        let name = match &upstream.name {
            Some(name) => format!("{} ({name})", upstream.id),
            None => upstream.id.clone(),
        };
        let (word, tools) = match state(upstream) {
            _ if upstream.definition.is_off => ("off".to_owned(), "-".to_owned()),
            Some(state) => (state.phase.clone(), state.tools.to_string()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let from = match found.sources.len() {
            0 | 1 => String::new(),
            _ => format!("  ({})", upstream.file.file_name().unwrap_or_default().display()),
        };
        rows.push([name, word, tools, format!("{}{from}", upstream.definition.how())]);
    }
    rows.extend(guests.iter().map(|Guest { id, kind, live }| {
        [(*id).to_owned(), live.phase.clone(), live.tools.to_string(), (*kind).to_owned()]
    }));
    say::table(&rows);
}

pub(super) fn print_reason(state: &State) {
    if let Some(reason) = state.reason.as_deref().filter(|_| state.phase != "active") {
        say::result(format_args!("  {}: {reason}", say::coloured(&state.id, Colour::Red)));
    }
}
