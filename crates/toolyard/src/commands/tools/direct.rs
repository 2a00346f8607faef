//! A server that is in no config: named on the command line, for one command.

use clap::Args;
use toml_edit::{DocumentMut, Item, Table};
use toolyard_config::{self as config, Found};

use crate::commands::add;
use crate::failure::{Failure, refused};
use crate::packs;
use crate::settings::{self, Settings};

/// The id of the server while the command runs.
const ID: &str = "direct";

#[derive(Debug, Args)]
pub(crate) struct Direct {
    /// Use the server at this address, instead of those of the config.
    #[arg(long, value_name = "URL", conflicts_with = "command", help_heading = HEADING)]
    url: Option<String>,
    /// A header for the server at `--url`.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", requires = "url", help_heading = HEADING)]
    header: Vec<String>,
    /// A variable for COMMAND.
    #[arg(short, long, value_name = "NAME=VALUE", requires = "command", help_heading = HEADING)]
    env: Vec<String>,
    /// Start this program and use it, instead of the servers of the config.
    #[arg(last = true, value_name = "COMMAND", help_heading = HEADING)]
    command: Vec<String>,
}

const HEADING: &str = "A server that is not in the config";

impl Direct {
    /// The id of the server, if the command line names one.
    pub(super) fn id(&self) -> Option<&'static str> {
        (self.url.is_some() || !self.command.is_empty()).then_some(ID)
    }

    /// A config with this server alone, if the command line names one.
    pub(super) fn settings(&self) -> Result<Option<Settings>, Failure> {
        if self.id().is_none() {
            return Ok(None);
        }
        let definition = add::direct(self.url.as_deref(), &self.header, &self.env, &self.command)?;
        let (mut upstreams, mut document) = (Table::new(), DocumentMut::new());
        upstreams.insert(ID, Item::Table(definition.to_toml()));
        document.insert("upstreams", Item::Table(upstreams));
        let packs = packs::known();
        let context =
            config::ReadContext { commands: Some(&config::run_command), ..settings::context(&packs) };
        let folder = std::env::current_dir().unwrap_or_default();
        let loaded = config::load_text(document.to_string(), &folder, &context);
        let Some(config) = loaded.config else {
            // No line of a file is to blame.
            let problems = loaded.problems.into_iter();
            return Err(Failure::Config(
                problems.map(|problem| config::Problem { place: None, ..problem }).collect(),
            ));
        };
        if let Some(missing) = config.upstreams.off.iter().find_map(|upstream| upstream.missing.as_ref()) {
            return Err(refused(missing.reason(), "set it for this command"));
        }
        let found = Found { sources: Vec::new(), user_file: None, unused: None };
        Ok(Some(Settings { found, config, remarks: loaded.problems }))
    }
}
