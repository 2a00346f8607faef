//! `cargo xtask bench --code`: how fast the code pack answers and indexes, on a clone of this repository and through the
//! real program, with its goals. Figures count on a quiet machine with two cores; a missed goal fails the run.

mod client;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::case::CASES;
use super::contestant::{Contestant, Programs};
use super::load::{Load, Until};
use super::rounds::median;
use super::usage::cpu;
use crate::process::{self, Background};
use crate::workspace;
use client::Client;

/// Questions of the kinds that people ask.
const QUESTIONS: [&str; 9] = [
    "stop a child process and everything that it started",
    "where are sessions of legacy clients restored after a restart",
    "refuse a request whose body is too large",
    "convert an answer between protocol revisions",
    "read a config file and report unknown keys",
    "rank tools by the words of a query",
    "write a file so that it is whole or absent",
    "Splice",
    "count instructions per call",
];
/// An index is compared with the files again after this long.
const STALE: Duration = Duration::from_millis(2_100);
/// No measurement takes longer, unless something hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// A figure, and what it should be at most.
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    goal: f64,
}

pub(super) fn measure(programs: &Programs, quick: bool, as_json: bool, logs: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for the clone")?;
    let project = clone(folder.path())?;
    let mut figures = Vec::new();
    fast(programs, folder.path(), &project, quick, logs, &mut figures)?;
    figures.push(precise(programs, folder.path(), &project, logs)?);
    print(&figures, as_json);
    let missed: Vec<&str> = figures.iter().filter(|one| one.value > one.goal).map(|one| one.name).collect();
    if !missed.is_empty() {
        bail!("goals of the code pack are missed: {}", missed.join(", "));
    }
    Ok(())
}

/// The repository with its history, so that edits touch nothing else.
fn clone(folder: &Path) -> Result<PathBuf> {
    let project = folder.join("toolyard");
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--local"]).arg(workspace::root()).arg(&project);
    process::run(&mut git)?;
    Ok(project)
}

fn print(figures: &[Figure], as_json: bool) {
    if as_json {
        let one = |figure: &Figure| json!({ "name": figure.name, "value": figure.value, "unit": figure.unit, "goal": figure.goal });
        return println!("{}", json!({ "figures": figures.iter().map(one).collect::<Vec<_>>() }));
    }
    println!("{:44} {:>10} {:>10}", "figure", "measured", "at most");
    for Figure { name, value, unit, goal } in figures {
        let mark = if value > goal { "  missed" } else { "" };
        println!("{name:44} {value:>7.2} {unit:2} {goal:>7.2} {unit:2}{mark}");
    }
}

/// A gateway with the code pack and the upstream of the other measurements.
struct Yard {
    gateway: Background,
    origin: String,
    client: Client,
    /// When its process was started.
    started: Instant,
    _upstream: Background,
}

impl Yard {
    fn start(programs: &Programs, folder: &Path, project: &Path, model: &str, logs: &Path) -> Result<Self> {
        let (upstream, origin) =
            Background::serve("bench-upstream", &mut programs.upstream(), &logs.join("upstream.log"))?;
        let project = project.display().to_string();
        let config = format!(
            "[upstreams.bench]\nurl = \"{origin}/mcp\"\n[packs.code]\nprojects = [{project:?}]\nmodel = \"{model}\"\n"
        );
        let own = folder.join(model);
        let mut command = programs.gateway_with(&own, &config)?;
        command.env("XDG_CACHE_HOME", own.join("cache"));
        let started = Instant::now();
        let (gateway, origin) = Background::serve("toolyard", &mut command, &logs.join("code.log"))?;
        let client = Client::new(&origin, LIMIT);
        Ok(Self { gateway, origin, client, started, _upstream: upstream })
    }

    fn search(&self, question: &str) -> Result<Value> {
        let found = self.client.call("code__semantic_search", &json!({ "query": question }))?;
        let count = found["results"].as_array().map_or(0, Vec::len);
        ensure!(count > 0, "`{question}` finds nothing: {found}");
        Ok(found)
    }

    /// Waits until all chunks have vectors, and returns how many there are.
    fn wait_for_vectors(&self) -> Result<u64> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let stats = self.client.call("code__semantic_stats", &json!({}))?;
            let number = |key: &str| stats[key].as_u64().unwrap_or(0);
            if number("chunks") > 0 && number("vectors") == number("chunks") {
                return Ok(number("chunks"));
            }
            ensure!(Instant::now() < deadline, "vectors are still missing: {stats}");
            sleep(Duration::from_millis(5));
        }
    }

    /// Seconds of CPU time while nothing is asked for.
    fn idle(&self, seconds: u64) -> f64 {
        let before = cpu(self.gateway.id());
        sleep(Duration::from_secs(seconds));
        cpu(self.gateway.id()).saturating_sub(before).as_secs_f64()
    }
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let begin = Instant::now();
    let done = work()?;
    Ok((begin.elapsed().as_secs_f64(), done))
}

