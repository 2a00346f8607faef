//! Turns functions and queries into vectors of 128 numbers, so that related ones point the same way.
//!
//! The weights are our own (`model/*.tyce`): one vector per word, and in the precise model one transformer layer over
//! the words. Reading them needs no tokenizer and no tensor library. `docs/design/code-model.md` describes how they
//! were trained and what they reach.

mod features;
mod file;
mod transformer;

use features::{Feature, Features};
pub(crate) use file::ModelError;
use file::{Reader, Weights};
use transformer::Transformer;

/// Which side of a comparison a text is on. Words weigh differently in questions and in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Query,
    Document,
}

/// A model that is read and ready.
#[derive(Debug)]
pub(crate) struct Model {
    weights: Weights,
    transformer: Option<Transformer>,
}

impl Model {
    /// The fast model: about 100,000 functions a second.
    pub(crate) fn fast() -> Result<Self, ModelError> {
        Self::read(include_bytes!("../model/static128.tyce"))
    }

    /// The precise model: about 1,500 functions a second, better where the query reads like a doc comment.
    pub(crate) fn precise() -> Result<Self, ModelError> {
        Self::read(include_bytes!("../model/tiny1x128.tyce"))
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ModelError> {
        let mut reader = Reader::new(bytes)?;
        let weights = Weights::read(&mut reader)?;
        let transformer = match weights.shape.layers {
            0 => None,
            _ => Some(Transformer::read(&mut reader, &weights.shape)?),
        };
        reader.finish()?;
        Ok(Self { weights, transformer })
    }

    /// The vector of a piece of code. Its name and its first line count as fields of their own.
    pub(crate) fn document(&self, name: &str, code: &str) -> Vec<f32> {
        let (first_line, rest) = code.split_at(code.find('\n').unwrap_or(code.len()));
        let mut features = Features::new(&self.weights.vocabulary);
        features.add(name, 0);
        features.add(first_line, 1);
        features.add(rest, 2);
        self.encode(&features.into_list(), Side::Document)
    }

    /// The vector of a question.
    pub(crate) fn query(&self, text: &str) -> Vec<f32> {
        let mut features = Features::new(&self.weights.vocabulary);
        features.add(text, 2);
        self.encode(&features.into_list(), Side::Query)
    }

    /// A vector of length one, or of zeros if the text has no words.
    fn encode(&self, features: &[Feature], side: Side) -> Vec<f32> {
        let mut vector = match &self.transformer {
            None => self.weights.weighted_sum(features, side),
            Some(transformer) => transformer.encode(&self.weights, features, side),
        };
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 {
            for x in &mut vector {
                *x /= length;
            }
        }
        vector
    }
}

#[cfg(test)]
mod tests;
