//! `cargo xtask bench --churn`: what a change of the catalog costs the calls to upstreams that did not change.
//!
//! One upstream answers calls over HTTP; another, a child process with the tools of the catalog, changes its list all
//! the time, or keeps it in the quiet runs. Quiet and churn runs take turns, and the gateway and the child of the churn
//! runs are stopped meanwhile, so that they take no time of the quiet ones. Instructions per call are counted with the
//! smallest and the largest catalog, quiet.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::callgrind;
use super::case::CASES;
use super::contestant::{Contestant, Programs};
use super::load::{Load, Sample, Until};
use super::rounds::median;
use super::usage::{self, memory};
use crate::process::{self, Background};

const TOOLS: [usize; 4] = [10, 2_000, 20_000, 100_000];
/// Calls of each kind of run, over all rounds.
const CALLS: u64 = 200_000;
const ROUNDS: u64 = 4;
/// Between two changes of the list.
const PAUSE_MS: &str = "20";
/// How long the gateway may take to list the largest catalog.
const LISTED: Duration = Duration::from_mins(2);
/// A call may be this much worse in a churn run than the worst of the quiet runs.
const WORST_ABOVE_US: f64 = 5000.0;
const P999_RATIO: f64 = 2.0;
/// A call in the largest catalog may take so many times the instructions of one in the smallest.
const INSTRUCTIONS_RATIO: f64 = 1.1;

pub(super) fn measure(programs: &Programs, quick: bool, logs: &Path) -> Result<()> {
    let load = Load::new(programs, "modern");
    let calls = if quick { CALLS / 20 } else { CALLS };
    println!("{calls} calls of each kind, {ROUNDS} rounds in turns, a change every {PAUSE_MS} ms\n");
    println!(
        "{:>8} {:>7} {:>10} {:>12} {:>12} {:>12}",
        "tools", "run", "p50 µs", "p99.9 µs", "worst µs", "RSS MB"
    );
    let mut missed = Vec::new();
    for tools in TOOLS {
        let [quiet, churn] = compare(programs, &load, tools, calls, logs)?;
        quiet.print(tools, "quiet");
        churn.print(tools, "churn");
        if churn.p999 > P999_RATIO * quiet.p999 || churn.worst > quiet.worst + WORST_ABOVE_US {
            missed.push(format!("calls under churn with {tools} tools"));
        }
    }
    let count = |tools| {
        instructions(programs, &load, tools, logs)
            .with_context(|| format!("count the instructions of a call with {tools} tools"))
    };
    let (few, many) = (count(TOOLS[0])?, count(TOOLS[3])?);
    println!("\ninstructions per call: {few} with {} tools, {many} with {}", TOOLS[0], TOOLS[3]);
    if callgrind::is_above(many, few, INSTRUCTIONS_RATIO) {
        missed.push(format!("at most {INSTRUCTIONS_RATIO} × the instructions with {} tools", TOOLS[3]));
    }
    if !missed.is_empty() {
        bail!("these goals are missed: {}", missed.join("; "));
    }
    Ok(())
}

/// The figures of one kind of run.
struct Figures {
    p50: f64,
    p999: f64,
    worst: f64,
    /// Resident memory of the gateway after the runs, with three views listed.
    memory: u64,
}

impl Figures {
    fn of(samples: &[Sample], memory: u64) -> Result<Self> {
        let all =
            |figure: fn(&Sample) -> Option<f64>| -> Vec<f64> { samples.iter().filter_map(figure).collect() };
        let worst = all(|sample| sample.max_us).into_iter().fold(0.0, f64::max);
        let p50 = median(&all(|sample| sample.p50_us)).context("no calls were measured")?;
        let p999 = pooled_p999(samples).context("no calls were measured")?;
        Ok(Self { p50, p999, worst, memory })
    }

    fn print(&self, tools: usize, run: &str) {
        let megabytes = self.memory / 1_000_000;
        println!(
            "{tools:>8} {run:>7} {:>10.1} {:>12.1} {:>12.1} {megabytes:>12}",
            self.p50, self.p999, self.worst
        );
    }
}

/// Over all calls of these runs together. Each run states its slowest calls, which are enough as long as a thousandth of
/// all calls is not more than one run states.
fn pooled_p999(samples: &[Sample]) -> Option<f64> {
    let total: usize = samples.iter().map(|sample| sample.measured).sum();
    let rank = total.checked_sub(1)? / 1000;
    let is_enough = |sample: &Sample| sample.slowest_us.len() > rank.min(sample.measured.saturating_sub(1));
    let mut slowest: Vec<f64> = samples.iter().flat_map(|sample| sample.slowest_us.iter().copied()).collect();
    slowest.sort_by(|a, b| b.total_cmp(a));
    slowest.get(rank).copied().filter(|_| samples.iter().all(is_enough))
}

/// Quiet and churn runs in turns.
fn compare(programs: &Programs, load: &Load, tools: usize, calls: u64, logs: &Path) -> Result<[Figures; 2]> {
    let folder = tempfile::tempdir().context("make a folder for the gateways")?;
    let quiet = Yard::start(programs, &folder.path().join("quiet"), tools, false, logs)?;
    let churn = Yard::start(programs, &folder.path().join("churn"), tools, true, logs)?;
    for yard in [&quiet, &churn] {
        yard.wait(programs, load, tools)?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let yard = [&quiet, &churn][which];
            let _paused = (which == 0).then(|| Paused::new(churn.gateway.id()));
            let sample = load.run(&CASES[0], &yard.contestant(), Until::Calls(calls / ROUNDS))?;
            if sample.errors > 0 {
                bail!("{} calls failed with {tools} tools: {}", sample.errors, sample.error_kinds);
            }
            samples[which].push(sample);
        }
    }
    let memory = [&quiet, &churn].map(memory_of);
    Ok([Figures::of(&samples[0], memory[0])?, Figures::of(&samples[1], memory[1])?])
}

