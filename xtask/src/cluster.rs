//! `cargo xtask cluster`: several real gateways as one, over a real nats-server.
//!
//! Installs the pinned nats-server, nginx and the Python SDK, and runs the test target `cluster` of the package
//! `toolyard`, which finds them by the variables `TOOLYARD_NATS`, `TOOLYARD_NGINX` and `TOOLYARD_PEERS_PYTHON`. A name
//! selects the tests whose names contain it.
//! Without one and without `--quick`, the conformance suite is then run through a node that owns nothing.
//! `--figures` measures instead, with a release build, and prints one table.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::step::step;
use crate::{conformance, process, tools, workspace};

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this.
    filter: Option<String>,
    /// Leave out what takes longer than half a minute.
    #[arg(long)]
    quick: bool,
    /// Only measure, with a release build: what a call to another node costs, how soon a change is seen at every node,
    /// and how long the tools of ten nodes take to merge. Fails if a figure is missed.
    #[arg(long, conflicts_with_all = ["filter", "quick"])]
    figures: bool,
}

impl Options {
    /// What every change has to pass.
    pub(crate) fn quick() -> Self {
        Self { quick: true, ..Self::default() }
    }

    /// What is measured. The figures need a machine that does nothing else.
    pub(crate) fn figures() -> Self {
        Self { figures: true, ..Self::default() }
    }
}

pub(crate) fn cluster(options: &Options) -> Result<()> {
    let nats = step("install nats-server", tools::nats_server)?;
    if options.figures {
        return figures(&nats);
    }
    let nginx = step("install nginx", tools::nginx)?;
    let python = step("install the Python SDK", tools::python)?;
    let mut cargo = tests(options);
    cargo.env("TOOLYARD_NATS", &nats).env("TOOLYARD_NGINX", nginx).env("TOOLYARD_PEERS_PYTHON", python);
    process::run(&mut cargo)?;
    if options.filter.is_some() || options.quick {
        return Ok(());
    }
    step("conformance through a node that owns nothing", || {
        conformance::conformance(&conformance::Options::through_a_node(nats))
    })
}

/// Runs the tests, with `cargo nextest` if it is installed: then a failed test is retried, as in `cargo xtask test`.
fn tests(options: &Options) -> Command {
    let mut cargo = workspace::cargo();
    if process::find("cargo-nextest").is_none() {
        cargo.args(TEST).args(["--", "--nocapture", "--test-threads", "3", "--skip", "figures::"]);
        cargo.args(&options.filter).args(options.quick.then_some(["--skip", "long::"]).iter().flatten());
        return cargo;
    }
    let mut wanted = vec!["not test(/^figures::/)".to_owned()];
    wanted.extend(options.quick.then(|| "not test(/^long::/)".to_owned()));
    wanted.extend(options.filter.as_ref().map(|filter| format!("test({filter})")));
    cargo.args(["nextest", "run"]).args(&TEST[1..]);
    cargo.args(["--profile", "all", "--test-threads", "3", "--filterset", &wanted.join(" and ")]);
    cargo
}

const TEST: [&str; 7] = ["test", "--package", "toolyard", "--features", "cluster", "--test", "cluster"];

/// What is measured. Each is the beginning of one or more lines of the figures.
const FIGURES: [&str; 4] = [
    "p50 of a call to another node",
    "a new tool is seen at all nodes",
    "a new app is seen at all nodes",
    "10000 tools of each of ten nodes are merged",
];

/// All figures are measured with a release build, also if one is missed.
fn figures(nats: &Path) -> Result<()> {
    let file = workspace::target_directory()?.join("cluster-figures");
    fs::write(&file, "").with_context(|| format!("write `{}`", file.display()))?;
    let nodes = step("figures of three nodes", || {
        let mut cargo = workspace::cargo();
        cargo.args(TEST).args(["--release", "--", "--test-threads", "1", "figures::"]);
        process::run(cargo.env("TOOLYARD_NATS", nats).env("TOOLYARD_FIGURES", &file))
    });
    let merge = step("the tools of ten nodes", || {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--release", "--package", "toolyard-core", "--lib", "--"]);
        cargo.arg("the_tools_of_ten_nodes_are_one_list");
        process::run(cargo.env("TOOLYARD_FIGURES", &file))
    });
    let measured = fs::read_to_string(&file).with_context(|| format!("read `{}`", file.display()))?;
    let (table, is_met) = table(&measured);
    println!("{table}");
    nodes.and(merge)?;
    if is_met { Ok(()) } else { bail!("a figure was missed, or was not measured") }
}

/// The figures as one table, and whether each was measured and met.
fn table(measured: &str) -> (String, bool) {
    let mut rows = vec![vec!["FIGURE", "MEASURED", "GOAL", "VERDICT"]];
    for what in FIGURES {
        let before = rows.len();
        rows.extend(
            measured.lines().filter(|line| line.starts_with(what)).map(|line| line.split('\t').collect()),
        );
        if rows.len() == before {
            rows.push(vec![what, "-", "-", "not measured"]);
        }
    }
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max();
    let widths: Vec<usize> = (0..4).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<&str>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let is_met = rows.iter().skip(1).all(|row| row.last() == Some(&"met"));
    (rows.iter().map(line).collect::<Vec<_>>().join("\n"), is_met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_missed_or_missing_fails() {
        let all: Vec<String> =
            FIGURES.iter().map(|what| format!("{what}, x\t1 ms\tat most 2 ms\tmet")).collect();
        let (shown, is_met) = table(&all.join("\n"));
        assert!(is_met && shown.lines().count() == 5, "{shown}");
        let (shown, is_met) = table(&all[1..].join("\n"));
        assert!(!is_met && shown.contains("not measured"), "{shown}");
        assert!(!table(&all.join("\n").replacen("met", "missed", 1)).1);
    }
}
