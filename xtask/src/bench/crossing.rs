//! What it costs to carry a call from a client of one era to an upstream of the other, against both sides being of
//! the same: one gateway before one upstream of each era, and clients of each.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Era;
use super::case::{CASES, Case};
use super::contestant::{Contestant, Programs};
use super::load::{Load, Until};
use super::rounds::median;
use crate::process::Background;

/// How much more a call may take than between two of the same era.
const GOAL: f64 = 1.5;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

pub(super) struct Crossing {
    pairs: Vec<Pair>,
    _running: Vec<Background>,
    _folder: TempDir,
}

struct Pair {
    client: Era,
    upstream: Era,
    load: Load,
    contestant: Contestant,
}

/// The medians of every round, in microseconds, pair by pair.
#[derive(Default)]
pub(super) struct Crossed {
    series: Vec<Series>,
    errors: u64,
}

struct Series {
    client: Era,
    upstream: Era,
    p50: Vec<f64>,
}

impl Crossing {
    pub(super) fn start(programs: &Programs, logs: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for the gateway")?;
        let mut running = Vec::new();
        let mut upstreams = Vec::new();
        for era in ERAS {
            let mut command = programs.upstream();
            command.args(["--era", era.name()]);
            let log = logs.join(format!("upstream-{}.log", era.name()));
            let (upstream, origin) = Background::serve("bench-upstream", &mut command, &log)?;
            running.push(upstream);
            upstreams.push((era.name(), origin));
        }
        let mut command = programs.gateway_before(folder.path(), &upstreams)?;
        let (gateway, origin) = Background::serve("toolyard", &mut command, &logs.join("crossing.log"))?;
        running.insert(0, gateway);
        let mut pairs = Vec::new();
        for upstream in ERAS {
            for client in ERAS {
                let (name, prefix) = match upstream {
                    Era::Legacy => ("a legacy upstream", "legacy__"),
                    Era::Modern => ("a modern upstream", "modern__"),
                };
                let contestant = Contestant::prefixed(name, &origin, prefix);
                let load = Load::new(programs, client.name());
                load.wait_for(echo(), &contestant)?;
                pairs.push(Pair { client, upstream, load, contestant });
            }
        }
        Ok(Self { pairs, _running: running, _folder: folder })
    }

    pub(super) fn nothing_yet(&self) -> Crossed {
        let series = |pair: &Pair| Series { client: pair.client, upstream: pair.upstream, p50: Vec::new() };
        Crossed { series: self.pairs.iter().map(series).collect(), errors: 0 }
    }

    /// All pairs once; another one begins each round.
    pub(super) fn measure(&self, round: usize, seconds: f64, crossed: &mut Crossed) -> Result<()> {
        for turn in 0..self.pairs.len() {
            let at = (round + turn) % self.pairs.len();
            let pair = &self.pairs[at];
            let sample = pair.load.run(echo(), &pair.contestant, Until::Seconds(seconds))?;
            crossed.errors += sample.errors;
            crossed.series[at].p50.push(sample.p50_us.unwrap_or(f64::NAN));
        }
        Ok(())
    }
}

fn echo() -> &'static Case {
    &CASES[0]
}

impl Series {
    fn crosses(&self) -> bool {
        self.client != self.upstream
    }

    fn name(&self) -> String {
        format!("{} → {}", self.client.name(), self.upstream.name())
    }
}

impl Crossed {
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// The median over rounds of the ratio to two of `era` within a round.
    fn ratio(&self, series: &Series, era: Era) -> Option<f64> {
        let same = self.series.iter().find(|same| same.client == era && same.upstream == era)?;
        let ratios = series.p50.iter().zip(&same.p50).map(|(crossing, same)| crossing / same);
        median(&ratios.collect::<Vec<_>>())
    }

    /// Against the client's own era and against the upstream's: both must be within the goal.
    fn is_met(&self, series: &Series) -> Option<bool> {
        let ratios = ERAS.map(|era| self.ratio(series, era));
        series.crosses().then(|| ratios.iter().flatten().all(|ratio| *ratio <= GOAL))
    }

    pub(super) fn print(&self) {
        println!("\n{}, from one era to the other (client → upstream)", echo().title);
        println!("  {:<20} {:>12} {:>18} {:>18}", "", "p50 µs", "× legacy → legacy", "× modern → modern");
        for series in &self.series {
            let [legacy, modern] = ERAS.map(|era| figure(self.ratio(series, era), 2));
            let goal = self.is_met(series).map_or_else(String::new, |met| {
                format!("goal ≤ {GOAL} × the same era: {}", if met { "met" } else { "MISSED" })
            });
            let p50 = figure(median(&series.p50), 1);
            println!("  {:<20} {p50:>12} {legacy:>18} {modern:>18}  {goal}", series.name());
        }
    }

    pub(super) fn json(&self) -> Value {
        let series = |series: &Series| {
            let [legacy, modern] = ERAS.map(|era| self.ratio(series, era));
            json!({
                "client": series.client.name(), "upstream": series.upstream.name(), "p50_us": median(&series.p50),
                "ratio": { "legacy": legacy, "modern": modern }, "goal_met": self.is_met(series), "rounds": series.p50,
            })
        };
        self.series.iter().map(series).collect()
    }
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(crossing: &[f64], legacy: &[f64], modern: &[f64], expected: bool) {
        let series = |client, upstream, p50: &[f64]| Series { client, upstream, p50: p50.to_vec() };
        let crossed = Crossed {
            series: vec![
                series(Era::Legacy, Era::Legacy, legacy),
                series(Era::Modern, Era::Modern, modern),
                series(Era::Modern, Era::Legacy, crossing),
            ],
            errors: 0,
        };
        assert_eq!(crossed.is_met(&crossed.series[2]), Some(expected), "{crossing:?}");
        assert_eq!(crossed.is_met(&crossed.series[0]), None, "the same era crosses nothing");
    }

    #[test]
    fn crossing_may_cost_half_as_much_again_as_either_era() {
        check(&[140.0, 14.0, 90.0], &[100.0, 10.0, 50.0], &[100.0, 10.0, 60.0], true);
        check(&[140.0, 14.0, 14.0], &[100.0, 10.0, 10.0], &[90.0, 9.0, 9.0], false);
    }
}