/// A process and everything that it has started, stopped until this is dropped.
struct Paused(Vec<Pid>);

impl Paused {
    fn new(process: u32) -> Self {
        let all = usage::descendants(process).into_iter().filter_map(|id| i32::try_from(id).ok());
        let paused = Self(all.map(Pid::from_raw).collect());
        paused.send(Signal::SIGSTOP);
        paused
    }

    fn send(&self, signal: Signal) {
        for process in &self.0 {
            let _ = kill(*process, signal);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.send(Signal::SIGCONT);
    }
}

fn memory_of(yard: &Yard) -> u64 {
    memory(yard.gateway.id()).now
}

/// A gateway in front of the upstream that is called and the one with the catalog.
struct Yard {
    origin: String,
    gateway: Background,
    _upstream: Background,
}

impl Yard {
    fn start(programs: &Programs, folder: &Path, tools: usize, changes: bool, logs: &Path) -> Result<Self> {
        let (upstream, origin) =
            Background::serve("bench-upstream", &mut programs.upstream(), &logs.join("upstream.log"))?;
        let mut command = gateway(programs, folder, &origin, tools, changes)?;
        let (gateway, origin) = Background::serve("toolyard", &mut command, &logs.join("churn.log"))?;
        Ok(Self { origin, gateway, _upstream: upstream })
    }

    fn contestant(&self) -> Contestant {
        Contestant::namespaced(&self.origin, None)
    }

    /// Waits until both upstreams are listed, in three views.
    fn wait(&self, programs: &Programs, load: &Load, tools: usize) -> Result<()> {
        load.wait_for(&CASES[0], &self.contestant())?;
        for view in ["/mcp", "/mcp/catalog", "/mcp/p/all"] {
            let begun = Instant::now();
            let mut list = Command::new(programs.bench_load());
            list.args(["--url", &format!("{}{view}", self.origin), "--op", "list"]);
            list.args(["--size", &tools.to_string(), "--ready", &LISTED.as_secs().to_string()]);
            list.args(["--timeout", "60"]);
            process::output(&mut list)
                .with_context(|| format!("list {tools} tools at {view} within {:?}", begun.elapsed()))?;
        }
        Ok(())
    }
}

fn gateway(programs: &Programs, folder: &Path, origin: &str, tools: usize, changes: bool) -> Result<Command> {
    let program = programs.folder.join("bench-upstream");
    let program = program.display();
    let tools = tools.to_string();
    let mut arguments = vec!["--stdio", "--era", "legacy", "--tools", &tools];
    if changes {
        arguments.extend(["--churn-ms", PAUSE_MS]);
    }
    let config = format!(
        "[upstreams.bench]\nurl = \"{origin}/mcp\"\n[upstreams.catalog]\ncommand = \"{program}\"\nargs = {arguments:?}\nera = \"legacy\"\n[profiles.all]\n"
    );
    programs.gateway_with(folder, &config)
}

/// Of a call with a quiet catalog of that size.
fn instructions(programs: &Programs, load: &Load, tools: usize, logs: &Path) -> Result<u64> {
    let folder = tempfile::tempdir().context("make a folder for the gateway")?;
    let (_upstream, origin) =
        Background::serve("bench-upstream", &mut programs.upstream(), &logs.join("upstream.log"))?;
    let command = gateway(programs, folder.path(), &origin, tools, false)?;
    callgrind::per_call(load, &command, logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of calls that took from one to `measured` microseconds, plus `more`.
    fn sample(measured: u32, more: f64) -> Sample {
        let slowest_us = (1..=measured).rev().take(1000).map(|us| f64::from(us) + more).collect();
        Sample {
            answers: u64::from(measured),
            per_second: 1.0,
            p50_us: None,
            p99_us: None,
            max_us: None,
            measured: measured as usize,
            slowest_us,
            errors: 0,
            error_kinds: serde_json::Value::Null,
        }
    }

    #[test]
    fn a_paused_process_and_its_children_stand_still_until_they_go_on() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "(sleep 60 & wait) & echo listening on http://127.0.0.1:1 >&2; wait"]);
        let (server, _) = Background::serve("a shell", &mut shell, log.path()).unwrap();
        let all = loop {
            let all = usage::descendants(server.id());
            if all.len() == 3 {
                break all;
            }
            std::thread::yield_now();
        };
        let is_stopped = |id: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let until = |stopped: bool| {
            let deadline = Instant::now() + Duration::from_secs(10);
            while !all.iter().all(|id| is_stopped(id) == stopped) {
                assert!(Instant::now() < deadline, "not stopped: {stopped}");
                std::thread::yield_now();
            }
        };
        until(false);
        let paused = Paused::new(server.id());
        until(true);
        drop(paused);
        until(false);
    }

    #[test]
    fn the_percentile_is_of_all_calls_together() {
        assert_eq!(pooled_p999(&[sample(1000, 0.0)]), Some(1000.0));
        assert_eq!(pooled_p999(&[sample(50_000, 0.0)]), Some(49_951.0));
        // One slow run of two decides: the median of both would be in the middle.
        assert_eq!(pooled_p999(&[sample(50_000, 0.0), sample(50_000, 1e6)]), Some(1_049_901.0));
        assert_eq!(pooled_p999(&[]), None);
        let short = Sample { slowest_us: vec![1.0], ..sample(50_000, 0.0) };
        assert_eq!(pooled_p999(&[short]), None, "too few are stated");
    }
}
