//! Subjects of commits as questions: which files did the commit change?
//!
//! The score of a file is that of its best function. Weights are chosen on some repositories; the figures are those of
//! the others, as the mean over repositories.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

use serde::Deserialize;
use toolyard_rank::{Document, Index};

use super::goals::{Goals, Report};
use super::{Contender, Vectors, fused};
use crate::background::on_all_cores;
use crate::embed::Passage;
use crate::index::rank::{Form, NAME_EXTRA, path_words};

const WEIGHTS: [f32; 7] = [8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0];
/// How often the words of a path count.
const PATH_WEIGHTS: [u8; 3] = [0, 1, 3];
/// How many characters of a function are read.
const MOST: usize = 2000;
/// The heads of the tables.
const REPOSITORIES: &str = "| repository | used for | functions | questions | commit |";
const METHODS: &str = "| method | no path words | path words ×1 | path words ×3 |";
const CHANGES: &str = "| change | MRR@10 | 95 % of the samples | R@10 | 95 % of the samples |";
/// How many samples an interval is made of.
const SAMPLES: usize = 4000;

#[derive(Deserialize)]
struct Repository {
    repo: String,
    /// The newest commit of the clone.
    head: String,
    split: Split,
    docs: Vec<Function>,
    queries: Vec<Question>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Split {
    Dev,
    Test,
}

/// The file of a function, its name, its comment and its code.
#[derive(Deserialize)]
struct Function(PathBuf, String, String, String);

#[derive(Deserialize)]
struct Question {
    q: String,
    rel: Vec<PathBuf>,
}

/// What is measured: which model with which weight, and how often the words of paths count.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Setting {
    path: u8,
    model: Option<&'static str>,
    meaning: Meaning,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Meaning {
    /// Words only.
    None,
    /// Meaning only.
    Alone,
    /// Both, with one of [`WEIGHTS`].
    Weight(usize),
    /// Both, with the weight that the tools choose for the question.
    AsTools,
}

/// How well one question was answered: one divided by the place of the first file, and the share of files in the first
/// ten.
type Answered = (f64, f64);

/// The results of all settings: for each the repositories, for each of these the questions.
#[derive(Default)]
struct Results(HashMap<Setting, Vec<(Split, Vec<Answered>)>>);

/// Reads the sets, one for each repository, and returns the tables.
pub fn commits(sets: &[PathBuf], contenders: &[Contender]) -> Result<Report, Box<dyn Error>> {
    let mut asked = 0;
    let mut results = Results::default();
    let mut text = format!("{REPOSITORIES}\n|---|---|---|---|---|\n");
    for set in sets {
        let repository: Repository = serde_json::from_slice(&std::fs::read(set)?)?;
        let used = if repository.split == Split::Dev { "choosing weights" } else { "figures" };
        let (functions, questions) = (repository.docs.len(), repository.queries.len());
        let name = repository.repo.replace('+', "/");
        let commit = repository.head.get(..12).unwrap_or(&repository.head);
        let _ = writeln!(text, "| {name} | {used} | {functions} | {questions} | {commit} |");
        measure(&repository, contenders, &mut results)?;
        asked += questions;
    }
    let names: Vec<&'static str> = contenders.iter().map(|contender| contender.name).collect();
    tables(&mut text, &results, &names);
    Ok(goals(&results, asked).after(&text))
}

/// The published figures, MRR@10 and R@10 with path words ×3, and their order.
fn goals(results: &Results, asked: usize) -> Goals<'static> {
    let mut goals = Goals::of("commits");
    let found = |path, model: Option<&'static str>| {
        let meaning = if model.is_some() { Meaning::AsTools } else { Meaning::None };
        results.means(Setting { path, model, meaning }, Split::Test)
    };
    let (words, none) = (found(3, None), found(0, None));
    let (fast, precise) = (found(3, Some("static128")), found(3, Some("tiny1x128")));
    goals.state("at least 1,500 questions", asked >= 1500, &asked.to_string());
    let published = [
        ("words without paths", none, (0.610, 0.741)),
        ("words", words, (0.641, 0.767)),
        ("words + static128", fast, (0.654, 0.771)),
        ("words + tiny1x128", precise, (0.649, 0.760)),
    ];
    for (method, found, published) in published {
        goals.reach(method, found.0, published.0);
        goals.reach(&format!("{method}, R@10,"), found.1, published.1);
    }
    goals.better(("words without paths", none.0), ("words", words.0));
    goals.better(("words", words.0), ("words + static128", fast.0));
    goals.better(("words", words.0), ("words + tiny1x128", precise.0));
    goals.better(("words + tiny1x128", precise.0), ("words + static128", fast.0));
    goals
}

