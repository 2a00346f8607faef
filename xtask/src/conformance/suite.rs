//! Runs the official suite and reads its results.
//!
//! The suite writes one folder per scenario with a `checks.json`; that is read, not its printed words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::baseline::Excuse;
use crate::process;
use crate::tools::Npm;

/// The frozen sets of scenarios that the suite scores, each run at its own revision.
pub(super) const REQUIREMENTS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Scenarios that the suite runs but does not score, and that must pass here all the same.
const HELD_TO: [(&str, &str); 5] = [
    ("2025-11-25", "json-schema-2020-12"),
    ("2025-11-25", "server-session-lifecycle"),
    ("2025-11-25", "server-sse-polling"),
    ("2026-07-28", "http-header-validation"),
    ("2026-07-28", "json-schema-2020-12"),
];

/// Those of the tasks extension, which a server written with the SDK must pass. One is missing: of
/// `tasks-status-notifications` the suite itself marks as to be rewritten, and skips;
/// `a_listener_is_notified_of_the_status_of_its_task` in `sdk/toolyard-tool/tests/set/tasks.rs` replaces it.
pub(super) const TASKS: [(&str, &str); 9] = [
    ("2026-07-28", "tasks-capability-negotiation"),
    ("2026-07-28", "tasks-dispatch-and-envelope"),
    ("2026-07-28", "tasks-lifecycle"),
    ("2026-07-28", "tasks-mrtr-composition"),
    ("2026-07-28", "tasks-mrtr-input"),
    ("2026-07-28", "tasks-request-headers"),
    ("2026-07-28", "tasks-request-state-removal"),
    ("2026-07-28", "tasks-required-task-error"),
    ("2026-07-28", "tasks-wire-fields"),
];

/// Those of the extension for skills. Run alone, since the set of the revision does not have them.
pub(super) const SKILLS: [(&str, &str); 3] = [
    ("2026-07-28", "sep-2640-skills-directory"),
    ("2026-07-28", "sep-2640-skills-enumeration"),
    ("2026-07-28", "sep-2640-skills-manifest"),
];

pub(super) struct Suite {
    node: PathBuf,
    script: PathBuf,
    results: PathBuf,
}

/// What came of one run.
pub(super) struct Verdict {
    name: String,
    scenarios: Vec<Scenario>,
    excuses: Vec<Excuse>,
}

struct Scenario {
    name: String,
    is_required: bool,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    error_message: Option<String>,
}

impl Suite {
    /// Results of earlier runs in that folder are removed.
    pub(super) fn new(npm: &Npm, results: &Path) -> Result<Self> {
        if results.exists() {
            fs::remove_dir_all(results).with_context(|| format!("clear `{}`", results.display()))?;
        }
        fs::create_dir_all(results).with_context(|| format!("make `{}`", results.display()))?;
        Ok(Self {
            node: npm.node.clone(),
            script: npm.folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"),
            results: results.to_owned(),
        })
    }

    pub(super) fn run(
        &self,
        name: &str,
        url: &str,
        requirements: &str,
        held_to: &[(&str, &str)],
        only: Option<&str>,
    ) -> Result<Verdict> {
        let required = self.required(requirements, held_to)?;
        let folder = self.results.join(name.replace([' ', ','], "-"));
        fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
        let log = fs::File::create(folder.join("suite.log")).context("write the suite's log")?;
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(["server", "--url", url, "--output-dir"]).arg(&folder);
        match only {
            Some(scenario) => {
                command.args(["--scenario", scenario, "--spec-version", requirements, "--force"])
            }
            None => command.args(["--requirements", requirements]),
        };
        // It ends with an error when something failed; what failed is in the results.
        process::status(command.stdout(log.try_clone()?).stderr(log))?;
        let mut checks = read_results(&folder, "server-")?;
        if checks.is_empty() {
            bail!("the suite left no results; its log: {}", fs::read_to_string(folder.join("suite.log"))?);
        }
        // A required scenario that left no result has failed, not vanished.
        for scenario in required.iter().filter(|_| only.is_none()) {
            checks.entry(scenario.clone()).or_default();
        }
        let scenarios = checks
            .into_iter()
            .map(|(name, checks)| Scenario { is_required: required.contains(&name), name, checks })
            .collect();
        Ok(Verdict { name: name.to_owned(), scenarios, excuses: Vec::new() })
    }

