//! Instructions per call, counted under valgrind: nearly the same on a busy machine as on an idle one.
//!
//! Each contestant is warmed with as many calls as are counted. The counters are set to nought in between, so
//! that starting, learning what the upstream offers and stopping are not in the figure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::case::{CASES, Case};
use super::contestant::{Contestant, Programs};
use super::load::{Load, Until};
use crate::process::{Background, output};
use crate::tools;

/// The figures that are compared: of the gateway, of the one to compare with, and how many instructions more it may take.
const COMPARED: [(&str, &str, u64); 3] = [
    ("toolyard /mcp", "old /mcp", 200),
    ("toolyard /mcp/ID", "old /mcp/ID", 200),
    ("pack /mcp, 32", "old pack /mcp, 32", 100),
];
/// Writing the profile takes a while.
const STOP_LIMIT: Duration = Duration::from_secs(30);

pub(super) struct Counts {
    calls: u64,
    per_call: Vec<(&'static str, Result<u64>)>,
    profiles: PathBuf,
}

pub(super) fn count(programs: &Programs, load: &Load, calls: u64, logs: &Path) -> Result<Counts> {
    tools::debian("valgrind")?;
    let (_upstream, origin) =
        Background::serve("bench-upstream", &mut programs.upstream(), &logs.join("upstream.log"))?;
    let folder = tempfile::tempdir().context("make a folder for the gateway")?;
    let relay = programs.relay(&origin);
    let gateway = programs.gateway(folder.path(), Some(&origin))?;
    let counter = Counter { load, calls, logs };
    let [echo, crowd, pack] = ["echo_1", "echo_32", "pack_32"].map(case);
    let plain = |origin: &str| Contestant::plain("plain", origin, None);
    let everything = |origin: &str| Contestant::namespaced(origin, None);
    let transparent = |origin: &str| Contestant::transparent(origin, None);
    let upstream = programs.upstream();
    let stepped = programs.gateway_with_steps(&folder.path().join("steps"), &origin)?;
    let runs: [Run<'_>; 8] = [
        ("direct, 32", &upstream, crowd, plain),
        ("relay", &relay, echo, plain),
        ("toolyard /mcp", &gateway, echo, everything),
        ("toolyard /mcp/ID", &gateway, echo, transparent),
        ("pack /mcp, 32", &gateway, pack, everything),
        ("pack /mcp/ID, 32", &gateway, pack, transparent),
        ("steps /mcp", &stepped, echo, everything),
        ("steps, pack /mcp, 32", &stepped, pack, everything),
    ];
    let old = programs.old_gateway(&folder.path().join("old"), &origin)?;
    let old_runs: Vec<Run<'_>> = old.as_ref().map_or_else(Vec::new, |old| {
        vec![
            ("old /mcp", old, echo, everything as fn(&str) -> Contestant),
            ("old /mcp/ID", old, echo, transparent),
            ("old pack /mcp, 32", old, pack, everything),
        ]
    });
    let per_call = runs
        .into_iter()
        .chain(old_runs)
        .map(|(name, program, case, contestant)| (name, counter.per_call(name, program, case, contestant)))
        .collect();
    Ok(Counts { calls, per_call, profiles: logs.to_owned() })
}

/// Instructions of one call to the upstream in the view of everything.
pub(super) fn per_call(load: &Load, gateway: &Command, logs: &Path) -> Result<u64> {
    tools::debian("valgrind")?;
    let counter = Counter { load, calls: 1000, logs };
    counter.per_call("churn", gateway, case("echo_1"), |origin| Contestant::namespaced(origin, None))
}

/// A name, a program, what is called, and a contestant of the origin that the program listens on.
type Run<'a> = (&'static str, &'a Command, &'static Case, fn(&str) -> Contestant);

fn case(key: &str) -> &'static Case {
    CASES.iter().find(|case| case.key == key).unwrap_or(&CASES[0])
}

