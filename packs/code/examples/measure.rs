//! Prints the figures of sets of questions: `cargo xtask search` makes the sets and runs this.
//!
//! Usage: `measure [--minilm ADDRESS] SET…`. Sets of doc comments end with `.jsonl`, sets of commits with `.json`.

#![expect(clippy::print_stdout, reason = "the output of a measurement")]

use std::path::PathBuf;

use toolyard_pack_code::measure::{self, Report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sets: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut address = None;
    if sets.first().is_some_and(|first| first.as_os_str() == "--minilm") {
        address = sets.get(1).and_then(|address| address.to_str()).map(str::to_owned);
        sets.drain(..2);
    }
    let contenders = measure::contenders(address.as_deref())?;
    let (functions, commits): (Vec<PathBuf>, Vec<PathBuf>) =
        sets.into_iter().partition(|set| set.extension().is_some_and(|extension| extension == "jsonl"));
    let mut missed = Vec::new();
    let mut print = |name: &str, report: Report| {
        println!("## {name}\n\n{}", report.text);
        missed.extend(report.missed);
    };
    for set in functions {
        let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        print(&name, measure::functions(&set, &contenders)?);
    }
    if !commits.is_empty() {
        print("commits", measure::commits(&commits, &contenders)?);
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("missed goals:\n{}", missed.join("\n")).into()) }
}
