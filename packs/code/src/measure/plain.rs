//! BM25 over words as they are written: what splitting and stemming are compared with.

use std::collections::{HashMap, HashSet};

use super::Function;

/// An index of words in lower case.
pub(super) struct Plain {
    documents: Vec<HashMap<String, f32>>,
    lengths: Vec<f32>,
    mean: f32,
    containing: HashMap<String, f32>,
}

fn plain_words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

pub(super) fn plain(functions: &[Function]) -> Plain {
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
    pub(super) fn scores(&self, query: &str) -> Vec<f32> {
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
