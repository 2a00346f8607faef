//! Finds the tool that a name on the command line means: a name that clients use, or a tool's own name if only one
//! upstream has it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use toolyard_config::{Config, nearest};
use toolyard_proto::name::{NameStyle, UpstreamId};
use toolyard_proto::{Raw, sanitize};

use crate::commands::live::{Client, PATIENCE, PAUSE, UpstreamState, without_token};
use crate::failure::{Failure, refused};
use crate::settings::Settings;

const YARD: &str = "yard";
/// How long other upstreams have to offer a tool of the same name once one offers it.
const FOR_OTHERS: Duration = Duration::from_secs(2);

/// A tool of some upstream.
pub(crate) struct Tool {
    pub(crate) upstream: String,
    /// Its name there.
    pub(crate) own: String,
    /// As the upstream describes it.
    pub(crate) definition: Raw,
    /// The name that clients see.
    pub(crate) shown: String,
}

/// The tools, and the upstreams that could not list theirs.
pub(crate) struct Tools {
    pub(crate) all: Vec<Tool>,
    pub(crate) states: Vec<UpstreamState>,
    /// Upstreams whose tools are not known, and why.
    pub(crate) missing: Vec<(String, String)>,
}

impl Tool {
    /// `upstream:tool`.
    pub(crate) fn canonical(&self) -> String {
        format!("{}:{}", self.upstream, self.own)
    }

    /// The fault of its definition, if clients do not get the tool for that reason.
    pub(crate) fn left_out(&self, config: &Config) -> Option<String> {
        let is_only_upstream = config.transparent && config.upstreams.on.len() == 1;
        let sanitized = sanitize::tool(&self.definition);
        let is_left_out = sanitized.entry.is_none() && !is_only_upstream;
        is_left_out.then(|| sanitized.faults.first().map(ToString::to_string)).flatten()
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.definition.member(key).and_then(|text| text.as_string())
    }
}

impl Tools {
    /// Asks every upstream, or only one.
    pub(crate) async fn of(
        client: &Client,
        settings: &Settings,
        only: Option<&str>,
    ) -> Result<Self, Failure> {
        client.caught_up(&settings.config).await?;
        let mut tools = Self { all: Vec::new(), states: Vec::new(), missing: Vec::new() };
        let ids: Vec<String> = client.known().await?.into_iter().map(|state| state.id).collect();
        for id in ids.into_iter().chain([YARD.to_owned()]) {
            if only.is_some_and(|only| !only.eq_ignore_ascii_case(&id)) {
                continue;
            }
            tools.ask(client, settings, &id).await?;
        }
        Self::with_states(client, tools.all, tools.missing).await
    }

    /// Asks upstreams until one of them offers what `name` means. Others that are still starting then have a moment to
    /// offer the same; one that hangs is not waited for.
    pub(crate) async fn for_name(
        client: &Client,
        settings: &Settings,
        only: Option<&str>,
        name: &str,
    ) -> Result<Self, Failure> {
        Self::gather(client, settings, (only, name), UpstreamState::is_known).await
    }

