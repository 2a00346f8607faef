//! `toolyard tools disable` and `enable`: switch single tools off and on, in the gateway that runs with this config
//! and for all that run with it later.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::json;

use super::{Tool, Tools, upstream_in, with_client};
use crate::cli::Common;
use crate::commands::completions;
use crate::commands::live::Client;
use crate::failure::Failure;
use crate::say;
use crate::settings::Settings;

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// `upstream:tool`, as `toolyard tools list` shows it, or the name that clients see.
    #[arg(required = true, value_name = "ID", add = ArgValueCandidates::new(completions::tools))]
    ids: Vec<String>,
}

pub(super) fn switch(common: &Common, args: &SwitchArgs, action: &str) -> Result<(), Failure> {
    let only = args.ids.first().filter(|_| args.ids.len() == 1).and_then(|id| upstream_in(common, id));
    with_client(common, only.as_deref(), async |client, settings| {
        client.caught_up(&settings.config).await?;
        client.known().await?;
        for id in &args.ids {
            let id = &canonical(client, settings, id).await?;
            let done = client.control(&format!("/tools/{action}"), Some(&json!({ "id": id }))).await?;
            let text = |key: &str| done[key].as_str().unwrap_or(id).to_owned();
            let note = if done["changed"] == false { " already" } else { "" };
            say::result(format_args!("{} is{note} {}", text("id"), text("state")));
        }
        Ok(())
    })
}

/// The id of a tool that may be written as clients see it.
async fn canonical(client: &Client, settings: &Settings, name: &str) -> Result<String, Failure> {
    if name.contains(':') || !name.contains("__") {
        return Ok(name.to_owned());
    }
    let tools = Tools::of(client, settings, None).await?;
    // One that is off is not listed.
    Ok(tools.find(name).map_or_else(|_| name.replacen("__", ":", 1), Tool::canonical))
}