impl Counts {
    pub(super) fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            let per_call: serde_json::Map<_, _> = self
                .per_call
                .iter()
                .map(|(name, count)| ((*name).to_owned(), json!(count.as_ref().ok())))
                .collect();
            println!("{}", json!({ "calls": self.calls, "instructions_per_call": per_call }));
        } else {
            println!("\ninstructions per echo call (over {} calls)", self.calls);
            for (name, count) in &self.per_call {
                match count {
                    Ok(count) => println!("  {name:<20} {count:>10}"),
                    Err(error) => println!("  {name:<20} not counted: {error:#}"),
                }
            }
            println!("profiles for callgrind_annotate: {}/callgrind.*", self.profiles.display());
        }
        if self.per_call.iter().all(|(_, count)| count.is_err()) {
            bail!("nothing was counted");
        }
        self.check()
    }

    /// Whether the gateway takes more instructions than the one to compare with, where there is one.
    fn check(&self) -> Result<()> {
        let of =
            |wanted: &str| self.per_call.iter().find(|(name, _)| *name == wanted).map(|(_, count)| count);
        let mut missed = Vec::new();
        for (new, old, more) in COMPARED {
            match (of(new), of(old)) {
                (_, None) => {}
                (Some(Ok(new_count)), Some(Ok(old_count))) => {
                    if *new_count > old_count + more {
                        let text = format!("{new} takes {new_count} instructions, {old} {old_count}");
                        missed.push(format!("{text}, and at most {more} more are allowed"));
                    }
                }
                _ => missed.push(format!("{new} and {old} were not both counted")),
            }
        }
        if !missed.is_empty() {
            bail!("more instructions than before: {}", missed.join("; "));
        }
        Ok(())
    }
}

/// Whether a count is more than so many times another.
#[expect(clippy::cast_precision_loss, reason = "counts of instructions are far below 2^52")]
pub(super) fn is_above(count: u64, other: u64, ratio: f64) -> bool {
    count as f64 > other as f64 * ratio
}

struct Counter<'a> {
    load: &'a Load,
    calls: u64,
    logs: &'a Path,
}

impl Counter<'_> {
    /// `contestant` makes one of the origin that the program listens on.
    fn per_call(
        &self,
        name: &str,
        program: &Command,
        case: &Case,
        contestant: fn(&str) -> Contestant,
    ) -> Result<u64> {
        let unfinished = self.logs.join("callgrind.unfinished");
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--cache-sim=no"]);
        command.arg(format!("--callgrind-out-file={}", unfinished.display()));
        command.arg(program.get_program()).args(program.get_args());
        let (server, origin) =
            Background::serve("the program under valgrind", &mut command, &self.logs.join("callgrind.log"))?;
        let contestant = contestant(&origin);
        self.load.wait_for(case, &contestant)?;
        self.calls(case, &contestant)?;
        control(&server, "--zero")?;
        self.calls(case, &contestant)?;
        // A profile of an earlier run must not pass for the one of this run.
        let counted = self.logs.join("callgrind.unfinished.1");
        let _ = fs::remove_file(&counted);
        control(&server, "--dump")?;
        let profile = self.logs.join(format!("callgrind.{}", name.replace([' ', '/'], "-")));
        fs::rename(&counted, &profile).context("find the profile")?;
        server.stop_within(STOP_LIMIT);
        Ok(total(&profile)? / self.calls)
    }

    fn calls(&self, case: &Case, contestant: &Contestant) -> Result<()> {
        let sample = self.load.run(case, contestant, Until::Calls(self.calls))?;
        if sample.answers != self.calls || sample.errors > 0 {
            bail!("{} of {} calls were answered: {}", sample.answers, self.calls, sample.error_kinds);
        }
        Ok(())
    }
}

/// Controls valgrind's counters.
fn control(server: &Background, order: &str) -> Result<()> {
    output(Command::new("callgrind_control").arg(order).arg(server.id().to_string())).map(drop)
}

pub(super) fn total(profile: &Path) -> Result<u64> {
    let text = fs::read_to_string(profile).with_context(|| format!("read `{}`", profile.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.with_context(|| format!("find the total in `{}`", profile.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(per_call: Vec<(&'static str, Result<u64>)>) -> Counts {
        Counts { calls: 1, per_call, profiles: PathBuf::new() }
    }

    #[test]
    fn more_instructions_than_the_old_gateway_fail_the_command() {
        counts(vec![("toolyard /mcp", Ok(60_000))]).check().unwrap();
        counts(vec![("toolyard /mcp", Ok(50_200)), ("old /mcp", Ok(50_000))]).check().unwrap();
        counts(vec![("toolyard /mcp", Ok(50_201)), ("old /mcp", Ok(50_000))]).check().unwrap_err();
        counts(vec![("pack /mcp, 32", Ok(30_100)), ("old pack /mcp, 32", Ok(30_000))]).check().unwrap();
        counts(vec![("pack /mcp, 32", Ok(30_101)), ("old pack /mcp, 32", Ok(30_000))]).check().unwrap_err();
        let failed = || Err(anyhow::anyhow!("valgrind is missing"));
        counts(vec![("toolyard /mcp", failed()), ("old /mcp", Ok(50_000))]).check().unwrap_err();
    }
}
