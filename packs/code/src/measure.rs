//! Measures how well questions find functions, with the ranking that the tools use. Only for `cargo xtask search`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;
use toolyard_rank::{Document, Index, terms};

use crate::config::ModelChoice;
use crate::embed::{Encoder, Passage, on_all_cores};
use crate::index::rank::{NAME_EXTRA, cosine, quantized};

/// Questions of a set that are asked.
const QUESTIONS: usize = 1000;
/// Weights of meaning that are tried; the best on the other questions counts.
const WEIGHTS: [f32; 6] = [8.0, 16.0, 32.0, 64.0, 96.0, 128.0];

#[derive(Deserialize)]
struct Function {
    name: String,
    code: String,
    query: Option<String>,
}

/// Where the right function is found, over many questions.
#[derive(Clone, Copy, Default)]
struct Figures {
    reciprocal: f64,
    first: f64,
    in_ten: f64,
    count: f64,
}

/// A question, the function that it describes, and whether it shares no word with the name of the function.
struct Question<'a> {
    text: &'a str,
    answer: usize,
    is_unnamed: bool,
}

/// Reads a set and returns a table of its figures.
pub fn measure(set: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(set)?;
    let functions = text.lines().map(serde_json::from_str).collect::<Result<Vec<Function>, _>>()?;
    let all: Vec<Question<'_>> = functions.iter().enumerate().filter_map(question).collect();
    let (asked, tuning) = all.split_at(all.len().min(QUESTIONS));
    let tuning = &tuning[..tuning.len().min(QUESTIONS)];
    let mut table = format!(
        "{} functions, {} questions\n\n| method | MRR@10 | R@1 | R@10 | R@10, no word of the name | documents/s |\n|---|---|---|---|---|---|\n",
        functions.len(),
        asked.len()
    );
    let plain = plain(&functions);
    row(&mut table, "BM25, plain words", asked, None, |question| plain.scores(question.text));
    let lexical = lexical(&functions);
    row(&mut table, "words", asked, None, |question| lexical.scores(question.text));
    for (choice, name) in [(ModelChoice::Fast, "static128"), (ModelChoice::Precise, "tiny1x128")] {
        let encoder = Encoder::built_in(choice).map_err(|error| error.message().to_owned())?;
        let vectors = Vectors::of(&encoder, &functions);
        row(&mut table, name, asked, Some(vectors.per_second), |question| vectors.scores(question.text));
        let fused = |weight: f32| {
            let (lexical, vectors) = (&lexical, &vectors);
            move |question: &Question<'_>| {
                sum(lexical.scores(question.text), &vectors.scores(question.text), weight)
            }
        };
        let best = WEIGHTS
            .into_iter()
            .max_by(|a, b| figures(tuning, fused(*a)).mrr().total_cmp(&figures(tuning, fused(*b)).mrr()));
        let best = best.unwrap_or(WEIGHTS[0]);
        row(&mut table, &format!("words + {best} · {name}"), asked, None, fused(best));
    }
    Ok(table)
}

fn question((answer, function): (usize, &Function)) -> Option<Question<'_>> {
    let text = function.query.as_deref()?;
    let name: HashSet<String> = terms(&function.name).into_iter().collect();
    let is_unnamed = terms(text).iter().all(|term| !name.contains(term));
    Some(Question { text, answer, is_unnamed })
}