    /// Runs the authorization scenarios for clients that a set requires. `program` is the gateway's; each scenario
    /// starts the client of `cargo xtask conformance-client` with it.
    pub(super) fn run_client_auth(
        &self,
        name: &str,
        program: &Path,
        requirements: &str,
        only: Option<&str>,
    ) -> Result<Verdict> {
        let mut list = Command::new(&self.node);
        list.arg(&self.script).args(["list", "--requirements", requirements]);
        let listing = process::output(&mut list)?;
        let listed = scenarios(&listing, "Client scenarios");
        let extensions = client_extensions(&listing);
        let required: BTreeSet<String> =
            listed.iter().filter_map(|name| name.strip_prefix("auth/")).map(str::to_owned).collect();
        if required.is_empty() {
            bail!("the suite lists no authorization scenarios for {requirements}");
        }
        let folder = self.results.join(name.replace([' ', ','], "-"));
        fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
        let log = fs::File::create(folder.join("suite.log")).context("write the suite's log")?;
        let own = std::env::current_exe().context("find this program")?;
        let client = format!("{} conformance-client --program {}", own.display(), program.display());
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(["client", "--command", &client, "--output-dir"]).arg(&folder);
        match only {
            Some(scenario) => {
                let scenario = format!("auth/{}", scenario.trim_start_matches("auth/"));
                command.args(["--scenario", &scenario, "--spec-version", requirements, "--force"])
            }
            None => command.args(["--requirements", requirements]),
        };
        process::status(command.stdout(log.try_clone()?).stderr(log))?;
        let mut checks = read_results(&folder.join("auth"), "")?;
        // The suite runs the extensions as well and does not score them; they are reported in any case.
        for scenario in required.iter().chain(&extensions).filter(|_| only.is_none()) {
            checks.entry(scenario.clone()).or_default();
        }
        let scenarios = checks
            .into_iter()
            .map(|(name, checks)| Scenario { is_required: required.contains(&name), name, checks })
            .collect();
        Ok(Verdict { name: name.to_owned(), scenarios, excuses: Vec::new() })
    }

    /// The scenarios for servers that a set requires, and those we hold ourselves to, there or anywhere.
    fn required(&self, requirements: &str, held_to: &[(&str, &str)]) -> Result<BTreeSet<String>> {
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(["list", "--requirements", requirements]);
        let mut required = scenarios(&process::output(&mut command)?, "Server scenarios");
        if required.is_empty() {
            bail!("the suite lists no server scenarios for {requirements}");
        }
        let held_to = HELD_TO.iter().chain(held_to).filter(|(revision, _)| *revision == requirements);
        required.extend(held_to.map(|(_, scenario)| (*scenario).to_owned()));
        Ok(required)
    }
}

impl Verdict {
    /// The same, with failures that have a known reason not counted.
    pub(super) fn excusing(self, excuses: Vec<Excuse>) -> Self {
        Self { excuses, ..self }
    }

    pub(super) fn is_good(&self) -> bool {
        self.failures().next().is_none()
    }

    pub(super) fn summary(&self) -> String {
        let (required, unscored): (Vec<_>, Vec<_>) =
            self.scenarios.iter().partition(|scenario| scenario.is_required);
        let passed = |scenarios: &[&Scenario]| scenarios.iter().filter(|scenario| scenario.passes()).count();
        let checks =
            |status: &str| self.scenarios.iter().map(|scenario| scenario.count(status)).sum::<usize>();
        format!(
            "{} {}: required {}/{}{}, unscored {}/{}, checks {} passed, {} failed",
            if self.is_good() { "ok  " } else { "FAIL" },
            self.name,
            passed(&required),
            required.len(),
            if self.excuses.is_empty() {
                String::new()
            } else {
                format!(" ({} excused)", self.excuses.len())
            },
            passed(&unscored),
            unscored.len(),
            checks("SUCCESS"),
            checks("FAILURE"),
        )
    }

    /// A line for every scenario, and below each that fails, why.
    pub(super) fn print(&self) {
        for excuse in &self.excuses {
            println!("excused: {} because {}", excuse.what, excuse.reason);
        }
        println!("{:<52} {:<9} {:>6} {:>6}", "scenario", "required", "passed", "failed");
        for scenario in &self.scenarios {
            println!(
                "{:<52} {:<9} {:>6} {:>6}",
                scenario.name,
                if scenario.is_required { "yes" } else { "no" },
                scenario.count("SUCCESS"),
                scenario.count("FAILURE"),
            );
            for check in scenario.checks.iter().filter(|check| check.status == "FAILURE") {
                let why = check.error_message.as_deref().unwrap_or("no reason given").replace('\n', " ");
                println!("    {}: {}", check.id, why.chars().take(300).collect::<String>());
            }
        }
    }

    fn failures(&self) -> impl Iterator<Item = &Scenario> {
        self.scenarios.iter().filter(|scenario| scenario.is_required && !self.accepts(scenario))
    }

