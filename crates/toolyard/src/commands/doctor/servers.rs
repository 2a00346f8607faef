//! Every server, tried for real.

use super::{Finding, State};
use crate::cli::Common;
use crate::commands::live::State as Live;
use crate::commands::tools::with_client;
use crate::failure::Failure;

pub(super) fn servers(common: &Common) -> Result<Vec<Finding>, Failure> {
    with_client(common, None, async |client, _| match client.settled().await {
        Ok(states) => Ok(states.iter().map(finding).collect()),
        Err(error) => {
            let help = "another program may have the address: stop it, then start the gateway again";
            Ok(vec![Finding::new(State::Wrong, "gateway", format!("{error:#}"), help)])
        }
    })
}

fn finding(state: &Live) -> Finding {
    if state.phase == "active" {
        return Finding::good(&state.id, format!("ready, {} tools", state.tools));
    }
    let reason = state.reason.as_deref().unwrap_or("does not answer");
    // What happened, then what to do.
    let (message, help) = reason.split_once("; ").unwrap_or((reason, ""));
    Finding::new(State::Wrong, &state.id, message, help)
}
