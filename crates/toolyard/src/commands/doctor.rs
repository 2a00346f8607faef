//! `toolyard doctor`: checks everything that can be wrong, and suggests what to do about it.

mod cluster;
mod pack_paths;
mod place;
mod report;
mod servers;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toolyard_config::{Config, Found, Level, Loaded, Problem, unused_hint};

use crate::cli::Common;
use crate::failure::Failure;
use crate::say::{self, Colour};
use crate::{packs, settings};

#[derive(Debug, Args)]
#[command(after_help = "\
Servers are contacted: through the gateway that runs with this config or, if none runs, by starting them
briefly. A running gateway also reports apps, discovered upstreams, clients and the last calls. The exit code is 1 if anything is wrong.")]
pub(crate) struct DoctorArgs {
    /// Do not start or ask any server.
    #[arg(long)]
    offline: bool,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of one check.
#[derive(Serialize)]
struct Finding {
    state: Severity,
    about: String,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Good,
    /// Nothing is wrong, but it may be unexpected.
    Note,
    Wrong,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Diagnosis<'a> {
    ok: bool,
    findings: &'a [Finding],
    /// The report of the running gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Value>,
}

pub(super) fn doctor(common: &Common, args: &DoctorArgs) -> Result<(), Failure> {
    let (found, mut loaded, _) = settings::look_for_gateway(common);
    let mut findings = config(&found, &mut loaded);
    findings.extend(place::state_dir(common, &found));
    let running = place::gateway(common, &found, &mut findings);
    if let Some(config) = loaded.config.as_ref().filter(|_| running.is_none()) {
        findings.extend(place::doors(common, &found, config));
    }
    findings.extend(loaded.config.as_ref().map(pack_paths::missing).unwrap_or_default());
    let mut report = None;
    if loaded.config.is_some() && !args.offline {
        let asked = servers::servers(common)?;
        findings.extend(asked.findings);
        findings.extend(asked.report.iter().flat_map(cluster::findings));
        report = asked.report;
    }
    let ok = findings.iter().all(|finding| finding.state != Severity::Wrong);
    if args.json {
        say::json(&Diagnosis { ok, findings: &findings, report: report.as_ref() })?;
    } else {
        print(&findings);
        if let Some(report) = &report {
            report::print(report);
        }
    }
    if ok { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
}

impl Finding {
    fn new(state: Severity, about: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { state, about: about.to_owned(), message: message.into(), help: help.into() }
    }

    fn good(about: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Good, about, message, "")
    }

    /// Adds this advice if the finding has none: every finding that is wrong has advice.
    fn or_else(mut self, advice: impl FnOnce() -> String) -> Self {
        if self.help.is_empty() && self.state == Severity::Wrong {
            self.help = advice();
        }
        self
    }
}

/// The config files, their problems, and which of them are in force.
fn config(found: &Found, loaded: &mut Loaded) -> Vec<Finding> {
    let mut findings = Vec::new();
    match (&loaded.config, found.names()) {
        (Some(config), Some(files)) => {
            findings.push(Finding::good("config", format!("{files}: {}", summary(config))));
        }
        (Some(_), None) => {
            let help = "toolyard add NAME -- COMMAND…, or toolyard import";
            findings.push(Finding::new(
                Severity::Note,
                "config",
                "there is none: only the built-in tools are served",
                help,
            ));
        }
        (None, _) => {}
    }
    if let Some((file, state)) = &found.unused {
        let hint = unused_hint(file, state);
        loaded.problems.retain(|problem| *problem != hint);
        findings.push(Finding::new(Severity::Wrong, "project", hint.message, hint.help));
    }
    findings.extend(loaded.problems.iter().map(problem));
    findings
}

/// How many servers and packs there are, and which are off.
fn summary(config: &Config) -> String {
    let (on, off) = (config.upstreams.on.len(), config.upstreams.off.len());
    let all = on + off;
    let off = if off == 0 { String::new() } else { format!(" ({off} switched off)") };
    let packs = packs::states(config).iter().filter(|state| state.config.is_ok()).count();
    let packs = if packs == 0 { String::new() } else { format!(", {}", count(packs, "pack")) };
    let packs_off = packs::off(config).map(|off| format!("; {off}")).unwrap_or_default();
    format!("{}{off}{packs}{packs_off}", count(all, "server"))
}

fn problem(problem: &Problem) -> Finding {
    let state = if problem.level == Level::Error { Severity::Wrong } else { Severity::Note };
    let place = problem.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
    let finding =
        Finding::new(state, "config", format!("{place}{key}{}", problem.message), problem.help.clone());
    finding.or_else(|| "`toolyard schema` describes every key".to_owned())
}

fn print(findings: &[Finding]) {
    let width = findings.iter().map(|finding| finding.about.chars().count()).max().unwrap_or(0);
    for Finding { state, about, message, help } in findings {
        let word = match state {
            Severity::Good => say::coloured("good ", Colour::Green),
            Severity::Note => say::coloured("note ", Colour::Yellow),
            Severity::Wrong => say::coloured("wrong", Colour::Red),
        };
        say::result(format_args!("{word}  {about:width$}  {message}"));
        if !help.is_empty() {
            say::result(format_args!("{:indent$}help: {help}", "", indent = width + 9));
        }
    }
    let wrong = findings.iter().filter(|finding| finding.state == Severity::Wrong).count();
    say::result(match wrong {
        0 => "nothing is wrong".to_owned(),
        1 => "1 thing is wrong".to_owned(),
        wrong => format!("{} are wrong", count(wrong, "thing")),
    });
}

fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_config_has_advice_also_where_its_problem_has_none() {
        let found = problem(&Problem::error("", "the file cannot be parsed", ""));
        assert_eq!((found.state, found.help.is_empty()), (Severity::Wrong, false));
        let found = problem(&Problem::error("", "the file cannot be parsed", "quote the text"));
        assert_eq!(found.help, "quote the text");
    }
}