fn measure(
    repository: &Repository,
    contenders: &[Contender],
    results: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let files = Files::of(repository);
    let questions: Vec<&str> = repository.queries.iter().map(|question| question.q.as_str()).collect();
    let texts = [false, true].map(|paths| passages(&repository.docs, paths));
    let mut vectors = Vec::new();
    for contender in contenders {
        let without = Vectors::of(&contender.encoder, &texts[0], &questions)?;
        let with = Vectors::of(&contender.encoder, &texts[1], &questions)?;
        vectors.push((contender.name, [without, with]));
    }
    for path in PATH_WEIGHTS {
        let words = words(&repository.docs, path);
        let answered = on_all_cores(&repository.queries, |question| {
            let words = words.scores(&question.q);
            let mut answered =
                vec![(Setting { path, model: None, meaning: Meaning::None }, files.place(&words, question))];
            for (model, vectors) in &vectors {
                let meaning = vectors[usize::from(path > 0)].scores(&question.q);
                let mut add = |meaning, scores: &[f32]| {
                    answered.push((
                        Setting { path, model: Some(*model), meaning },
                        files.place(scores, question),
                    ));
                };
                add(Meaning::Alone, &meaning);
                add(Meaning::AsTools, &fused(&words, &meaning, Form::of(&question.q).weight_of_meaning()));
                for (at, weight) in WEIGHTS.into_iter().enumerate() {
                    add(Meaning::Weight(at), &fused(&words, &meaning, weight));
                }
            }
            answered
        })
        .map_err(|error| error.message().to_owned())?;
        results.add(repository.split, answered);
    }
    Ok(())
}

fn words(functions: &[Function], path: u8) -> Index {
    let mut index = Index::default();
    for Function(file, name, comment, code) in functions {
        let document = Document::default().with(name, NAME_EXTRA).with(comment, 1.0).with(code, 1.0);
        index.add(&document.with(&path_words(file), f32::from(path)));
    }
    index
}

fn passages(functions: &[Function], paths: bool) -> Vec<Passage> {
    let passage = |Function(file, name, comment, code): &Function| {
        let (first, rest) = code.split_once('\n').unwrap_or((code, ""));
        let path = if paths { path_words(file) } else { String::new() };
        let text: String = format!("{first} {path}\n{comment}\n{rest}").chars().take(MOST).collect();
        Passage { name: name.clone(), text }
    };
    functions.iter().map(passage).collect()
}

/// The files of a repository, in the order of its functions.
struct Files {
    count: usize,
    of_function: Vec<usize>,
    by_path: HashMap<PathBuf, usize>,
}

impl Files {
    fn of(repository: &Repository) -> Self {
        let mut by_path = HashMap::new();
        let number = |Function(file, ..): &Function| {
            let next = by_path.len();
            *by_path.entry(file.clone()).or_insert(next)
        };
        let of_function = repository.docs.iter().map(number).collect();
        Self { count: by_path.len(), of_function, by_path }
    }

