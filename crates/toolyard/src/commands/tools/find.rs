//! Which tool is meant. Beside the names that clients use, the bare name of a tool will do where only one
//! upstream has it.

use std::collections::BTreeSet;

use anyhow::Result;
use toolyard_config::nearest;
use toolyard_proto::Raw;
use toolyard_proto::name::{NameStyle, UpstreamId};

use crate::commands::live::{Client, UpstreamState};
use crate::failure::{Failure, refused};
use crate::settings::Settings;

const YARD: &str = "yard";

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
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        let ids: Vec<String> = client.known().await?.into_iter().map(|state| state.id).collect();
        for id in ids.into_iter().chain([YARD.to_owned()]) {
            if only.is_some_and(|only| !only.eq_ignore_ascii_case(&id)) {
                continue;
            }
            match client.tools(&id).await {
                Ok(tools) => {
                    all.extend(
                        tools.into_iter().filter_map(|tool| describe(&id, tool, settings.config.names)),
                    );
                }
                Err(error) => missing.push((id, error.message())),
            }
        }
        Self::with_states(client, all, missing).await
    }

    /// Everything that is offered, including tools that the rules do not show to the user.
    pub(crate) async fn of_operator(client: &Client, settings: &Settings) -> Result<Self, Failure> {
        let mut tools = Self::of(client, settings, None).await?;
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
        all: Vec<Tool>,
        mut missing: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let states = client.states().await?;
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
                Err(refused(message, format!("say which: {}", names.join(", "))))
            }
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let mut off = self.states.iter().flat_map(|state| &state.off);
        if let Some(id) = off.find(|id| id.eq_ignore_ascii_case(name) || id.replacen(':', "__", 1) == name) {
            return refused(format!("tool `{id}` is switched off"), format!("`toolyard tools enable {id}`"));
        }
        let own = name.split_once(':').map_or(name, |(_, own)| own);
        let near: BTreeSet<&str> =
            nearest(own, self.all.iter().map(|tool| tool.own.as_str())).into_iter().collect();
        let near: Vec<String> =
            self.all.iter().filter(|tool| near.contains(tool.own.as_str())).map(Tool::canonical).collect();
        let missing: Vec<String> = self.missing.iter().map(|(id, why)| format!("{id} ({why})")).collect();
        let help = match (near.is_empty(), missing.is_empty()) {
            (false, _) => format!("did you mean `{}`?", near.join("` or `")),
            (true, true) => "`toolyard tools list` shows what there is".to_owned(),
            (true, false) => format!("it may belong to a server that is not active: {}", missing.join("; ")),
        };
        refused(format!("there is no tool `{name}`"), help)
    }
}

fn describe(upstream: &str, definition: Raw, names: NameStyle) -> Option<Tool> {
    let own = definition.member("name")?.as_string()?;
    let id = UpstreamId::parse_configured(upstream).unwrap_or_else(|_| UpstreamId::yard());
    let shown = names.name(&id, &own);
    Some(Tool { upstream: upstream.to_owned(), own, definition, shown })
}
