//! Flags, environment and config file brought together: what every command starts from.

use toolyard_config::{self as config, Config, Found, Loaded, Problem};

use crate::cli::Common;
use crate::failure::Failure;
use crate::packs;

pub(crate) struct Settings {
    pub(crate) found: Found,
    pub(crate) config: Config,
    /// Worth saying, but nothing to stop for.
    pub(crate) remarks: Vec<Problem>,
}

pub(crate) use toolyard_config::environment as variable;

/// Which files are in force, and what they say.
pub(crate) fn look(common: &Common) -> (Found, Loaded) {
    let folder = std::env::current_dir().unwrap_or_default();
    let found = config::find(common.config.as_deref(), &folder, &variable);
    let mut loaded = config::load(&found.sources, &variable, &packs::known());
    loaded.problems.extend(found.unused.as_ref().map(|(file, standing)| config::unused_hint(file, standing)));
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
