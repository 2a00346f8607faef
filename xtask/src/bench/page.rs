//! The dated page with the results of a run: tables, plots and how they were measured, in `docs/bench`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::case::{CASES, Case, Figure};
use super::report::{Report, megabytes, number};
use super::rounds::{Plan, Series, median};
use crate::{process, workspace};

/// Widths of a plot, in its own units.
const NAMES: usize = 190;
const BARS: f64 = 420.0;
const ROW: usize = 26;

const METHOD: &str = "\
## Method
All contestants are in front of the same upstream (`bench-upstream`) on one machine, and are measured in turns, round after round: another one begins each round. Every answer is checked; a wrong answer counts as an error and is never part of a rate. A ratio is the median over rounds of the ratio within a round, so that a neighbour on the machine that slows a round down slows both sides. The load client, the gateway and the upstream share the same cores, which favours cheap gateways. Peers are installed from their package registries in the versions that `xtask/pins/bench` names, with their default settings; those that only take programs start the upstream over stdio. CPU time is that of the hop alone, from `/proc`.

Repeat it: `cargo xtask bench --peers`. Figures of two runs cannot be compared, ratios can.
";

/// Writes the page and its plots, and returns where the page is.
pub(super) fn write(report: &Report<'_>, plan: &Plan, era: &str) -> Result<PathBuf> {
    let folder = workspace::root().join("docs/bench");
    fs::create_dir_all(&folder).context("make docs/bench")?;
    let date = process::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned();
    let mut page = head(&date, plan, era)?;
    for case in CASES.iter().filter(|case| report.is_measured(case)) {
        let plot = format!("{date}-{}.svg", case.key);
        fs::write(folder.join(&plot), drawn(report, case)).context("write a plot")?;
        let _ = writeln!(page, "\n## {}\n![{}]({plot})\n", case.title, case.title);
        table(&mut page, report, case);
    }
    memory(&mut page, report);
    if !report.missing.is_empty() {
        let _ = writeln!(page, "\n## Not measured");
        for problem in report.missing {
            let _ = writeln!(page, "- {problem}");
        }
    }
    let _ = write!(page, "\n{METHOD}");
    let path = folder.join(format!("{date}.md"));
    fs::write(&path, page).context("write the page")?;
    Ok(path)
}

fn head(date: &str, plan: &Plan, era: &str) -> Result<String> {
    let commit = process::output(Command::new("git").args(["rev-parse", "--short", "HEAD"]))?;
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    Ok(format!(
        "# Benchmark of {date}\n\nCommit {}, {cores} cores, {} rounds of {} s for each contestant and case, {era} clients. The load of the machine at the end was {load}; on a quiet machine it is below {}.\n",
        commit.trim(),
        plan.rounds,
        plan.seconds,
        cores + 1
    ))
}

fn table(page: &mut String, report: &Report<'_>, case: &Case) {
    let _ = writeln!(page, "| | {} | × direct | × nginx | CPU µs per call | errors |", case.figure.unit());
    let _ = writeln!(page, "|---|---|---|---|---|---|");
    for series in report.rounds.of(case.key) {
        let ratio = |to| number(report.rounds.ratio(series, to), 2);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            series.contestant,
            number(median(&series.figures), 1),
            ratio("direct"),
            ratio("nginx"),
            number(median(&series.cpu), 1),
            series.errors,
        );
    }
}

fn memory(page: &mut String, report: &Report<'_>) {
    let _ = writeln!(page, "\n## Memory\n| | idle | at most |\n|---|---|---|");
    for ((name, idle), (_, peak)) in report.idle.iter().zip(&report.peak) {
        let _ = writeln!(page, "| {name} | {} | {} |", megabytes(idle.now), megabytes(peak.peak));
    }
}

/// Bars on a logarithmic scale: gateways differ by a factor of a thousand.
fn drawn(report: &Report<'_>, case: &Case) -> String {
    let rows: Vec<(&Series, f64)> =
        report.rounds.of(case.key).filter_map(|series| Some((series, median(&series.figures)?))).collect();
    let least = rows.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min) / 2.0;
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let width = |value: f64| (value / least).ln() / (most / least).ln() * BARS;
    let height = rows.len() * ROW + 30;
    let better = if case.figure == Figure::Median { "less is better" } else { "more is better" };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"720\" height=\"{height}\" fill=\"#fff\"/>\n<text x=\"8\" y=\"18\" fill=\"#555\">{}, logarithmic, {better}</text>\n",
        case.figure.unit()
    );
    for (place, (series, value)) in rows.iter().enumerate() {
        let (y, own) = (30 + place * ROW, series.contestant.starts_with("toolyard"));
        let colour = if own { "#2a7f62" } else { "#9aa5b1" };
        let bar = width(*value);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{NAMES}\" y=\"{y}\" width=\"{bar:.1}\" height=\"18\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            NAMES - 8,
            y + 14,
            series.contestant,
            f64::from(u32::try_from(NAMES).unwrap_or(0)) + bar + 6.0,
            y + 14,
            number(Some(*value), 1),
        );
    }
    svg.push_str("</svg>\n");
    svg
}
