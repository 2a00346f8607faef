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
                .flat_map(|state| {
                    let more =
                        failed_lists(state).chain(held(state)).chain(unrecorded(state)).chain(faults(state));
                    std::iter::once(finding(state)).chain(more)
                })
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
    let is_dynamic = state.kind.as_deref().is_some_and(|kind| kind == "app" || kind == "instance");
    if state.is_under_way() {
        let help = "wait, or raise `start_timeout` if it takes longer than two minutes";
        let why = state.why().unwrap_or_else(|| reason.to_owned());
        return Finding::new(Severity::Note, &state.id, why, help);
    }
    let severity = if is_dynamic { Severity::Note } else { Severity::Wrong };
    let finding = Finding::new(severity, &state.id, reason, help);
    finding.or_else(|| advice(state))
}

/// The next step for a server whose state names none.
fn advice(state: &UpstreamState) -> String {
    match state.phase.as_str() {
        "sign-in needed" => format!("`toolyard login {}` signs you in", state.id),
        "disabled" => "fix its section in the config; it is read again at once".to_owned(),
        _ => {
            format!("look at its log (`toolyard logs {0}`); `toolyard restart {0}` tries it again", state.id)
        }
    }
}

/// Tools that wait for approval.
fn held(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    state.held.iter().map(|held| {
        let (why, help) = held.why();
        let lines: Vec<String> = std::iter::once(why).chain(held.differences()).collect();
        Finding::new(Severity::Note, &state.id, lines.join("\n    "), help)
    })
}

/// A record of definitions that is in memory only.
fn unrecorded(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    let help = format!(
        "make the state directory writable, then `toolyard restart {}`: until then, no change is noticed that happens \
         while the gateway does not run",
        state.id
    );
    let message = |why| format!("the definitions of its tools cannot be recorded: {why}");
    state
        .unrecorded
        .iter()
        .map(move |why| Finding::new(Severity::Wrong, &state.id, message(why), help.as_str()))
}

/// Lists that an active server answered with an error.
fn failed_lists(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    let help = "look at the log of the server (`toolyard logs`), and restart it if that does not help";
    state
        .failed_lists
        .iter()
        .map(move |failure| Finding::new(Severity::Wrong, &state.id, failure.as_str(), help))
}

/// Entries for which clients would refuse the whole list. Only their server can fix that.
fn faults(state: &UpstreamState) -> impl Iterator<Item = Finding> {
    let help = format!("only the server can fix this; /mcp/{} shows its original definition", state.id);
    let note = move |fault: &String| Finding::new(Severity::Note, &state.id, fault.as_str(), help.as_str());
    state.faults.iter().filter(|fault| !state.failed_lists.contains(fault)).map(note)
}

/// The listener for apps, if another program uses its address.
fn taken(report: &Value) -> Option<Finding> {
    let taken = report["doors"]["appsTaken"].as_str()?;
    let message = format!("{taken} is taken by another program, so apps cannot register there");
    let help =
        "end that program (it is tried again every 5 s), or choose another address as `listen` in [apps]";
    Some(Finding::new(Severity::Wrong, "apps", message, help))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(phase: &str, hint: Option<&str>) -> UpstreamState {
        serde_json::from_value(
            json!({ "id": "x", "state": phase, "reason": "it broke", "hint": hint, "tools": 0 }),
        )
        .unwrap()
    }

    #[test]
    fn every_server_that_is_wrong_has_advice() {
        for phase in ["retrying", "dead", "sign-in needed", "disabled", "ended", "of a later version"] {
            let found = finding(&state(phase, None));
            assert_eq!((found.state, found.help.is_empty()), (Severity::Wrong, false), "{phase}");
            assert_eq!(finding(&state(phase, Some("do this"))).help, "do this", "{phase}");
        }
        let mut failed = state("active", None);
        failed.failed_lists.push("its tools cannot be listed".to_owned());
        assert!(failed_lists(&failed).all(|found| !found.help.is_empty()));
        let taken = taken(&json!({ "doors": { "appsTaken": "127.0.0.1:5100" } })).unwrap();
        assert!(!taken.help.is_empty());
    }
}
