//! Starts and asks every server, and shows what the running gateway has seen of them.

use serde_json::Value;

use super::{Finding, Severity, count};
use crate::cli::Common;
use crate::commands::live::UpstreamState;
use crate::commands::tools::with_client;
use crate::failure::Failure;

pub(super) struct Asked {
    pub(super) findings: Vec<Finding>,
    /// `None` if no gateway runs.
    pub(super) report: Option<Value>,
}

pub(super) fn servers(common: &Common) -> Result<Asked, Failure> {
    with_client(common, None, async |client, _| match client.settled().await {
        Ok(states) => {
            let mut findings: Vec<Finding> = states
                .iter()
                .flat_map(|state| std::iter::once(finding(state)).chain(held(state)).chain(faults(state)))
                .collect();
            let report = if client.is_own() { None } else { client.report().await.ok() };
            findings.extend(report.iter().filter_map(taken));
            Ok(Asked { findings, report })
        }
        Err(error) => {
            let help = "another program may have the address: stop it, then start the gateway again";
            let finding = Finding::new(Severity::Wrong, "gateway", format!("{error:#}"), help);
            Ok(Asked { findings: vec![finding], report: None })
        }
    })
}

fn finding(state: &UpstreamState) -> Finding {
    if state.phase == "active" {
        return Finding::good(&state.id, format!("active, {}", count(state.tools, "tool")));
    }
    let reason = state.reason.as_deref().unwrap_or("does not answer");
    let help = state.hint.as_deref().unwrap_or_default();
    // Apps come and go; that is not a problem.
    let is_guest = state.kind.as_deref().is_some_and(|kind| kind == "app" || kind == "instance");
    if state.is_under_way() {
        let help = "wait, or raise `start_timeout` if it takes longer than two minutes";
        return Finding::new(Severity::Note, &state.id, reason, help);
    }
    let state_of = if is_guest { Severity::Note } else { Severity::Wrong };
    Finding::new(state_of, &state.id, reason, help)
}

/// Tools that wait for approval.
fn held(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    state.held.iter().map(|held| {
        let (why, help) = held.why();
        let lines: Vec<String> = std::iter::once(why).chain(held.differences()).collect();
        Finding::new(Severity::Note, &state.id, lines.join("\n    "), help)
    })
}

/// Entries for which clients would refuse the whole list. Only their server can fix that.
fn faults(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    let help = format!("only the server can fix this; /mcp/{} shows its original definition", state.id);
    let note = move |fault: &String| Finding::new(Severity::Note, &state.id, fault.as_str(), help.as_str());
    state.faults.iter().map(note)
}

/// The listener for apps, if another program uses its address.
fn taken(report: &Value) -> Option<Finding> {
    let taken = report["doors"]["appsTaken"].as_str()?;
    let message = format!("{taken} is taken by another program, so apps cannot register there");
    let help =
        "end that program (it is tried again every 5 s), or choose another address as `listen` in [apps]";
    Some(Finding::new(Severity::Wrong, "apps", message, help))
}
