//! Measures all contestants in turns, round after round, and keeps every sample.

use anyhow::{Result, bail};

use super::case::{CASES, Case, Figure};
use super::contestant::{Contestant, Contestants};
use super::crossing::{Crossed, Crossing};
use super::load::{Load, Until};
use super::usage;

pub(super) struct Plan {
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    /// One case instead of all, and nothing else.
    pub(super) only: Option<String>,
}

impl Plan {
    fn cases(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().filter(|case| self.only.as_ref().is_none_or(|only| case.key == only))
    }
}

/// What one contestant reached in one case, round by round.
pub(super) struct Series {
    pub(super) case: &'static Case,
    pub(super) contestant: &'static str,
    pub(super) figures: Vec<f64>,
    /// Microseconds of CPU time per call; empty for the upstream itself.
    pub(super) cpu: Vec<f64>,
    pub(super) errors: u64,
}

pub(super) struct Rounds {
    pub(super) series: Vec<Series>,
    /// From one era to the other.
    pub(super) crossed: Crossed,
}

pub(super) fn run(
    contestants: &Contestants,
    crossing: Option<&Crossing>,
    load: &Load,
    plan: &Plan,
) -> Result<Rounds> {
    let mut rounds =
        Rounds { series: Vec::new(), crossed: crossing.map(Crossing::nothing_yet).unwrap_or_default() };
    for case in plan.cases() {
        for contestant in contestants.all.iter().filter(|one| one.takes_part(case)) {
            let (figures, cpu) = (Vec::new(), Vec::new());
            rounds.series.push(Series { case, contestant: contestant.name, figures, cpu, errors: 0 });
        }
    }
    for round in 0..plan.rounds {
        eprintln!("round {} of {}", round + 1, plan.rounds);
        for case in plan.cases() {
            // Another one begins each round, so that none always has the same neighbour.
            for turn in 0..contestants.all.len() {
                let contestant = &contestants.all[(round + turn) % contestants.all.len()];
                if contestant.takes_part(case) {
                    measure(&mut rounds, case, contestant, load, plan.seconds)?;
                }
            }
        }
        if let Some(crossing) = crossing {
            crossing.measure(round, plan.seconds, &mut rounds.crossed)?;
        }
    }
    Ok(rounds)
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls, for people")]
fn measure(
    rounds: &mut Rounds,
    case: &Case,
    contestant: &Contestant,
    load: &Load,
    seconds: f64,
) -> Result<()> {
    let before = contestant.process.map(usage::cpu);
    let sample = load.run(case, contestant, Until::Seconds(seconds))?;
    let Some(series) = rounds.find_mut(case.key, contestant.name) else { bail!("no series for this case") };
    series.errors += sample.errors;
    series.figures.push(match case.figure {
        Figure::Median => sample.p50_us.unwrap_or(f64::NAN),
        Figure::Rate => sample.per_second,
    });
    if let (Some(process), Some(before), 1..) = (contestant.process, before, sample.answers) {
        let used = usage::cpu(process).saturating_sub(before);
        series.cpu.push(used.as_secs_f64() * 1e6 / sample.answers as f64);
    }
    if sample.errors > 0 {
        eprintln!(
            "warning: {}, {}: {} errors: {}",
            case.title, contestant.name, sample.errors, sample.error_kinds
        );
    }
    Ok(())
}

impl Rounds {
    pub(super) fn of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.case.key == case)
    }

    /// The median over rounds of the ratio within a round.
    pub(super) fn ratio(&self, series: &Series, to: &str) -> Option<f64> {
        let other = self.of(series.case.key).find(|other| other.contestant == to)?;
        let ratios = series.figures.iter().zip(&other.figures).map(|(figure, other)| figure / other);
        median(&ratios.collect::<Vec<_>>())
    }

    /// A wrong answer makes every figure worthless.
    pub(super) fn check(&self) -> Result<()> {
        self.check_of(|_| true)
    }

    /// The same for some contestants alone.
    pub(super) fn check_of(&self, counts: impl Fn(&str) -> bool) -> Result<()> {
        let series = self.series.iter().filter(|series| counts(series.contestant));
        match series.map(|series| series.errors).sum::<u64>() + self.crossed.errors() {
            0 => Ok(()),
            errors => bail!("{errors} answers were wrong or did not come"),
        }
    }

    fn find_mut(&mut self, case: &str, contestant: &str) -> Option<&mut Series> {
        self.series.iter_mut().find(|series| series.case.key == case && series.contestant == contestant)
    }
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(sorted[middle - 1], upper)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::KEYS;

    fn series(contestant: &'static str, figures: &[f64]) -> Series {
        Series { case: &CASES[0], contestant, figures: figures.to_vec(), cpu: Vec::new(), errors: 0 }
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let rounds = Rounds {
            series: vec![series("relay", &[100.0, 10.0, 50.0]), series("toolyard", &[120.0, 11.0, 65.0])],
            crossed: Crossed::default(),
        };
        assert_eq!(rounds.ratio(&rounds.series[1], "relay"), Some(1.2));
        assert_eq!(rounds.ratio(&rounds.series[1], "nginx"), None);
    }

    #[test]
    fn every_case_can_be_measured_alone() {
        for key in KEYS {
            let plan = Plan { rounds: 1, seconds: 1.0, only: Some(key.to_owned()) };
            assert_eq!(plan.cases().map(|case| case.key).collect::<Vec<_>>(), [key]);
        }
        let all = Plan { rounds: 1, seconds: 1.0, only: None };
        assert_eq!(all.cases().map(|case| case.key).collect::<Vec<_>>(), KEYS);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
