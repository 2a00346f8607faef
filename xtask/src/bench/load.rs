//! Runs the load client once and reads the line it prints.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::case::Case;
use super::contestant::{Contestant, Programs};
use crate::process;

pub(super) struct Load {
    program: PathBuf,
    era: &'static str,
}

/// How long a run goes on.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Seconds(f64),
    Calls(u64),
}

#[derive(Deserialize)]
pub(super) struct Sample {
    /// All right answers, those before measuring began included.
    pub(super) answers: u64,
    pub(super) per_second: f64,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) max_us: Option<f64>,
    /// How many answers are in the figures.
    pub(super) measured: usize,
    /// The slowest answers, the worst first.
    pub(super) slowest_us: Vec<f64>,
    pub(super) errors: u64,
    pub(super) error_kinds: serde_json::Value,
}

impl Load {
    pub(super) fn new(programs: &Programs, era: &'static str) -> Self {
        Self { program: programs.bench_load(), era }
    }

    pub(super) fn run(&self, case: &Case, contestant: &Contestant, until: Until) -> Result<Sample> {
        let mut command = self.command(case, contestant);
        match until {
            Until::Seconds(seconds) => command.args(["--warmup", "0.2", "--duration", &seconds.to_string()]),
            Until::Calls(calls) => {
                command.args(["--warmup", "0", "--duration", "600", "--requests", &calls.to_string()])
            }
        };
        let output = process::capture(&mut command)?;
        let sample: Sample = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("read what bench-load printed: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        if sample.answers == 0 {
            bail!("{} answered nothing right: {}", contestant.name, sample.error_kinds);
        }
        Ok(sample)
    }

    /// Waits until the contestant answers the case once.
    pub(super) fn wait_for(&self, case: &Case, contestant: &Contestant) -> Result<()> {
        let mut command = self.command(case, contestant);
        process::output(command.args(["--ready", "20"]))
            .with_context(|| format!("{} does not answer `{}`", contestant.name, case.title))?;
        Ok(())
    }

    fn command(&self, case: &Case, contestant: &Contestant) -> Command {
        let mut command = Command::new(&self.program);
        let place = contestant.place(case);
        command.args(["--url", &place.url, "--era", self.era, "--op", case.operation]);
        command.args(["--size", &case.size.to_string(), "--concurrency", &case.workers.to_string()]);
        if let Some(tool) = case.tool {
            command.args(["--tool", &format!("{}{tool}", place.prefix)]);
        }
        command
    }
}
