//! Candidates for completion: servers, tools and parameters of tools.
//!
//! A shell waits for the answer at every keystroke, so no server is started for it. The tools are those that the
//! running gateway lists, or else those that were stored when the servers were last connected.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use clap_complete::CompletionCandidate;
use serde_json::Value;
use toolyard_core::catalog::stored_tools;
use toolyard_proto::Raw;
use toolyard_proto::name::{NameStyle, UpstreamId};

use crate::cli::{Cli, Common};
use crate::commands::live::{self, Client};
use crate::commands::tools::{Tool, Tools};
use crate::settings;

/// How long the running gateway may take to list its tools.
const A_MOMENT: Duration = Duration::from_secs(2);

/// The servers of the config, and packs.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let packs = crate::packs::all().iter().map(|pack| pack.name().to_owned());
    settings::server_ids(&common()).into_iter().chain(packs).map(CompletionCandidate::new).collect()
}

/// The profiles of the config.
pub(crate) fn profiles() -> Vec<CompletionCandidate> {
    let (_, loaded, _) = settings::look_for_gateway(&common());
    let profiles = loaded.config.map(|config| config.profiles).unwrap_or_default();
    profiles.iter().map(|profile| CompletionCandidate::new(profile.name.as_str())).collect()
}

/// Tools under the names that clients see: a shell may split the others at the colon.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let candidate = |tool: Tool| {
        let about = tool.text("description").or_else(|| tool.text("title"));
        let line = about.and_then(|text| text.trim().lines().next().map(str::to_owned));
        CompletionCandidate::new(tool.shown).help(line.map(Into::into))
    };
    known(&common()).into_iter().map(candidate).collect()
}

/// `name=` for each parameter of the tool that is being called.
pub(crate) fn parameters() -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args().collect();
    let Some(name) = words.iter().skip_while(|word| *word != "call").nth(1) else { return Vec::new() };
    let tools = known(&common());
    let is_it = |tool: &&Tool| tool.shown == *name || tool.canonical() == *name || tool.own == *name;
    let Some(tool) = tools.iter().find(is_it) else { return Vec::new() };
    let schema = tool.definition.member("inputSchema").and_then(|schema| schema.read::<Value>().ok());
    let properties = schema.as_ref().and_then(|schema| schema["properties"].as_object());
    let candidate = |(name, about): (&String, &Value)| {
        let line = about["description"].as_str().and_then(|text| text.trim().lines().next());
        CompletionCandidate::new(format!("{name}=")).help(line.map(|line| line.to_owned().into()))
    };
    properties.into_iter().flatten().map(candidate).collect()
}

/// The flags of the command line that decide which config is meant.
fn common() -> Common {
    let words: Vec<String> = std::env::args().collect();
    let mut flags = vec!["toolyard".to_owned()];
    for flag in ["--config", "--state-dir"] {
        let at = words.iter().position(|word| word == flag);
        let apart = at.and_then(|at| words.get(at + 1)).cloned();
        let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        if let Some(value) = apart.or_else(|| joined.map(str::to_owned)) {
            flags.push(format!("{flag}={value}"));
        }
    }
    let parsed = Cli::try_parse_from(&flags).or_else(|_| Cli::try_parse_from(&flags[..1]));
    parsed.map_or_else(|error| error.exit(), |cli| cli.common)
}

fn known(common: &Common) -> Vec<Tool> {
    let (found, loaded, running) = settings::look_for_gateway(common);
    let Some(config) = loaded.config else { return Vec::new() };
    let names = config.names;
    let folder = live::folder(common, &found);
    if let Some(running) = running {
        let settings = settings::Settings { found, config, remarks: Vec::new() };
        let listed = live::block_on(async {
            let client = Client::of_running(&running, Some(&settings.config), settings.config.auth.as_ref());
            let listed = tokio::time::timeout(A_MOMENT, Tools::of(&client, &settings, None)).await;
            client.end().await;
            listed.ok()?.ok()
        });
        if let Ok(Some(tools)) = listed {
            return tools.all;
        }
    }
    stored(folder, &settings::server_ids(common), names)
}

fn stored(folder: Option<PathBuf>, ids: &[String], names: NameStyle) -> Vec<Tool> {
    let Some(folder) = folder else { return Vec::new() };
    let of_one = |id: &String| -> Vec<Tool> {
        let Ok(parsed) = UpstreamId::parse(id) else { return Vec::new() };
        let tool = |definition: Raw| {
            let own = definition.member("name")?.as_string()?;
            Some(Tool { upstream: id.clone(), shown: names.name(&parsed, &own), own, definition })
        };
        stored_tools(&folder, &parsed).into_iter().filter_map(tool).collect()
    };
    ids.iter().flat_map(of_one).collect()
}