    /// It passes, or all that is wrong with it has an excuse.
    fn accepts(&self, scenario: &Scenario) -> bool {
        let excused = |what: &str| self.excuses.iter().any(|excuse| excuse.what == what);
        let failed_checks = || scenario.checks.iter().filter(|check| check.status == "FAILURE");
        scenario.passes()
            || excused(&scenario.name)
            || scenario.count("SUCCESS") > 0
                && failed_checks().all(|check| excused(&format!("{}:{}", scenario.name, check.id)))
    }
}

impl Scenario {
    /// Something was checked, and nothing failed.
    fn passes(&self) -> bool {
        self.count("FAILURE") == 0 && self.count("SUCCESS") > 0
    }

    fn count(&self, status: &str) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// Reads a section of scenarios from what `list --requirements` prints.
fn scenarios(listing: &str, heading: &str) -> BTreeSet<String> {
    let section = listing.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    section.map_while(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

/// The authorization scenarios of extensions, which are listed with the side that they test.
fn client_extensions(listing: &str) -> BTreeSet<String> {
    let reported = listing.lines().skip_while(|line| !line.starts_with("Run and reported"));
    let scenario = |line: &str| {
        let name = line.trim().strip_prefix("- auth/")?.strip_suffix(" [client]")?;
        Some(name.to_owned())
    };
    reported.filter_map(scenario).collect()
}

/// All checks by scenario. A folder is named `SCENARIO-TIME`, after a prefix.
fn read_results(folder: &Path, prefix: &str) -> Result<BTreeMap<String, Vec<Check>>> {
    let mut results = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read `{}`", folder.display()))? {
        let file = entry?.path().join("checks.json");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let checks: Vec<Check> =
            serde_json::from_str(&text).with_context(|| format!("read `{}`", file.display()))?;
        if let Some(name) =
            file.parent().and_then(Path::file_name).and_then(|name| scenario_in(name.to_str()?, prefix))
        {
            results.insert(name.to_owned(), checks);
        }
    }
    Ok(results)
}

/// The time is like `2026-11-15T03-11-02-754Z`: 24 characters and a dash before them.
fn scenario_in<'a>(folder: &'a str, prefix: &str) -> Option<&'a str> {
    let name = folder.strip_prefix(prefix)?;
    name.get(..name.len().checked_sub(25)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_in_the_name_of_the_folder() {
        assert_eq!(scenario_in("server-ping-2026-11-15T03-11-02-754Z", "server-"), Some("ping"));
        assert_eq!(
            scenario_in("server-server-initialize-2026-11-15T03-11-02-754Z", "server-"),
            Some("server-initialize")
        );
        assert_eq!(scenario_in("suite.log", "server-"), None);
    }

    #[test]
    fn only_the_section_for_servers_is_required() {
        let listing = "Required for X:\n\nServer scenarios (test against a server):\n  - ping\n  - tools-list\n\nClient scenarios:\n  - tools_call\n";
        assert_eq!(
            scenarios(listing, "Server scenarios").into_iter().collect::<Vec<_>>(),
            ["ping", "tools-list"]
        );
    }

    #[test]
    fn the_extensions_of_clients_are_known_from_the_list() {
        let listing = "Client scenarios:\n  - auth/basic-cimd\n\nRun and reported, but never scored:\n  extension (3):\n    - auth/dpop [client]\n    - auth/wif-jwt-bearer [client]\n    - tasks-lifecycle [server]\n";
        assert_eq!(client_extensions(listing).into_iter().collect::<Vec<_>>(), ["dpop", "wif-jwt-bearer"]);
    }

    #[test]
    fn a_scenario_without_a_result_does_not_pass() {
        let verdict = |checks: &[&str]| Verdict {
            name: String::new(),
            excuses: vec![Excuse { what: "ping:known".to_owned(), reason: String::new() }],
            scenarios: vec![Scenario {
                name: "ping".to_owned(),
                is_required: true,
                checks: checks
                    .iter()
                    .map(|status| Check {
                        id: String::new(),
                        status: (*status).to_owned(),
                        error_message: None,
                    })
                    .collect(),
            }],
        };
        assert!(verdict(&["SUCCESS", "SKIPPED"]).is_good());
        assert!(!verdict(&["SUCCESS", "FAILURE"]).is_good());
        assert!(!verdict(&[]).is_good());
        let mut known = verdict(&["SUCCESS", "FAILURE"]);
        known.scenarios[0].checks[1].id = "known".to_owned();
        assert!(known.is_good(), "what is excused does not count");
    }
}
