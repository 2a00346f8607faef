//! The result of a run: tables for people, or one JSON object for machines.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::case::{CASES, Case, Figure};
use super::contestant::{NEW, OLD};
use super::rounds::{Rounds, Series, median};
use super::startup::Starts;
use super::usage::Memory;

pub(super) struct Report<'a> {
    pub(super) rounds: &'a Rounds,
    pub(super) idle: Vec<(&'static str, Memory)>,
    pub(super) peak: Vec<(&'static str, Memory)>,
    pub(super) starts: Option<Starts>,
    pub(super) missing: &'a [String],
}

/// The gateway must reach this part of the speed of the one to compare with.
const LEAST_SPEED: f64 = 0.97;
/// What the others are compared with.
const MEASURES: [&str; 3] = ["direct", "relay", "nginx"];

impl Report<'_> {
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
            return;
        }
        for case in CASES.iter().filter(|case| self.is_measured(case)) {
            self.print_case(case);
        }
        self.print_comparison();
        if !self.rounds.crossed.is_empty() {
            self.rounds.crossed.print();
        }
        self.print_memory();
        match &self.starts {
            Some(starts) => println!(
                "\nstart to first tools/list of the built-in tools: {:.1} ms; memory then: {}",
                starts.milliseconds,
                megabytes(starts.memory.now)
            ),
            None => println!("\nstart to first tools/list: not measured"),
        }
        for problem in self.missing {
            println!("\n{problem}");
        }
    }

    fn print_comparison(&self) {
        let speeds = self.speeds();
        if speeds.is_empty() {
            return;
        }
        println!("\nspeed compared with the old gateway, median over rounds (more is faster)");
        for (title, new, speed) in speeds {
            println!("  {title:<52} {new:<18} {speed:>6.3}");
        }
    }

    /// The gateway against the one to compare with, by case: more than 1 is faster.
    fn speeds(&self) -> Vec<(&'static str, &'static str, f64)> {
        let mut speeds = Vec::new();
        for case in CASES.iter().filter(|case| self.is_measured(case)) {
            for (new, old) in NEW.into_iter().zip(OLD) {
                let series = self.rounds.of(case.key).find(|series| series.contestant == new);
                let Some(ratio) = series.and_then(|series| self.rounds.ratio(series, old)) else { continue };
                let speed = if case.figure == Figure::Median { 1.0 / ratio } else { ratio };
                speeds.push((case.title, new, speed));
            }
        }
        speeds
    }

    /// Whether the gateway is slower than the one to compare with, where there is one.
    pub(super) fn check_speed(&self) -> Result<()> {
        let is_slow = |(_, _, speed): &(&str, &str, f64)| speed.is_nan() || *speed < LEAST_SPEED;
        let slow = self.speeds().into_iter().filter(is_slow);
        let slow: Vec<String> =
            slow.map(|(title, new, speed)| format!("{title}, {new}: {speed:.3}")).collect();
        if !slow.is_empty() {
            bail!("at least {LEAST_SPEED} × the old speed: missed: {}", slow.join("; "));
        }
        Ok(())
    }

    /// Whether the gateway misses the goal of this case.
    pub(super) fn check_goal(&self, key: &str) -> Result<()> {
        let missed: Vec<&str> = self
            .rounds
            .of(key)
            .filter(|series| self.is_met(series) == Some(false))
            .map(|series| series.contestant)
            .collect();
        if !missed.is_empty() {
            bail!("the goal of `{key}` is missed by {}", missed.join(", "));
        }
        Ok(())
    }

    pub(super) fn is_measured(&self, case: &Case) -> bool {
        self.rounds.of(case.key).next().is_some()
    }

    fn print_case(&self, case: &Case) {
        println!("\n{}", case.title);
        let [direct, relay, nginx] = MEASURES.map(|name| format!("× {name}"));
        println!(
            "  {:<20} {:>12} {direct:>9} {relay:>9} {nginx:>9} {:>12}",
            "",
            case.figure.unit(),
            "CPU µs/call"
        );
        for series in self.rounds.of(case.key) {
            let [direct, relay, nginx] = MEASURES.map(|name| number(self.rounds.ratio(series, name), 2));
            println!(
                "  {:<20} {:>12} {direct:>9} {relay:>9} {nginx:>9} {:>12}  {}",
                series.contestant,
                number(median(&series.figures), 1),
                number(median(&series.cpu), 1),
                self.goal(series).unwrap_or_default(),
            );
        }
    }

    /// The gateway in relation to its goal; nothing for the others.
    fn goal(&self, series: &Series) -> Option<String> {
        let goal = &series.case.goal;
        let is_met = self.is_met(series)?;
        let verdict = if is_met { "met" } else { "MISSED" };
        Some(format!("goal {}: {verdict}", goal.text(series.case.figure)))
    }

    fn is_met(&self, series: &Series) -> Option<bool> {
        let ratio = self.rounds.ratio(series, series.case.goal.to)?;
        series.contestant.starts_with("toolyard").then(|| series.case.goal.is_met(series.case.figure, ratio))
    }

    fn print_memory(&self) {
        println!("\nresident memory");
        for ((name, idle), (_, peak)) in self.idle.iter().zip(&self.peak) {
            println!("  {name:<20} {} idle, {} at most", megabytes(idle.now), megabytes(peak.peak));
        }
    }

    fn json(&self) -> Value {
        json!({
            "cases": CASES.iter().filter(|case| self.is_measured(case)).map(|case| json!({
                "case": case.key,
                "title": case.title,
                "unit": case.figure.unit(),
                "contestants": self.rounds.of(case.key).map(|series| self.series_json(series)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "crossing": self.rounds.crossed.json(),
            "memory": self.idle.iter().zip(&self.peak).map(|((name, idle), (_, peak))| json!({
                "contestant": name, "idle_bytes": idle.now, "peak_bytes": peak.peak,
            })).collect::<Vec<_>>(),
            "start": self.starts.as_ref().map(|starts| json!({
                "first_list_ms": starts.milliseconds, "idle_bytes": starts.memory.now,
            })),
            "missing": self.missing,
        })
    }

    fn series_json(&self, series: &Series) -> Value {
        let [direct, relay, nginx] = MEASURES.map(|name| self.rounds.ratio(series, name));
        json!({
            "contestant": series.contestant,
            "median": median(&series.figures),
            "ratio": { "direct": direct, "relay": relay, "nginx": nginx },
            "goal_met": self.is_met(series),
            "cpu_us_per_call": median(&series.cpu),
            "rounds": series.figures,
        })
    }
}

/// A figure for people; a dash if there is none, or nothing to divide by.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value
        .filter(|value| value.is_finite())
        .map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::crossing::Crossed;

    fn check(old: &[f64], new: &[f64]) -> Result<()> {
        let series = |contestant, figures: &[f64]| Series {
            case: &CASES[0],
            contestant,
            figures: figures.to_vec(),
            cpu: Vec::new(),
            errors: 0,
        };
        let rounds =
            Rounds { series: vec![series(NEW[0], new), series(OLD[0], old)], crossed: Crossed::default() };
        let (idle, peak) = (Vec::new(), Vec::new());
        Report { rounds: &rounds, idle, peak, starts: None, missing: &[] }.check_speed()
    }

    #[test]
    fn a_gateway_that_is_slower_than_the_old_one_fails_the_command() {
        check(&[100.0, 100.0, 100.0], &[103.0, 90.0, 200.0]).unwrap();
        check(&[100.0, 100.0, 100.0], &[104.0, 90.0, 200.0]).unwrap_err();
        check(&[], &[104.0]).unwrap();
    }
}
