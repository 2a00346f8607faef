//! `toolyard tools disable` and `enable`: switch single tools off and on, in the gateway that runs with this config
//! and for all that run with it later.

use clap::Args;
use serde_json::json;

use super::{upstream_in, with_client};
use crate::cli::Common;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// `upstream:tool`, as `toolyard tools list` shows it.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn switch(common: &Common, args: &SwitchArgs, action: &str) -> Result<(), Failure> {
    let only = args.ids.first().filter(|_| args.ids.len() == 1).and_then(|id| upstream_in(common, id));
    with_client(common, only.as_deref(), async |client, settings| {
        client.caught_up(&settings.config).await?;
        client.known().await?;
        for id in &args.ids {
            let done = client.control(&format!("/tools/{action}"), Some(&json!({ "id": id }))).await?;
            let text = |key: &str| done[key].as_str().unwrap_or(id).to_owned();
            let note = if done["changed"] == false { " already" } else { "" };
            say::result(format_args!("{} is{note} {}", text("id"), text("state")));
        }
        Ok(())
    })
}