fn row(
    table: &mut String,
    method: &str,
    asked: &[Question<'_>],
    per_second: Option<f64>,
    scores: impl Fn(&Question<'_>) -> Vec<f32> + Sync,
) {
    let all = figures(asked, &scores);
    let unnamed: Vec<&Question<'_>> = asked.iter().filter(|question| question.is_unnamed).collect();
    let unnamed = total(on_all_cores(&unnamed, |question| place(question, &scores(question))));
    let speed = per_second.map(|speed| format!("{speed:.0}")).unwrap_or_default();
    let Figures { first, in_ten, count, .. } = all;
    let _ = writeln!(
        table,
        "| {method} | {:.3} | {:.3} | {:.3} | {:.3} | {speed} |",
        all.mrr(),
        first / count,
        in_ten / count,
        unnamed.in_ten / unnamed.count
    );
}

fn figures(asked: &[Question<'_>], scores: impl Fn(&Question<'_>) -> Vec<f32> + Sync) -> Figures {
    total(on_all_cores(asked, |question| place(question, &scores(question))))
}

/// Where the answer is: the number of functions with a better score, and half of those with the same.
fn place(question: &Question<'_>, scores: &[f32]) -> Figures {
    let own = scores[question.answer];
    let better = scores.iter().filter(|score| **score > own).count();
    let equal = scores.iter().filter(|score| (**score - own).abs() < f32::EPSILON).count();
    #[expect(clippy::cast_precision_loss, reason = "sets have thousands of functions")]
    let place = better as f64 + 1.0 + (equal.saturating_sub(1) as f64) / 2.0;
    let within = |most: f64| f64::from(u8::from(place <= most));
    Figures { reciprocal: within(10.0) / place, first: within(1.0), in_ten: within(10.0), count: 1.0 }
}

fn total(list: Vec<Figures>) -> Figures {
    list.into_iter().fold(Figures::default(), |a, b| Figures {
        reciprocal: a.reciprocal + b.reciprocal,
        first: a.first + b.first,
        in_ten: a.in_ten + b.in_ten,
        count: a.count + b.count,
    })
}

impl Figures {
    fn mrr(&self) -> f64 {
        self.reciprocal / self.count
    }
}

fn sum(mut words: Vec<f32>, meaning: &[f32], weight: f32) -> Vec<f32> {
    for (score, meaning) in words.iter_mut().zip(meaning) {
        *score += weight * meaning.max(0.0);
    }
    words
}

fn lexical(functions: &[Function]) -> Index {
    let mut index = Index::default();
    for function in functions {
        index.add(&Document::default().with(&function.name, NAME_EXTRA).with(&function.code, 1.0));
    }
    index
}

struct Vectors<'a> {
    encoder: &'a Encoder,
    stored: Vec<Box<[i8]>>,
    per_second: f64,
}

impl<'a> Vectors<'a> {
    /// Encodes on one thread, so that the speed can be compared.
    fn of(encoder: &'a Encoder, functions: &[Function]) -> Self {
        let started = Instant::now();
        let passage =
            |function: &Function| Passage { name: function.name.clone(), text: function.code.clone() };
        let vector = |function| quantized(&encoder.at_once(&passage(function)).unwrap_or_default());
        let stored: Vec<_> = functions.iter().map(vector).collect();
        #[expect(clippy::cast_precision_loss, reason = "sets have thousands of functions")]
        let per_second = stored.len() as f64 / started.elapsed().as_secs_f64();
        Self { encoder, stored, per_second }
    }

    fn scores(&self, query: &str) -> Vec<f32> {
        let vector = futures_util::FutureExt::now_or_never(self.encoder.query(query));
        let vector = vector.and_then(Result::ok).unwrap_or_default();
        self.stored.iter().map(|stored| cosine(&vector, stored)).collect()
    }
}

/// BM25 over words as they are written, in lower case.
struct Plain {
    documents: Vec<HashMap<String, f32>>,
    lengths: Vec<f32>,
    mean: f32,
    containing: HashMap<String, f32>,
}

fn plain_words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

fn plain(functions: &[Function]) -> Plain {
    let mut plain =
        Plain { documents: Vec::new(), lengths: Vec::new(), mean: 1.0, containing: HashMap::new() };
    for function in functions {
        let mut counts: HashMap<String, f32> = HashMap::new();
        for word in plain_words(&function.code) {
            *counts.entry(word).or_default() += 1.0;
        }
        for word in counts.keys() {
            *plain.containing.entry(word.clone()).or_default() += 1.0;
        }
        plain.lengths.push(counts.values().sum());
        plain.documents.push(counts);
    }
    #[expect(clippy::cast_precision_loss, reason = "sets have thousands of functions")]
    let count = plain.lengths.len().max(1) as f32;
    plain.mean = plain.lengths.iter().sum::<f32>() / count;
    plain
}

impl Plain {
    fn scores(&self, query: &str) -> Vec<f32> {
        const K1: f32 = 1.2;
        const B: f32 = 0.75;
        #[expect(clippy::cast_precision_loss, reason = "sets have thousands of functions")]
        let all = self.documents.len() as f32;
        let words: HashSet<String> = plain_words(query).collect();
        let weighted: Vec<(&String, f32)> = words
            .iter()
            .filter_map(|word| {
                self.containing.get(word).map(|n| (word, ((all - n + 0.5) / (n + 0.5) + 1.0).ln()))
            })
            .collect();
        let score = |(document, length): (&HashMap<String, f32>, &f32)| {
            let scores = weighted.iter().filter_map(|(word, rarity)| {
                let count = document.get(*word)?;
                Some(rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / self.mean)))
            });
            scores.sum()
        };
        self.documents.iter().zip(&self.lengths).map(score).collect()
    }
}
