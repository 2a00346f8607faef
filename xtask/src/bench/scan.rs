//! `cargo xtask bench --scan`: how fast the music pack looks through a library, against `find` and against `ffprobe`
//! started for each file. The pack and `find` take turns, and what counts is the median over rounds of the ratio within a round.

mod client;
mod library;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::contestant::Programs;
use super::rounds::median;
use super::usage::{self, Memory};
use crate::process::{self, Background};
use client::Client;

/// So many files are shown to `ffprobe`, which needs far longer than the rest; the rest is reckoned.
const PROBED: usize = 200;

/// Seconds, for one round.
struct Round {
    scan: f64,
    inventory: f64,
    find: f64,
}

pub(super) struct Report {
    files: usize,
    rounds: Vec<Round>,
    /// Seconds for one file.
    ffprobe: f64,
    memory: Memory,
}

pub(super) fn measure(programs: &Programs, files: usize, rounds: usize, logs: &Path) -> Result<Report> {
    let folder = tempfile::tempdir().context("make a folder for the library")?;
    let paths = library::make(folder.path(), files)?;
    let mut command = Command::new(programs.folder.join("toolyard"));
    command.args(["pack", "music", "--tcp", "127.0.0.1:0", "--root"]).arg(folder.path());
    let (pack, address) = Background::serve("toolyard pack music", &mut command, &logs.join("scan.log"))?;
    let mut client = Client::connect(address.trim_start_matches("tcp://"))?;
    // One round for nothing: all contestants find the same files in the cache of the system.
    round(&mut client, folder.path(), files)?;
    let rounds = (0..rounds).map(|_| round(&mut client, folder.path(), files)).collect::<Result<_>>()?;
    let ffprobe = ffprobe(folder.path(), &paths)?;
    Ok(Report { files, rounds, ffprobe, memory: usage::memory(pack.id()) })
}

fn round(client: &mut Client, root: &Path, files: usize) -> Result<Round> {
    Ok(Round {
        find: timed(|| find(root, files))?,
        scan: timed(|| client.pages("fs_scan_audio", json!({ "root": "." }), files))?,
        inventory: timed(|| client.pages("inventory_divergences", inventory(), files))?,
    })
}

fn inventory() -> serde_json::Value {
    json!({ "root": ".", "path_template": "{artist}/{album}/{track:02d} {title}" })
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// The same question: which audio files there are, and how large.
fn find(root: &Path, files: usize) -> Result<()> {
    let mut find = Command::new("find");
    find.arg(root).args(["-type", "f", "-not", "-name", ".*", "-iname", "*.wav", "-printf", "%P %s\n"]);
    let found = process::output(&mut find)?.lines().count();
    ensure!(found == files, "find has found {found} files of {files}");
    Ok(())
}

/// Seconds for one file.
fn ffprobe(root: &Path, paths: &[String]) -> Result<f64> {
    let begin = Instant::now();
    let mut probed = 0.0;
    let step = (paths.len() / PROBED).max(1);
    for path in paths.iter().step_by(step).take(PROBED) {
        let mut ffprobe = Command::new("ffprobe");
        ffprobe.args(["-v", "error", "-of", "json", "-show_format"]).arg(root.join(path));
        let output = process::output(&mut ffprobe)?;
        ensure!(output.contains("\"title\""), "ffprobe does not see the tags of `{path}`: {output}");
        probed += 1.0;
    }
    Ok(begin.elapsed().as_secs_f64() / probed)
}

impl Report {
    pub(super) fn print(&self, as_json: bool) {
        #[expect(clippy::cast_precision_loss, reason = "some thousand files")]
        let files = self.files as f64;
        let of = |value: fn(&Round) -> f64| {
            median(&self.rounds.iter().map(value).collect::<Vec<_>>()).unwrap_or_default()
        };
        let rate = |seconds: f64| files / seconds;
        let (scan, inventory) = (of(|round| round.scan), of(|round| round.inventory));
        let per_probe = self.ffprobe;
        let to_find = of(|round| round.scan / round.find);
        let to_ffprobe = per_probe * files / inventory;
        let peak = self.memory.peak / (1024 * 1024);
        if as_json {
            let report = json!({ "files": self.files, "rounds": self.rounds.len(), "peak_memory_mib": peak,
                "scan": { "seconds": scan, "files_per_second": rate(scan), "times_as_long_as_find": to_find },
                "inventory": { "seconds": inventory, "files_per_second": rate(inventory), "times_as_fast_as_ffprobe": to_ffprobe },
                "ffprobe": { "sampled": PROBED, "milliseconds_per_file": per_probe * 1000.0 } });
            return println!("{report}");
        }
        println!("{} files, median of {} rounds, peak memory {peak} MiB", self.files, self.rounds.len());
        println!(
            "fs_scan_audio          {scan:7.3} s {:8.0} files/s, {to_find:.2} times as long as find",
            rate(scan)
        );
        println!(
            "inventory_divergences  {inventory:7.3} s {:8.0} files/s (reads the tags of each)",
            rate(inventory)
        );
        println!(
            "ffprobe, one by one    {:7.1} s {:8.0} files/s, reckoned from {PROBED} files: {to_ffprobe:.0} times as long as inventory_divergences",
            per_probe * files,
            1.0 / per_probe
        );
    }
}
