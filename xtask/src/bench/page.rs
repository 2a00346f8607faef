//! The dated page with the results of a run: tables, plots and how they were measured, in `docs/bench`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::case::{CASES, Case, Figure};
use super::contestant::NEW;
use super::report::{Report, megabytes, number};
use super::rounds::{Plan, Rounds, Series, median};
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

/// What the parts of a hop are, for readers of a missed goal.
const WHERE: &str = "\
What the relay needs beyond a direct call is the price of a second HTTP hop in Rust: reading and writing two connections and waking once for each. What Toolyard needs beyond the relay is the reading of the message, the choice of view and upstream, the check of headers and the record of the call; [the notes about the path of a call](../design/hot-path.md) count the instructions of each. nginx reads no message.
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
    goals(&mut page, report.rounds);
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

/// The goals against nginx, and where the time goes in the cases that miss theirs.
fn goals(page: &mut String, rounds: &Rounds) {
    let measured = |case: &'static Case| {
        let series = rounds.of(case.key).find(|series| series.contestant == NEW[0])?;
        Some((case, case.nginx_goal()?, series, rounds.ratio(series, "nginx")?))
    };
    let all: Vec<_> = CASES.iter().filter_map(measured).collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n## Goals against nginx\n| | goal | reached | |\n|---|---|---|---|");
    let mut missed = Vec::new();
    for (case, goal, series, ratio) in all {
        let is_met = goal.is_met(case.figure, ratio);
        let (text, verdict) = (goal.text(case.figure), if is_met { "met" } else { "missed" });
        let _ = writeln!(page, "| {} | {text} | {} | {verdict} |", case.title, number(Some(ratio), 2));
        if !is_met {
            missed.push(series);
        }
    }
    if missed.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n## Where the time goes");
    for series in missed {
        let _ = writeln!(page, "- {}", where_time_goes(rounds, series));
    }
    let _ = writeln!(page, "\n{WHERE}");
}

/// The cost of a call in a case that misses its goal, beside what a bare relay and nginx need for it.
fn where_time_goes(rounds: &Rounds, own: &Series) -> String {
    let of = |name: &str| rounds.of(own.case.key).find(|series| series.contestant == name);
    let part = |name: &str| {
        let series = of(name)?;
        // The time between two answers, for a rate.
        let time = match own.case.figure {
            Figure::Median => median(&series.figures),
            Figure::Rate => median(&series.figures).map(|rate| 1e6 / rate),
        };
        let (time, cpu) = (number(time, 1), number(median(&series.cpu), 1));
        Some(format!("{name} {time} µs ({cpu} µs of CPU in the hop)"))
    };
    let names = ["direct", "nginx", "relay", own.contestant];
    let parts: Vec<String> = names.into_iter().filter_map(part).collect();
    let relay = of("relay").and_then(|relay| rounds.ratio(relay, "nginx"));
    format!(
        "{}, time per answer: {}. The bare relay, which interprets nothing, reaches {} × nginx.",
        own.case.title,
        parts.join(", "),
        number(relay, 2)
    )
}

fn memory(page: &mut String, report: &Report<'_>) {
    let _ = writeln!(page, "\n## Memory\n| | idle | at most |\n|---|---|---|");
    for ((name, idle), (_, peak)) in report.idle.iter().zip(&report.peak) {
        let _ = writeln!(page, "| {name} | {} | {} |", megabytes(idle.now), megabytes(peak.peak));
    }
}

/// Bars on a logarithmic scale: gateways differ by a factor of a thousand.
fn drawn(report: &Report<'_>, case: &Case) -> String {
    // One that gave no answer at all has no bar, and no place on a logarithmic scale.
    let figure = |series: &Series| median(&series.figures).filter(|value| value.is_normal() && *value > 0.0);
    let rows: Vec<(&Series, Option<f64>)> =
        report.rounds.of(case.key).map(|series| (series, figure(series))).collect();
    let values = || rows.iter().filter_map(|(_, value)| *value);
    let least = values().fold(f64::INFINITY, f64::min) / 2.0;
    let most = values().fold(0.0, f64::max);
    let width =
        |value: Option<f64>| value.map_or(0.0, |value| (value / least).ln() / (most / least).ln() * BARS);
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
            value.map_or_else(|| "no answers".to_owned(), |value| number(Some(value), 1)),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::crossing::Crossed;

    fn rounds(all: &[(&'static str, &[f64])]) -> Rounds {
        let series = |(contestant, figures): &(&'static str, &[f64])| Series {
            case: &CASES[0],
            contestant,
            figures: figures.to_vec(),
            cpu: vec![30.0],
            errors: 0,
        };
        Rounds { series: all.iter().map(series).collect(), crossed: Crossed::default() }
    }

    fn plot(rounds: &Rounds) -> String {
        let (idle, peak) = (Vec::new(), Vec::new());
        drawn(&Report { rounds, idle, peak, starts: None, missing: &[] }, &CASES[0])
    }

    #[test]
    fn a_plot_has_finite_bars_also_for_a_peer_without_answers() {
        for broken in [0.0, f64::NAN, f64::INFINITY] {
            let plot = plot(&rounds(&[("direct", &[100.0]), ("peer", &[broken]), (NEW[0], &[200.0])]));
            assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
            assert!(plot.contains("no answers") && plot.contains("width=\"420.0\""), "{plot}");
        }
        let alone = plot(&rounds(&[("peer", &[0.0])]));
        assert!(!alone.contains("NaN") && !alone.contains("inf"), "{alone}");
    }

    #[test]
    fn the_page_shows_where_the_time_goes_if_a_goal_is_missed() {
        let written = |own: f64| {
            let mut page = String::new();
            let all = [("direct", 80.0), ("relay", 110.0), ("nginx", 100.0), (NEW[0], own)];
            let figures: Vec<[f64; 1]> = all.iter().map(|(_, figure)| [*figure]).collect();
            let series: Vec<(&'static str, &[f64])> =
                all.iter().zip(&figures).map(|((name, _), figures)| (*name, &figures[..])).collect();
            goals(&mut page, &rounds(&series));
            page
        };
        let met = written(108.0);
        assert!(met.contains("≤ 1.08 × nginx | 1.08 | met") && !met.contains("Where the time goes"), "{met}");
        let missed = written(115.0);
        assert!(missed.contains("| 1.15 | missed"), "{missed}");
        assert!(missed.contains("relay 110.0 µs (30.0 µs of CPU in the hop)"), "{missed}");
        assert!(missed.contains("reaches 1.10 × nginx"), "{missed}");
    }
}
