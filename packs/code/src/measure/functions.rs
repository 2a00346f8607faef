//! First lines of doc comments as questions: where is the function that the line describes?

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use toolyard_rank::{Document, Index, terms};

use super::goals::{Report, of_functions};
use super::plain::plain;
use super::{Contender, Function, Vectors, fused};
use crate::background::on_all_cores;
use crate::embed::Passage;
use crate::index::rank::NAME_EXTRA;

/// Questions of a set that are asked.
const QUESTIONS: usize = 1000;
/// Weights of meaning that are tried; the best on the other questions counts.
const WEIGHTS: [f32; 6] = [8.0, 16.0, 32.0, 64.0, 96.0, 128.0];

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

/// The head of the table.
pub(super) const METHODS: &str = "| method | MRR@10 | R@1 | R@10 | R@10, no word of the name | documents/s |";
const NO_PANIC: &str = "scores are compared without a panic";

/// Reads a set and returns a table of its figures, and whether they reach the published ones.
pub fn functions(set: &Path, contenders: &[Contender]) -> Result<Report, Box<dyn Error>> {
    let text = std::fs::read_to_string(set)?;
    let name = set.file_stem().unwrap_or_default().to_string_lossy();
    let functions = text.lines().map(serde_json::from_str).collect::<Result<Vec<Function>, _>>()?;
    let all: Vec<Question<'_>> = functions.iter().enumerate().filter_map(question).collect();
    let (asked, rest) = all.split_at(all.len().min(QUESTIONS));
    let tuning = &rest[..rest.len().min(QUESTIONS)];
    let mut table = format!(
        "{} functions, {} questions\n\n{METHODS}\n|---|---|---|---|---|---|\n",
        functions.len(),
        asked.len()
    );
    let plain = plain(&functions);
    row(&mut table, "BM25, plain words", asked, None, |question| plain.scores(question.text));
    let lexical = lexical(&functions);
    let words = row(&mut table, "words", asked, None, |question| lexical.scores(question.text));
    let mut measured = vec![("words".to_owned(), words)];
    let passage = |function: &Function| Passage { name: function.name.clone(), text: function.code.clone() };
    let passages: Vec<Passage> = functions.iter().map(passage).collect();
    let questions: Vec<&str> = asked.iter().chain(tuning).map(|question| question.text).collect();
    for contender in contenders {
        let vectors = Vectors::of(&contender.encoder, &passages, &questions)?;
        let alone = row(&mut table, contender.name, asked, Some(vectors.per_second), |question| {
            vectors.scores(question.text)
        });
        let scores = |question: &Question<'_>, weight: f32| {
            fused(&lexical.scores(question.text), &vectors.scores(question.text), weight)
        };
        let quality = |weight: f32| figures(tuning, |question| scores(question, weight)).mrr();
        let best =
            WEIGHTS.into_iter().max_by(|a, b| quality(*a).total_cmp(&quality(*b))).unwrap_or(WEIGHTS[0]);
        let method = format!("words + {best} · {}", contender.name);
        let added = row(&mut table, &method, asked, None, |question| scores(question, best));
        measured.push((contender.name.to_owned(), alone));
        measured.push((format!("words + {}", contender.name), added));
    }
    Ok(of_functions(&name, &measured).after(&table))
}

fn question((answer, function): (usize, &Function)) -> Option<Question<'_>> {
    let text = function.query.as_deref()?;
    let name: HashSet<String> = terms(&function.name).into_iter().collect();
    let is_unnamed = terms(text).iter().all(|term| !name.contains(term));
    Some(Question { text, answer, is_unnamed })
}

/// Adds a row to the table, and returns its MRR@10.
fn row(
    table: &mut String,
    method: &str,
    asked: &[Question<'_>],
    per_second: Option<f64>,
    scores: impl Fn(&Question<'_>) -> Vec<f32> + Sync,
) -> f64 {
    let all = figures(asked, &scores);
    let unnamed: Vec<&Question<'_>> = asked.iter().filter(|question| question.is_unnamed).collect();
    let unnamed =
        total(on_all_cores(&unnamed, |question| place(question, &scores(question))).expect(NO_PANIC));
    let speed = per_second.map(|speed| format!("{speed:.0}")).unwrap_or_default();
    let _ = writeln!(
        table,
        "| {method} | {:.3} | {:.3} | {:.3} | {:.3} | {speed} |",
        all.mrr(),
        all.first / all.count,
        all.in_ten / all.count,
        unnamed.in_ten / unnamed.count
    );
    all.mrr()
}

fn figures(asked: &[Question<'_>], scores: impl Fn(&Question<'_>) -> Vec<f32> + Sync) -> Figures {
    total(on_all_cores(asked, |question| place(question, &scores(question))).expect(NO_PANIC))
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

fn lexical(functions: &[Function]) -> Index {
    let mut index = Index::default();
    for function in functions {
        index.add(&Document::default().with(&function.name, NAME_EXTRA).with(&function.code, 1.0));
    }
    index
}
