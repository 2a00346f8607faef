//! `toolyard ui`: opens the dashboard of the running gateway, signed in by a code that is valid once.

use std::process::{Command, Stdio};

use anyhow::anyhow;
use clap::Args;
use serde_json::json;

use super::{live, manage};
use crate::cli::Common;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Print the address instead of opening a browser.
    #[arg(long)]
    print: bool,
    /// Print the address as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn ui(common: &Common, args: &UiArgs) -> Result<(), Failure> {
    let running = manage::running(common)?;
    let made = manage::post(&running, "/ui/codes")?;
    let path = made["path"].as_str().ok_or_else(|| anyhow!("the gateway made no code for the dashboard"))?;
    let url = format!("{}{path}", live::reachable(&running.http));
    if args.json {
        return Ok(say::json(&json!({ "url": url, "expiresInSeconds": made["expiresInSeconds"] }))?);
    }
    if !args.print && open(&url) {
        say::result(format_args!("opened {}/ui/ in your browser", live::reachable(&running.http)));
        return Ok(());
    }
    say::result(&url);
    say::line("the address is valid once, within a minute");
    Ok(())
}

/// Whether a program that opens addresses was started. The address holds the code, so it is not logged.
fn open(url: &str) -> bool {
    let has_display = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else if has_display("DISPLAY") || has_display("WAYLAND_DISPLAY") {
        "xdg-open"
    } else {
        return false;
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success() || cfg!(windows))
}
