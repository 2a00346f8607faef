//! Measures how well questions find code, with the ranking that the tools use. Only for `cargo xtask search`.
//!
//! Two kinds of questions: first lines of doc comments, which ask for a function ([`functions`]), and subjects of
//! commits, which ask for the files that the commit changed ([`commits`]).

mod commits;
mod functions;
mod goals;
mod plain;

use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

use serde::Deserialize;

use crate::config::{EmbeddingsConfig, ModelChoice, Provider};
use crate::embed::{Encoder, Passage};
use crate::index::rank::{cosine, quantized};

pub use commits::commits;
pub use functions::functions;
pub use goals::Report;

/// How many documents show the speed of a built-in model on one thread.
const TIMED: usize = 1000;

/// A function of a set, and the question that it answers.
#[derive(Deserialize)]
struct Function {
    name: String,
    code: String,
    query: Option<String>,
}

/// A model that ranks by meaning, and its name in tables.
#[derive(Debug)]
pub struct Contender {
    name: &'static str,
    encoder: Encoder,
}

/// The built-in models, and `MiniLM` if a service at this address has it.
pub fn contenders(minilm: Option<&str>) -> Result<Vec<Contender>, Box<dyn Error>> {
    let built_in = [("static128", ModelChoice::Fast), ("tiny1x128", ModelChoice::Precise)];
    let mut list = Vec::new();
    for (name, choice) in built_in {
        let encoder = Encoder::built_in(choice).map_err(|error| error.message().to_owned())?;
        list.push(Contender { name, encoder });
    }
    if let Some(address) = minilm {
        let config = EmbeddingsConfig {
            provider: Provider::Openai,
            model: Some("all-MiniLM-L6-v2".to_owned()),
            base_url: Some(address.to_owned()),
            key: None,
            path: None,
            query_prefix: None,
            passage_prefix: None,
        };
        let encoder =
            Encoder::configured(&config, "`--minilm`").map_err(|error| error.message().to_owned())?;
        list.push(Contender { name: "MiniLM-L6", encoder });
    }
    Ok(list)
}

/// The vectors of a set's documents and questions.
struct Vectors {
    documents: Vec<Box<[i8]>>,
    questions: HashMap<String, Vec<f32>>,
    per_second: f64,
}

impl Vectors {
    fn of(encoder: &Encoder, passages: &[Passage], questions: &[&str]) -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let timed = passages.len().min(TIMED);
        let started = Instant::now();
        let first = passages[..timed].iter().filter_map(|passage| encoder.at_once(passage)).count();
        let mut per_second = speed(first, started);
        let started = Instant::now();
        let mut documents = Vec::with_capacity(passages.len());
        for batch in passages.chunks(encoder.batch()) {
            let vectors =
                runtime.block_on(encoder.passages(batch)).map_err(|error| error.message().to_owned())?;
            documents.extend(vectors.iter().map(|vector| quantized(vector)));
        }
        if first == 0 {
            per_second = speed(documents.len(), started);
        }
        let mut vectors = HashMap::new();
        for question in questions {
            let vector =
                runtime.block_on(encoder.query(question)).map_err(|error| error.message().to_owned())?;
            vectors.insert((*question).to_owned(), vector);
        }
        Ok(Self { documents, questions: vectors, per_second })
    }

    fn scores(&self, question: &str) -> Vec<f32> {
        let Some(vector) = self.questions.get(question) else { return vec![0.0; self.documents.len()] };
        self.documents.iter().map(|document| cosine(vector, document)).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "sets have thousands of functions")]
fn speed(count: usize, started: Instant) -> f64 {
    count as f64 / started.elapsed().as_secs_f64().max(1e-9)
}

/// Adds the similarity of meaning to the scores of words.
fn fused(words: &[f32], meaning: &[f32], weight: f32) -> Vec<f32> {
    words.iter().zip(meaning).map(|(words, meaning)| words + weight * meaning.max(0.0)).collect()
}
