//! `toolyard ui`: opens the dashboard of the running gateway, signed in by a code that is valid once.

use anyhow::anyhow;
use clap::Args;
use serde_json::json;

use super::{live, manage};
use crate::browser::PrivatePage;
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
        let page = PrivatePage::write(folder.join(PAGE), &url)?;
        if is_opened(&page) {
            page.keep();
            say::result(format_args!("opened {}/ui/ in your browser", live::reachable(&running.http)));
            say::line("if the page does not appear: `toolyard ui --print`");
            return Ok(());
        }
    }
    say::result(&url);
    say::line("the address is valid once, within a minute");
    Ok(())
}

/// The page that leads to the dashboard, in the state directory. It stays there: its code is valid once, and the next
/// run replaces it.
const PAGE: &str = "open-dashboard.html";

fn has_browser() -> bool {
    let has_display = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(target_os = "macos", windows)) || has_display("DISPLAY") || has_display("WAYLAND_DISPLAY")
}

/// Whether a program has opened the page. On Windows, it reports nothing.
fn is_opened(page: &PrivatePage) -> bool {
    let status = page.open().and_then(|mut program| program.wait().ok());
    status.is_some_and(|status| status.success() || cfg!(windows))
}