    fn place(&self, scores: &[f32], question: &Question) -> Answered {
        let mut best = vec![0.0_f32; self.count];
        for (file, score) in self.of_function.iter().zip(scores) {
            best[*file] = best[*file].max(*score);
        }
        let place = |file: &PathBuf| {
            let own = best[*self.by_path.get(file)?];
            Some(best.iter().filter(|score| **score >= own).count())
        };
        let places: Vec<usize> = question.rel.iter().filter_map(place).collect();
        let first = places.iter().min().copied().unwrap_or(usize::MAX);
        let found = places.iter().filter(|place| **place <= 10).count();
        (if first <= 10 { 1.0 / as_f64(first) } else { 0.0 }, as_f64(found) / as_f64(question.rel.len()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of files and questions are small")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

impl Results {
    fn add(&mut self, split: Split, answered: Vec<Vec<(Setting, Answered)>>) {
        let mut by_setting: HashMap<Setting, Vec<Answered>> = HashMap::new();
        for (setting, answer) in answered.into_iter().flatten() {
            by_setting.entry(setting).or_default().push(answer);
        }
        for (setting, answers) in by_setting {
            self.0.entry(setting).or_default().push((split, answers));
        }
    }

    fn repositories(&self, setting: Setting, split: Split) -> Vec<&[Answered]> {
        let all = self.0.get(&setting).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(|(of, _)| *of == split).map(|(_, answers)| answers.as_slice()).collect()
    }

    /// The means of both figures over the repositories.
    fn means(&self, setting: Setting, split: Split) -> Answered {
        let repositories = self.repositories(setting, split);
        let mean = |of: fn(&Answered) -> f64| {
            let means = repositories
                .iter()
                .map(|answers| answers.iter().map(of).sum::<f64>() / as_f64(answers.len()));
            means.sum::<f64>() / as_f64(repositories.len())
        };
        (mean(|answer| answer.0), mean(|answer| answer.1))
    }

    /// The weight that is best on the repositories that are not reported.
    fn tuned(&self, path: u8, model: &'static str) -> usize {
        let quality = |at: &usize| {
            let setting = Setting { path, model: Some(model), meaning: Meaning::Weight(*at) };
            self.means(setting, Split::Dev).0
        };
        (0..WEIGHTS.len()).max_by(|a, b| quality(a).total_cmp(&quality(b))).unwrap_or_default()
    }

    /// How much better a figure is in one setting than in another.
    fn difference(&self, better: Setting, than: Setting, figure: fn(&Answered) -> f64) -> Difference {
        let mut random = 11_u64;
        let pairs: Vec<Vec<f64>> = self
            .repositories(better, Split::Test)
            .iter()
            .zip(self.repositories(than, Split::Test))
            .map(|(a, b)| a.iter().zip(b).map(|(a, b)| figure(a) - figure(b)).collect())
            .collect();
        let mut samples: Vec<f64> = (0..SAMPLES)
            .map(|_| pairs.iter().map(|pairs| sample(pairs, &mut random)).sum::<f64>() / as_f64(pairs.len()))
            .collect();
        samples.sort_by(f64::total_cmp);
        let mean = samples.iter().sum::<f64>() / as_f64(SAMPLES);
        Difference { mean, low: samples[SAMPLES / 40], high: samples[SAMPLES - SAMPLES / 40 - 1] }
    }

    /// The changes whose effect is shown: more path words, and each model at each weight of the path words.
    fn changes(&self, models: &[&'static str]) -> Vec<(String, Setting, Setting)> {
        let words = |path| Setting { path, model: None, meaning: Meaning::None };
        let more = |path| (format!("path words ×{path} instead of none"), words(path), words(0));
        let mut changes = vec![more(1), more(3)];
        for &model in models {
            for path in PATH_WEIGHTS {
                let at = self.tuned(path, model);
                let ways = [
                    (format!("weight {}", WEIGHTS[at]), Meaning::Weight(at)),
                    ("as the tools do".to_owned(), Meaning::AsTools),
                ];
                changes.extend(ways.map(|(way, meaning)| {
                    let name = format!("{model} added, path words ×{path}, {way}");
                    (name, Setting { path, model: Some(model), meaning }, words(path))
                }));
            }
        }
        changes
    }
}

/// A mean difference, and between which figures 95 % of the samples are.
struct Difference {
    mean: f64,
    low: f64,
    high: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.3} | {:+.3} to {:+.3}", self.mean, self.low, self.high)
    }
}

/// The mean of as many numbers as there are, each drawn from all of them.
fn sample(numbers: &[f64], random: &mut u64) -> f64 {
    let mut sum = 0.0;
    for _ in numbers {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (*random >> 33) as usize % numbers.len();
        sum += numbers[at];
    }
    sum / as_f64(numbers.len())
}

fn tables(text: &mut String, results: &Results, models: &[&'static str]) {
    let _ = writeln!(text, "\nMRR@10 / R@10:\n\n{METHODS}\n|---|---|---|---|");
    row(text, results, "words", |path| {
        (Setting { path, model: None, meaning: Meaning::None }, String::new())
    });
    for &model in models {
        row(text, results, model, |path| {
            (Setting { path, model: Some(model), meaning: Meaning::Alone }, String::new())
        });
        row(text, results, &format!("words + {model}, weight in brackets"), |path| {
            let at = results.tuned(path, model);
            (
                Setting { path, model: Some(model), meaning: Meaning::Weight(at) },
                format!(" ({})", WEIGHTS[at]),
            )
        });
        row(text, results, &format!("words + {model}, weight as the tools choose it"), |path| {
            (Setting { path, model: Some(model), meaning: Meaning::AsTools }, String::new())
        });
    }
    let _ = writeln!(text, "\n{CHANGES}\n|---|---|---|---|---|");
    for (name, better, than) in results.changes(models) {
        let reciprocal = results.difference(better, than, |answer| answer.0);
        let recall = results.difference(better, than, |answer| answer.1);
        let _ = writeln!(text, "| {name} | {reciprocal} | {recall} |");
    }
}

fn row(text: &mut String, results: &Results, name: &str, setting: impl Fn(u8) -> (Setting, String)) {
    let cells = PATH_WEIGHTS.map(|path| {
        let (setting, note) = setting(path);
        let (reciprocal, recall) = results.means(setting, Split::Test);
        format!("{reciprocal:.3} / {recall:.3}{note}")
    });
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two repositories with as many questions each, all with these answers.
    fn add(results: &mut Results, setting: Setting, answers: &[Answered]) {
        for split in [Split::Test, Split::Dev, Split::Test] {
            results.add(split, answers.iter().map(|answer| vec![(setting, *answer)]).collect());
        }
    }

    fn measured() -> Results {
        let mut results = Results::default();
        let all = |answer: Answered| vec![answer; 40];
        let mixed = |a: Answered, b: Answered| [a, b].repeat(20);
        for path in PATH_WEIGHTS {
            add(&mut results, Setting { path, model: None, meaning: Meaning::None }, &all((0.5, 0.6)));
            let own = |meaning| Setting { path, model: Some("m"), meaning };
            add(&mut results, own(Meaning::Alone), &all((0.1, 0.1)));
            add(&mut results, own(Meaning::AsTools), &mixed((0.5, 1.0), (0.6, 0.4)));
            for at in 0..WEIGHTS.len() {
                add(&mut results, own(Meaning::Weight(at)), &all((if at == 2 { 0.7 } else { 0.4 }, 0.5)));
            }
        }
        results
    }

    #[test]
    fn each_change_has_intervals_of_both_figures_at_each_weight_of_the_path_words() {
        let mut text = String::new();
        tables(&mut text, &measured(), &["m"]);
        let changes: Vec<&str> = text.split(CHANGES).nth(1).unwrap().trim().lines().skip(1).collect();
        let same = "+0.000 | +0.000 to +0.000";
        let tuned = "+0.200 | +0.200 to +0.200 | -0.100 | -0.100 to -0.100 |";
        assert_eq!(changes.len(), 8, "{text}");
        assert_eq!(changes[0], format!("| path words ×1 instead of none | {same} | {same} |"));
        for (at, path) in PATH_WEIGHTS.into_iter().enumerate() {
            assert_eq!(changes[2 + 2 * at], format!("| m added, path words ×{path}, weight 24 | {tuned}"));
        }
        assert!(
            changes[3].starts_with("| m added, path words ×0, as the tools do | +0.050 | +0.0"),
            "{text}"
        );
        let tools = measured();
        let setting = |meaning, model| Setting { path: 0, model, meaning };
        let recall =
            tools.difference(setting(Meaning::AsTools, Some("m")), setting(Meaning::None, None), |answer| {
                answer.1
            });
        assert!((recall.mean - 0.1).abs() < 0.01 && recall.low < 0.06 && recall.high > 0.14);
        assert!(recall.low > 0.0 && recall.high < 0.2);
    }

    #[test]
    fn the_readme_has_the_tables_that_are_printed() {
        let readme = include_str!("../../../../bench/search/README.md");
        for head in [REPOSITORIES, METHODS, CHANGES, super::super::functions::METHODS] {
            assert!(readme.contains(&format!("\n{head}\n")), "{head}");
        }
    }
}