/// Everything that is measured with the model `fast`.
fn fast(
    programs: &Programs,
    folder: &Path,
    project: &Path,
    quick: bool,
    logs: &Path,
    figures: &mut Vec<Figure>,
) -> Result<()> {
    let yard = Yard::start(programs, folder, project, "fast", logs)?;
    yard.search(QUESTIONS[0])?;
    let cold = yard.started.elapsed().as_secs_f64();
    let chunks = yard.wait_for_vectors()?;
    let vectors = yard.started.elapsed().as_secs_f64();
    println!("{chunks} chunks");
    figures.push(Figure { name: "first answer after a cold start", value: cold, unit: "s", goal: 2.0 });
    figures.push(Figure {
        name: "all vectors of `fast` after a cold start",
        value: vectors,
        unit: "s",
        goal: 2.0,
    });
    figures.extend(warm(&yard)?);
    figures.push(edited(&yard, project)?);
    figures.push(idle(programs, folder, project, &yard, quick, logs)?);
    figures.push(echo(&yard, programs, quick)?);
    Ok(())
}

/// Answers from the index: one after the other, and after a pause, when the files are looked through again.
fn warm(yard: &Yard) -> Result<[Figure; 2]> {
    let seconds = |pause: Duration| -> Result<f64> {
        let mut all = Vec::new();
        for question in QUESTIONS {
            sleep(pause);
            all.push(timed(|| yard.search(question))?.0);
        }
        median(&all).context("no question was asked")
    };
    let at_once = seconds(Duration::ZERO)? * 1000.0;
    let later = seconds(STALE)? * 1000.0;
    let figure = |name, value| Figure { name, value, unit: "ms", goal: 20.0 };
    Ok([figure("warm answer, median", at_once), figure("warm answer after a pause of 2 s, median", later)])
}

/// One changed file: an update of the index, after which it is found.
fn edited(yard: &Yard, project: &Path) -> Result<Figure> {
    let file = project.join("crates/toolyard-core/src/gateway.rs");
    let mut all = Vec::new();
    for round in 0..5 {
        let name = format!("untangle_marmalade_{round}");
        let text = std::fs::read_to_string(&file).context("read a file of the clone")?;
        std::fs::write(
            &file,
            format!("{text}\nfn {name}(jars: usize) -> usize {{\n    jars + {round}\n}}\n"),
        )?;
        let (seconds, update) = timed(|| yard.client.call("code__semantic_index", &json!({})))?;
        ensure!(update["indexed_files"] == 1, "one file was edited: {update}");
        let found = yard.search(&name.replace('_', " "))?;
        ensure!(found["results"][0]["name"] == name, "the edit is not found: {found}");
        all.push(seconds);
    }
    let value = median(&all).context("no file was edited")?;
    Ok(Figure { name: "one edited file in the index", value, unit: "s", goal: 0.5 })
}

/// What an index costs while nothing is asked for, beyond a gateway whose pack was not used.
fn idle(
    programs: &Programs,
    folder: &Path,
    project: &Path,
    yard: &Yard,
    quick: bool,
    logs: &Path,
) -> Result<Figure> {
    let seconds = if quick { 3 } else { 20 };
    let unused = Yard::start(programs, &folder.join("unused"), project, "fast", logs)?;
    sleep(Duration::from_secs(1));
    let (without, with) = (unused.idle(seconds), yard.idle(seconds));
    #[expect(clippy::cast_precision_loss, reason = "some seconds")]
    let value = (with - without).max(0.0) / seconds as f64 * 100.0;
    Ok(Figure { name: "CPU of an idle index, of one core", value, unit: "%", goal: 0.1 })
}

/// How much slower the slowest of a hundred echo calls are while the whole index is made again and again.
fn echo(yard: &Yard, programs: &Programs, quick: bool) -> Result<Figure> {
    let load = Load::new(programs, "modern");
    let contestant = Contestant::namespaced(&yard.origin, None);
    let (rounds, seconds) = if quick { (2, 1.0) } else { (7, 3.0) };
    let p99 = || -> Result<f64> {
        let sample = load.run(&CASES[0], &contestant, Until::Seconds(seconds))?;
        ensure!(sample.errors == 0, "calls failed: {}", sample.error_kinds);
        sample.p99_us.context("no calls were measured")
    };
    load.wait_for(&CASES[0], &contestant)?;
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let quiet = p99()?;
        let busy = while_indexing(&yard.client, p99)?;
        println!("echo p99: {quiet:.0} µs quiet, {busy:.0} µs while indexing");
        ratios.push(busy / quiet);
    }
    let value = median(&ratios).context("no round was measured")?;
    Ok(Figure { name: "echo p99 while indexing, to quiet", value, unit: "x", goal: 1.2 })
}

/// Runs something while the whole index is made again all the time.
fn while_indexing<T>(client: &Client, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let indexing = scope.spawn(|| -> Result<()> {
            while !is_over.load(Ordering::Acquire) {
                client.call("code__semantic_index", &json!({ "force": true }))?;
            }
            Ok(())
        });
        let done = work();
        is_over.store(true, Ordering::Release);
        match indexing.join() {
            Ok(indexed) => indexed.and(done),
            Err(_) => bail!("the thread that indexes has failed"),
        }
    })
}

/// How long all vectors of the model `precise` take, from the first question on.
fn precise(programs: &Programs, folder: &Path, project: &Path, logs: &Path) -> Result<Figure> {
    let yard = Yard::start(programs, folder, project, "precise", logs)?;
    let (value, _) = timed(|| {
        yard.search(QUESTIONS[0])?;
        yard.wait_for_vectors()
    })?;
    Ok(Figure { name: "all vectors of `precise`", value, unit: "s", goal: 10.0 })
}
