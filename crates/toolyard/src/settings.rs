//! Flags, environment and config file brought together: what every command starts from.

use crate::cli::Common;
use crate::config::{self, Config, Found, Loaded, Problem};
use crate::failure::Failure;

pub(crate) struct Settings {
    pub(crate) found: Found,
    pub(crate) config: Config,
    /// Worth saying, but nothing to stop for.
    pub(crate) remarks: Vec<Problem>,
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Which file is in force, and what it says.
pub(crate) fn look(common: &Common) -> (Found, Loaded) {
    let folder = std::env::current_dir().unwrap_or_default();
    let found = config::find(common.config.as_deref(), &folder, &variable);
    let mut loaded = match &found.file {
        Some(file) => config::load(file, &variable),
        None => Loaded { config: Some(Config::default()), problems: Vec::new() },
    };
    loaded.problems.extend(found.unused.as_deref().map(config::unused_hint));
    (found, loaded)
}

/// The same, where nothing works without a good config.
pub(crate) fn read(common: &Common) -> Result<Settings, Failure> {
    let (found, loaded) = look(common);
    match loaded.config {
        Some(config) => Ok(Settings { found, config, remarks: loaded.problems }),
        None => Err(Failure::Config(loaded.problems)),
    }
}
