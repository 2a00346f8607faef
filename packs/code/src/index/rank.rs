//! How well a chunk answers a question: its words (BM25) and its meaning (the cosine of two vectors), added up.
//!
//! The weight of meaning depends on how the question is put. A name is found by its words. A question that reads like
//! a doc comment is found by its meaning. Prose is in between. The weights were measured on such questions.

use std::path::Path;

use super::chunk::Chunk;
use toolyard_rank::{Document, terms};

/// The words of a chunk's name, which is in its text once, count three times in all.
pub(crate) const NAME_EXTRA: f32 = 2.0;
/// So do the words of its path.
const PATH_WEIGHT: f32 = 3.0;
/// Tests, generated and vendored code rank lower.
const SECONDARY: f32 = 0.75;

/// Words of paths that say nothing.
const GENERIC: [&str; 20] = [
    "apache", "com", "common", "crates", "go", "google", "index", "init", "java", "js", "lib", "main", "mod",
    "org", "packages", "pkg", "py", "rs", "src", "ts",
];

/// How a question is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Symbol,
    Prose,
    DocComment,
}

impl Form {
    pub(crate) fn of(query: &str) -> Self {
        let query = query.trim();
        let words: Vec<&str> = query.split_whitespace().collect();
        let is_code = |word: &&str| word.contains(['_', ':', '(', '.', '/']) || has_inner_capital(word);
        if words.len() <= 1 || words.iter().all(is_code) {
            return Self::Symbol;
        }
        let first = words[0].to_lowercase();
        let is_statement = first.len() > 3 && first.ends_with('s') && !first.ends_with("ss");
        if query.ends_with('.') || is_statement { Self::DocComment } else { Self::Prose }
    }

    /// What the cosine is multiplied by before it is added to the score of the words.
    pub(crate) fn weight_of_meaning(self) -> f32 {
        match self {
            Self::Symbol => 8.0,
            Self::Prose => 20.0,
            Self::DocComment => 96.0,
        }
    }
}

fn has_inner_capital(word: &str) -> bool {
    word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
}

/// The words of a chunk for the index.
pub(crate) fn document(path: &Path, chunk: &Chunk) -> Document {
    Document::default()
        .with(chunk.own_name(), NAME_EXTRA)
        .with(&path_words(path), PATH_WEIGHT)
        .with(&chunk.doc, 1.0)
        .with(&chunk.text, 1.0)
}

/// The text of a chunk for the model: its first line, the words of its path, its comment, and the rest.
pub(crate) fn text_for_model(path: &Path, chunk: &Chunk) -> String {
    let (first, rest) = chunk.text.split_once('\n').unwrap_or((&chunk.text, ""));
    format!("{first} {}\n{}\n{rest}", path_words(path), chunk.doc)
}

pub(crate) fn path_words(path: &Path) -> String {
    let text = path.to_string_lossy();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .flat_map(toolyard_rank::parts)
        .filter(|word| GENERIC.binary_search(&word.to_lowercase().as_str()).is_err())
        .collect();
    words.join(" ")
}

/// What a score is multiplied by because of where the file is.
pub(crate) fn weight_of_path(path: &Path) -> f32 {
    if is_secondary(path) { SECONDARY } else { 1.0 }
}

fn is_secondary(path: &Path) -> bool {
    const FOLDERS: [&str; 16] = [
        "__tests__",
        "benches",
        "example",
        "examples",
        "fixtures",
        "generated",
        "golden",
        "mocks",
        "node_modules",
        "snapshots",
        "test",
        "testdata",
        "tests",
        "third_party",
        "vendor",
        "vendored",
    ];
    let is_folder = |part: std::path::Component<'_>| {
        part.as_os_str().to_str().is_some_and(|name| FOLDERS.binary_search(&name).is_ok())
    };
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_test =
        ["_test.", ".test.", ".spec.", ".min.", "_pb2.", ".pb."].iter().any(|mark| name.contains(mark));
    path.components().any(is_folder) || is_test || name.starts_with("test_") || name.starts_with("tests.")
}

/// A vector of length one with its numbers from −127 to 127.
#[expect(clippy::cast_possible_truncation, reason = "the numbers of a vector of length one are from -1 to 1")]
pub(crate) fn quantized(vector: &[f32]) -> Box<[i8]> {
    vector.iter().map(|x| (x.clamp(-1.0, 1.0) * 127.0).round() as i8).collect()
}

/// The cosine of a question's vector and a stored one.
pub(crate) fn cosine(query: &[f32], stored: &[i8]) -> f32 {
    let ((query, query_rest), (stored, stored_rest)) = (query.as_chunks::<8>(), stored.as_chunks::<8>());
    let mut sums = [0.0_f32; 8];
    for (query, stored) in query.iter().zip(stored) {
        for at in 0..8 {
            sums[at] += query[at] * f32::from(stored[at]);
        }
    }
    let rest: f32 = query_rest.iter().zip(stored_rest).map(|(a, b)| a * f32::from(*b)).sum();
    (sums.iter().sum::<f32>() + rest) / 127.0
}

/// Whether a query has words to look for at all.
pub(crate) fn has_words(query: &str) -> bool {
    !terms(query).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_question_is_seen() {
        for (query, form) in [
            ("readFile", Form::Symbol),
            ("read_file std::fs", Form::Symbol),
            ("kill a child process", Form::Prose),
            ("where are tokens refreshed", Form::Prose),
            ("class names", Form::Prose),
            ("Returns the number of bytes", Form::DocComment),
            ("Number of bytes in the file.", Form::DocComment),
        ] {
            assert_eq!(Form::of(query), form, "{query}");
        }
    }

    #[test]
    fn paths_have_words_and_a_weight() {
        assert_eq!(
            path_words(Path::new("crates/toolyard-core/src/upstreamPool.rs")),
            "toolyard core upstream Pool"
        );
        for (path, weight) in [
            ("src/pool.rs", 1.0),
            ("src/latest.rs", 1.0),
            ("tests/pool.rs", SECONDARY),
            ("a/vendor/b.js", SECONDARY),
            ("pool_test.go", SECONDARY),
            ("test_pool.py", SECONDARY),
        ] {
            assert!((weight_of_path(Path::new(path)) - weight).abs() < f32::EPSILON, "{path}");
        }
        assert!(GENERIC.is_sorted());
    }

    #[test]
    fn quantizing_keeps_the_cosine() {
        let model = crate::model::Model::fast().unwrap();
        let (query, code) =
            (model.query("open a file"), model.document("open_file", "fn open_file() {}\nread()"));
        let exact: f32 = query.iter().zip(&code).map(|(a, b)| a * b).sum();
        assert!((cosine(&query, &quantized(&code)) - exact).abs() < 0.01);
    }
}
