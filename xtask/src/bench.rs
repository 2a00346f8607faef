//! `cargo xtask bench`: what the gateway costs, against a bare relay and nginx in front of the same upstream.
//!
//! A shared machine is noisy and drifts, so absolute figures mean little. All contestants are measured in
//! turns, round after round, and what counts is the median over rounds of the ratio within a round.
//! Every answer is checked; a wrong one fails the run.

mod callgrind;
mod case;
mod churn;
mod code;
mod contestant;
mod crossing;
mod load;
mod page;
mod peers;
mod report;
mod rounds;
mod scan;
mod sessions;
mod startup;
mod tokens;
mod usage;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::process;
use crate::step::step;
use crate::workspace::{self, Profile};
use contestant::{Contestants, Programs};
use crossing::Crossing;
use load::Load;
use report::Report;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are yes or no")]
pub(crate) struct Options {
    /// Fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object on stdout instead of tables.
    #[arg(long)]
    json: bool,
    /// Rounds that all contestants are measured in.
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds per measurement.
    #[arg(long)]
    seconds: Option<f64>,
    /// Measure one of the cases alone, so that many rounds take little time. A missed goal fails the command then.
    #[arg(long, value_name = "CASE", value_parser = case::KEYS)]
    only: Option<String>,
    /// The era that the load client speaks.
    #[arg(long, value_enum, default_value_t = Era::Modern)]
    era: Era,
    /// What apps and instances cost instead: latency against an app alone, memory and tasks of many. Fails if a file
    /// of an instance is not listed within 100 ms, or a line is not delivered through the hub within 200 ms.
    #[arg(long)]
    apps: bool,
    /// Also measure other gateways, installed and pinned, and write a dated page with tables and plots to `docs/bench`.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan", "churn", "only"])]
    peers: bool,
    /// Another gateway program to compare with, measured in the same rounds (at least nine). Less than 0.97 × its speed,
    /// or 200 instructions more per call (100 for a pack), fails the command.
    #[arg(long, value_name = "PATH")]
    old: Option<PathBuf>,
    /// A folder with the programs, instead of building them.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["apps", "scan"])]
    programs: Option<PathBuf>,
    /// The latency of calls while another upstream changes its list all the time, against quiet runs.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan"])]
    churn: bool,
    /// How fast the code pack answers and indexes on a clone of this repository, against its goals.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan", "churn", "only", "peers"])]
    code: bool,
    /// Count instructions per call under valgrind instead of measuring time.
    #[arg(long)]
    callgrind: bool,
    /// Calls to count the instructions of.
    #[arg(long, default_value_t = 1000, requires = "callgrind")]
    calls: u64,
    /// Count the instructions that a cached token of an issuer costs per request instead.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan", "churn", "peers", "only"])]
    tokens: bool,
    /// Measure what a thousand rules cost per call instead. More than 1 µs fails the command.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan", "churn", "peers", "only", "tokens"])]
    rules: bool,
    /// Measure how long a transcript of 100 MB takes to search and to read, and how much memory, instead.
    #[arg(long, conflicts_with_all = ["callgrind", "apps", "scan", "churn", "peers", "only", "tokens", "rules"])]
    sessions: bool,
    /// Measure how fast the music pack looks through a library of so many files instead.
    #[arg(long, value_name = "FILES", num_args = 0..=1, default_missing_value = "20000", conflicts_with = "callgrind")]
    scan: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Era {
    Legacy,
    Modern,
}

impl Era {
    fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    if options.apps {
        return step("apps and instances", apps);
    }
    if options.rules {
        return step("a thousand rules", rules);
    }
    let logs = workspace::target_directory()?.join("bench");
    std::fs::create_dir_all(&logs)?;
    if let Some(files) = options.scan {
        return scan(options, files, &logs);
    }
    if options.sessions {
        return step("a large transcript", sessions::measure);
    }
    if options.tokens {
        return step("count instructions of tokens", || tokens::count(&logs, options.json));
    }
    let programs = match &options.programs {
        Some(folder) => Programs { folder: folder.clone(), old: options.old.clone() },
        None => step("build", || build(options.old.clone()))?,
    };
    if options.churn {
        return step("churn", || churn::measure(&programs, options.quick, &logs));
    }
    if options.code {
        return step("code", || code::measure(&programs, options.quick, options.json, &logs));
    }
    // None of the peers speaks the modern era.
    let era = if options.peers { Era::Legacy } else { options.era };
    let load = Load::new(&programs, era.name());
    if options.callgrind {
        return step("count instructions", || {
            callgrind::count(&programs, &load, options.calls, &logs)?.print(options.json)
        });
    }
    let (rounds, seconds) = match (options.quick, &options.old) {
        (true, None) => (5, 0.8),
        (true, Some(_)) => (9, 0.8),
        (false, _) => (11, 1.5),
    };
    let plan = rounds::Plan {
        rounds: options.rounds.unwrap_or(rounds),
        seconds: options.seconds.unwrap_or(seconds),
        only: options.only.clone(),
    };
    let starts = step("starts", || startup::measure(&programs, &logs))?;
    let contestants = step("contestants", || Contestants::start(&programs, options.peers, &load, &logs))?;
    let crossing = || Crossing::start(&programs, &logs);
    let is_whole = plan.only.is_none();
    let crossing = is_whole.then(|| step("one upstream of each era", crossing)).transpose()?;
    let idle = contestants.memory();
    let rounds = step("rounds", || rounds::run(&contestants, crossing.as_ref(), &load, &plan))?;
    let report =
        Report { rounds: &rounds, idle, peak: contestants.memory(), starts, missing: &contestants.missing };
    report.print(options.json);
    if options.peers {
        println!("\nwrote {}", page::write(&report, &plan, era.name())?.display());
        // Wrong answers of others are on the page.
        return rounds.check_of(|name| !peers::is_one(name));
    }
    rounds.check()?;
    report.check_speed()?;
    plan.only.as_deref().map_or(Ok(()), |case| report.check_goal(case))
}

/// The tests that report figures, of a release build.
fn apps() -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "toolyard", "--test", "apps"]);
    cargo.args(["--", "--nocapture", "--test-threads", "1", "figures::"]);
    // Two tests of times: here each time counts, and not only the median.
    cargo.args(["a_file_is_listed_soon_after_it_was_written", "a_line_arrives_as_soon_as_it_is_written"]);
    cargo.env("TOOLYARD_CHECK_EACH_TIME", "1");
    process::run(&mut cargo)
}

/// The test that reports what rules cost, of a release build.
fn rules() -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "toolyard-policy", "--lib", "--", "--nocapture"]);
    cargo.arg("a_call_with_a_thousand_rules");
    process::run(cargo.env("TOOLYARD_FIGURES", "1"))
}

fn scan(options: &Options, files: usize, logs: &Path) -> Result<()> {
    let folder = step("build", || workspace::build("toolyard", Profile::Release))?;
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 7 });
    let report = step("scans", || scan::measure(&Programs { folder, old: None }, files, rounds, logs))?;
    report.print(options.json);
    Ok(())
}

fn build(old: Option<PathBuf>) -> Result<Programs> {
    let folder = workspace::build("toolyard-bench", Profile::Release)?;
    workspace::build("toolyard", Profile::Release)?;
    Ok(Programs { folder, old })
}
