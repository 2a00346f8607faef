//! `toolyard ui`: opens the dashboard of the running gateway, signed in by a code that is valid once.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::anyhow;
use clap::Args;
use serde_json::json;

use super::{live, manage};
use crate::cli::Common;
use crate::failure::Failure;
use crate::{say, settings};

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
    if !args.print && has_browser() {
        let (found, _, _) = settings::look_for_gateway(common);
        let folder = live::folder(common, &found).ok_or_else(|| anyhow!("there is no state directory"))?;
        let page = folder.join(PAGE);
        write_page(&page, &url)?;
        if open(&page) {
            say::result(format_args!("opened {}/ui/ in your browser", live::reachable(&running.http)));
            say::line("if the page does not appear: `toolyard ui --print`");
            return Ok(());
        }
    }
    say::result(&url);
    say::line("the address is valid once, within a minute");
    Ok(())
}

/// The page that leads to the dashboard, in the state directory. Other users can read the arguments of a process, so
/// the browser gets the path of this page and not the address, which has the code in it.
const PAGE: &str = "open-dashboard.html";

/// Replaces the page of an earlier run, whose code is used up or too old.
fn write_page(path: &Path, url: &str) -> Result<(), Failure> {
    let page = include_str!("ui/open.html").replace("ADDRESS", &json!(url).to_string());
    let cannot = |error| anyhow!("cannot write {}: {error}", path.display());
    Ok(toolyard_model::private_file::write(path, page.as_bytes()).map_err(cannot)?)
}

fn has_browser() -> bool {
    let has_display = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(target_os = "macos", windows)) || has_display("DISPLAY") || has_display("WAYLAND_DISPLAY")
}

/// Whether a program that opens files could be started.
fn open(page: &Path) -> bool {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success() || cfg!(windows))
}
