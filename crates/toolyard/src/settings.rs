//! Flags, environment and config file brought together: what every command starts from.

use toolyard_config::state_dir::{self, Running};
use toolyard_config::{self as config, Commands, Config, Found, KnownPacks, Loaded, Problem, ReadContext};
use toolyard_secrets::Store;

use crate::cli::Common;
use crate::commands::running;
use crate::failure::Failure;
use crate::packs;

pub(crate) struct Settings {
    pub(crate) found: Found,
    pub(crate) config: Config,
    /// Warnings, which do not prevent a start.
    pub(crate) remarks: Vec<Problem>,
}

pub(crate) use toolyard_config::environment as variable;

/// The store of the user's secrets; nothing where the user has no folder for it.
pub(crate) fn secrets() -> Option<Store> {
    Store::open(&state_dir::secrets(&variable)?).ok()
}

/// The value of `${secret:NAME}`.
fn secret(name: &str) -> Result<Option<String>, String> {
    let Some(store) = secrets() else { return Ok(None) };
    let Some(value) = store.get(name).map_err(|error| error.to_string())? else { return Ok(None) };
    let text = value.text().map_err(|_| format!("the secret `{name}` is not UTF-8 text"))?;
    Ok(Some(text.to_owned()))
}

/// The files in force and their content, to start something from them.
pub(crate) fn look(common: &Common) -> (Found, Loaded) {
    let found = find(common);
    let packs = packs::known();
    let loaded = load(&found, &ReadContext { commands: Some(&config::run_command), ..context(&packs) });
    (found, loaded)
}

/// The same, and the gateway that runs with these files. If one does, variables that are not set here are no
/// problem: the gateway has its own environment.
pub(crate) fn look_for_gateway(common: &Common) -> (Found, Loaded, Option<Running>) {
    let found = find(common);
    let running = running(common, &found);
    let packs = packs::known();
    let is_for_running = running.is_some();
    let commands: Option<&Commands<'_>> = if is_for_running { None } else { Some(&config::run_command) };
    let loaded = load(&found, &ReadContext { is_for_running, commands, ..context(&packs) });
    (found, loaded, running)
}

/// The same as [`look`], where nothing works without a valid config.
pub(crate) fn read(common: &Common) -> Result<Settings, Failure> {
    let (found, loaded) = look(common);
    settings(found, loaded)
}

/// The same as [`look_for_gateway`], where nothing works without a valid config.
pub(crate) fn read_for_gateway(common: &Common) -> Result<(Settings, Option<Running>), Failure> {
    let (found, loaded, running) = look_for_gateway(common);
    Ok((settings(found, loaded)?, running))
}

/// The ids of the servers in the files in force that are on.
pub(crate) fn server_ids(common: &Common) -> Vec<String> {
    let written = config::definition::written(&find(common).sources);
    written.into_iter().filter(|server| !server.definition.is_off).map(|server| server.id).collect()
}

/// The context for checking a config. It runs nothing: the user may not have trusted the file yet.
pub(crate) fn context(packs: &KnownPacks) -> ReadContext<'_> {
    ReadContext { variables: &variable, secrets: &secret, commands: None, packs, is_for_running: false }
}

fn settings(found: Found, loaded: Loaded) -> Result<Settings, Failure> {
    match loaded.config {
        Some(config) => Ok(Settings { found, config, remarks: loaded.problems }),
        None => Err(Failure::Config(loaded.problems)),
    }
}

/// The files in force.
pub(crate) fn find(common: &Common) -> Found {
    let folder = std::env::current_dir().unwrap_or_default();
    config::find(common.config.as_deref(), &folder, &variable)
}

fn load(found: &Found, context: &ReadContext<'_>) -> Loaded {
    let mut loaded = config::load(&found.sources, context);
    loaded.problems.extend(found.unused.as_ref().map(|(file, state)| config::unused_hint(file, state)));
    loaded
}
