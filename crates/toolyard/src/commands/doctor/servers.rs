//! Every server, tried for real.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{Finding, State};
use crate::cli::Common;
use crate::commands::live::{Client, State as Live};
use crate::commands::tools::with_client;
use crate::failure::Failure;

/// Connecting and the first answer are given 10 seconds each; whoever needs longer is slow.
const PATIENCE: Duration = Duration::from_secs(22);
const A_MOMENT: Duration = Duration::from_millis(50);

pub(super) fn servers(common: &Common) -> Result<Vec<Finding>, Failure> {
    with_client(common, None, async |client, _| match settled(client).await {
        Ok(states) => Ok(states.iter().map(finding).collect()),
        Err(error) => {
            let help = "another program may have the address: stop it, then start the gateway again";
            Ok(vec![Finding::new(State::Wrong, "gateway", format!("{error:#}"), help)])
        }
    })
}

/// Their states, once none of them is only just being connected.
async fn settled(client: &Client) -> Result<Vec<Live>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let states = client.states().await?;
        let is_settled = states.iter().all(|state| state.state != "connecting");
        if is_settled || Instant::now() >= deadline {
            return Ok(states);
        }
        sleep(A_MOMENT).await;
    }
}

fn finding(state: &Live) -> Finding {
    if state.state == "ready" {
        return Finding::good(&state.id, format!("ready, {} tools", state.tools));
    }
    let reason = state.reason.as_deref().unwrap_or("does not answer");
    // What happened, then what to do.
    let (message, help) = reason.split_once("; ").unwrap_or((reason, ""));
    Finding::new(State::Wrong, &state.id, message, help)
}