    async fn gather(
        client: &Client,
        settings: &Settings,
        (only, name): (Option<&str>, &str),
        is_ready: fn(&UpstreamState) -> bool,
    ) -> Result<Self, Failure> {
        client.caught_up(&settings.config).await?;
        let is_meant = |id: &str| only.is_none_or(|only| only.eq_ignore_ascii_case(id));
        let mut tools = Self { all: Vec::new(), states: Vec::new(), missing: Vec::new() };
        let mut asked = BTreeSet::new();
        let (begun, mut found) = (Instant::now(), None);
        loop {
            let states = client.states().await?;
            let (ready, waiting): (Vec<&UpstreamState>, Vec<&UpstreamState>) =
                states.iter().filter(|state| is_meant(&state.id)).partition(|state| is_ready(state));
            for id in ready.iter().map(|state| state.id.as_str()).chain(is_meant(YARD).then_some(YARD)) {
                if asked.insert(id.to_owned()) {
                    tools.ask(client, settings, id).await?;
                }
            }
            if found.is_none() && tools.offers(name) {
                found = Some(Instant::now());
            }
            let is_over = waiting.is_empty()
                || begun.elapsed() >= PATIENCE
                || found.is_some_and(|found| found.elapsed() >= FOR_OTHERS);
            if is_over {
                let late = waiting.iter().map(|state| (state.id.clone(), state.why().unwrap_or_default()));
                tools.missing.extend(late);
                return Self::with_states(client, tools.all, tools.missing).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Fails if no upstream can be asked.
    async fn ask(&mut self, client: &Client, settings: &Settings, id: &str) -> Result<(), Failure> {
        match client.tools(id).await {
            Ok(tools) => {
                let named = tools.into_iter().filter_map(|tool| describe(id, tool, settings.config.names));
                self.all.extend(named);
            }
            Err(error) => match without_token(&error) {
                Some(failure) => return Err(failure),
                None => self.missing.push((id.to_owned(), error.message())),
            },
        }
        Ok(())
    }

    /// Whether any upstream offers it, under any of its names.
    fn offers(&self, name: &str) -> bool {
        let is_it = |tool: &Tool| {
            tool.shown == name || tool.own == name || tool.canonical().eq_ignore_ascii_case(name)
        };
        self.all.iter().any(is_it)
    }

    /// The offered tools that matter for `name`, including tools that the rules hide from the user.
    pub(crate) async fn of_operator(
        client: &Client,
        settings: &Settings,
        name: &str,
    ) -> Result<Self, Failure> {
        let is_settled = |state: &UpstreamState| !state.is_under_way();
        let mut tools = Self::gather(client, settings, (None, name), is_settled).await?;
        if settings.config.rules.is_none() {
            return Ok(tools);
        }
        for state in &tools.states {
            let held: Vec<&str> = state.held.iter().map(|held| held.id.as_str()).collect();
            let offered = client.definitions(&state.id, "tools").await?;
            let offered =
                offered.into_iter().filter_map(|tool| describe(&state.id, tool, settings.config.names));
            let offered = offered.filter(|tool| !held.contains(&tool.canonical().as_str()));
            let hidden: Vec<Tool> = offered.filter(|tool| tools.find(&tool.canonical()).is_err()).collect();
            tools.all.extend(hidden);
        }
        Ok(tools)
    }

    async fn with_states(
        client: &Client,
        mut all: Vec<Tool>,
        mut missing: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let states = client.states().await?;
        // In the order of the config, whichever upstream was there first.
        let place = |tool: &Tool| states.iter().position(|state| state.id == tool.upstream);
        all.sort_by_key(|tool| place(tool).unwrap_or(usize::MAX));
        for (id, why) in &mut missing {
            // The state is shorter than the error of the failed request.
            let state = states.iter().find(|state| state.id == *id);
            *why = state.and_then(UpstreamState::why).unwrap_or_else(|| std::mem::take(why));
        }
        Ok(Self { all, states, missing })
    }

    /// The tool that `name` means: as clients see it, `upstream:tool`, or the bare name of the tool.
    pub(crate) fn find(&self, name: &str) -> Result<&Tool, Failure> {
        let is_it = |tool: &&Tool| tool.shown == name || tool.canonical().eq_ignore_ascii_case(name);
        if let Some(tool) = self.all.iter().find(is_it) {
            return Ok(tool);
        }
        let bare: Vec<&Tool> = self.all.iter().filter(|tool| tool.own == name).collect();
        match bare.as_slice() {
            [tool] => Ok(tool),
            [] => Err(self.unknown(name)),
            several => {
                let names: Vec<String> = several.iter().map(|tool| tool.canonical()).collect();
                let message = format!("`{name}` is offered by {} servers", several.len());
                Err(refused(message, format!("name one of them: {}", names.join(", "))))
            }
        }
    }

    /// Tools whose names are like this one.
    pub(crate) fn near(&self, name: &str) -> Option<String> {
        near(name.split_once(':').map_or(name, |(_, own)| own), self.all.iter())
    }

    /// Tools of one server whose names are like this one, which may be `server:tool` or as clients see it.
    pub(crate) fn near_at(&self, server: &str, name: &str) -> Option<String> {
        let own = name.split_once(':').or_else(|| name.split_once("__")).map_or(name, |(_, own)| own);
        near(own, self.all.iter().filter(|tool| tool.upstream.eq_ignore_ascii_case(server)))
    }

    fn unknown(&self, name: &str) -> Failure {
        let mut off = self.states.iter().flat_map(|state| &state.off);
        if let Some(id) = off.find(|id| id.eq_ignore_ascii_case(name) || id.replacen(':', "__", 1) == name) {
            return refused(format!("tool `{id}` is switched off"), format!("`toolyard tools enable {id}`"));
        }
        let missing: Vec<String> = self.missing.iter().map(|(id, why)| format!("{id} ({why})")).collect();
        let help = match (self.near(name), missing.is_empty()) {
            (Some(near), _) => format!("did you mean {near}?"),
            (None, true) => "`toolyard tools list` lists the available ones".to_owned(),
            (None, false) => format!("it may belong to a server that is not active: {}", missing.join("; ")),
        };
        refused(format!("there is no tool `{name}`"), help)
    }
}

fn near<'a>(own: &str, tools: impl Iterator<Item = &'a Tool> + Clone) -> Option<String> {
    let names: BTreeSet<&str> =
        nearest(own, tools.clone().map(|tool| tool.own.as_str())).into_iter().collect();
    let near: Vec<String> =
        tools.filter(|tool| names.contains(tool.own.as_str())).map(Tool::canonical).collect();
    (!near.is_empty()).then(|| format!("`{}`", near.join("` or `")))
}

fn describe(upstream: &str, definition: Raw, names: NameStyle) -> Option<Tool> {
    let own = definition.member("name")?.as_string()?;
    let id = UpstreamId::parse_configured(upstream).unwrap_or_else(|_| UpstreamId::yard());
    let shown = names.name(&id, &own);
    Some(Tool { upstream: upstream.to_owned(), own, definition, shown })
}
