//! A model2vec directory: one vector per word piece, averaged. Read from `model.safetensors` and `tokenizer.json`.
//!
//! Only `WordPiece` vocabularies are read, which the published models have. Accents are kept as they are: a piece with an
//! accent that the vocabulary lacks counts as unknown.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::normalize;

/// A larger file is not a word list.
const MOST_BYTES: u64 = 2 << 30;
/// A word with more characters counts as unknown, as in the tokenizers that made these vocabularies.
const LONGEST_WORD: usize = 100;

#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("cannot read `{0}`: {1}")]
    File(&'static str, std::io::Error),
    #[error("`{0}` is not valid: {1}")]
    Invalid(&'static str, String),
}

#[derive(Debug)]
pub(crate) struct WordVectors {
    pieces: HashMap<String, usize>,
    unknown: Option<usize>,
    is_lower: bool,
    dimensions: usize,
    /// One row per piece.
    rows: Vec<f32>,
    fingerprint: String,
}

#[derive(Deserialize)]
struct Tokenizer {
    model: Vocabulary,
    normalizer: Option<Normalizer>,
}

#[derive(Deserialize)]
struct Vocabulary {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: HashMap<String, usize>,
    unk_token: Option<String>,
}

#[derive(Deserialize)]
struct Normalizer {
    lowercase: Option<bool>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

const MODEL: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";

impl WordVectors {
    pub(crate) fn read(folder: &Path) -> Result<Self, ReadError> {
        let text = bytes_of(folder, TOKENIZER)?;
        let tokenizer: Tokenizer = serde_json::from_slice(&text)
            .map_err(|error| ReadError::Invalid(TOKENIZER, error.to_string()))?;
        if tokenizer.model.kind.as_deref().is_some_and(|kind| kind != "WordPiece") {
            let kind = tokenizer.model.kind.unwrap_or_default();
            return Err(ReadError::Invalid(
                TOKENIZER,
                format!("its type is {kind}, only WordPiece is known"),
            ));
        }
        let model = bytes_of(folder, MODEL)?;
        let (rows, dimensions) = rows(&model)?;
        let last = tokenizer.model.vocab.values().max().copied().unwrap_or(0);
        if (last + 1) * dimensions > rows.len() {
            return Err(ReadError::Invalid(
                MODEL,
                "it has fewer vectors than the vocabulary has pieces".into(),
            ));
        }
        let unknown = tokenizer.model.unk_token.and_then(|token| tokenizer.model.vocab.get(&token).copied());
        Ok(Self {
            unknown,
            is_lower: tokenizer.normalizer.and_then(|normalizer| normalizer.lowercase).unwrap_or(true),
            pieces: tokenizer.model.vocab,
            dimensions,
            rows,
            fingerprint: data_encoding::HEXLOWER.encode(&Sha256::digest(&model))[..16].to_owned(),
        })
    }

    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The mean of the vectors of all known pieces, one long.
    pub(crate) fn encode(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimensions];
        for piece in self.pieces_of(text) {
            let row = &self.rows[piece * self.dimensions..][..self.dimensions];
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += x;
            }
        }
        normalize(&mut sum);
        sum
    }

    fn pieces_of(&self, text: &str) -> Vec<usize> {
        let text = if self.is_lower { text.to_lowercase() } else { text.to_owned() };
        let mut pieces = Vec::new();
        for word in words(&text) {
            pieces.extend(self.split(word));
        }
        pieces.retain(|piece| Some(*piece) != self.unknown);
        pieces
    }

    /// The longest known pieces of a word from its start; nothing if a rest is unknown.
    fn split(&self, word: &str) -> Vec<usize> {
        let mut pieces = Vec::new();
        let mut rest = word;
        if word.chars().count() > LONGEST_WORD {
            return pieces;
        }
        while !rest.is_empty() {
            let prefix = if rest.len() == word.len() { "" } else { "##" };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let found = ends.into_iter().find_map(|end| {
                self.pieces.get(&format!("{prefix}{}", &rest[..end])).map(|piece| (*piece, end))
            });
            let Some((piece, end)) = found else { return Vec::new() };
            pieces.push(piece);
            rest = &rest[end..];
        }
        pieces
    }
}

/// Runs of letters and digits, and each other character that is not a space.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() {
            start.get_or_insert(at);
            continue;
        }
        words.extend(start.take().map(|start: usize| &text[start..at]));
        if !c.is_whitespace() {
            words.push(&text[at..at + c.len_utf8()]);
        }
    }
    words.extend(start.map(|start| &text[start..]));
    words
}

fn bytes_of(folder: &Path, name: &'static str) -> Result<Vec<u8>, ReadError> {
    let path = folder.join(name);
    let size = std::fs::metadata(&path).map_err(|error| ReadError::File(name, error))?.len();
    if size > MOST_BYTES {
        return Err(ReadError::Invalid(name, format!("it has {size} bytes")));
    }
    std::fs::read(path).map_err(|error| ReadError::File(name, error))
}

/// The table of vectors and the length of a row.
fn rows(file: &[u8]) -> Result<(Vec<f32>, usize), ReadError> {
    let invalid = |why: &str| ReadError::Invalid(MODEL, why.to_owned());
    let (length, rest) = file.split_first_chunk::<8>().ok_or_else(|| invalid("it is too short"))?;
    let length =
        usize::try_from(u64::from_le_bytes(*length)).map_err(|_| invalid("its header is too long"))?;
    let header = rest.get(..length).ok_or_else(|| invalid("its header is cut off"))?;
    let header: HashMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| ReadError::Invalid(MODEL, error.to_string()))?;
    let tensor = header.get("embeddings").ok_or_else(|| invalid("it has no tensor `embeddings`"))?;
    let tensor: Tensor = serde_json::from_value(tensor.clone())
        .map_err(|error| ReadError::Invalid(MODEL, error.to_string()))?;
    let [count, dimensions] = tensor.shape[..] else { return Err(invalid("its table has no rows")) };
    let [from, to] = tensor.data_offsets;
    let data = rest[length..].get(from..to).ok_or_else(|| invalid("its data is cut off"))?;
    let rows: Vec<f32> = match tensor.dtype.as_str() {
        "F32" => data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        "F16" => data.as_chunks::<2>().0.iter().map(|bytes| half(u16::from_le_bytes(*bytes))).collect(),
        other => return Err(invalid(&format!("numbers of type {other} are not known"))),
    };
    if dimensions == 0 || count.checked_mul(dimensions) != Some(rows.len()) {
        return Err(invalid("its table does not have the size that it states"));
    }
    Ok((rows, dimensions))
}

/// A number of half precision.
fn half(bits: u16) -> f32 {
    let sign = bits >> 15;
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 1023);
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    };
    if sign == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, dtype: &str, rows: &[u8], pieces: &str) {
        let size = rows.len();
        let header = format!(
            r#"{{"embeddings":{{"dtype":"{dtype}","shape":[5,2],"data_offsets":[0,{size}]}},"__metadata__":{{"a":"b"}}}}"#
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(rows);
        std::fs::write(folder.join(MODEL), file).unwrap();
        let vocabulary = serde_json::json!({ "[UNK]": 0, "read": 1, "file": 2, "##er": 3, "(": 4 });
        let model = serde_json::json!({ "type": pieces, "unk_token": "[UNK]", "vocab": vocabulary });
        let text = serde_json::json!({ "model": model, "normalizer": { "lowercase": true } }).to_string();
        std::fs::write(folder.join(TOKENIZER), text).unwrap();
    }

    const ROWS: [f32; 10] = [9.0, 9.0, 1.0, 0.0, 0.0, 1.0, 0.0, 3.0, 1.0, 1.0];

    #[test]
    fn words_are_cut_into_the_longest_known_pieces_and_averaged() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<u8> = ROWS.iter().flat_map(|x| x.to_le_bytes()).collect();
        write(folder.path(), "F32", &rows, "WordPiece");
        let vectors = WordVectors::read(folder.path()).unwrap();
        assert_eq!(vectors.pieces_of("Reader (file) missing"), [1, 3, 4, 2], "unknown words are left out");
        assert_eq!(vectors.encode("read"), [1.0, 0.0]);
        let both = vectors.encode("read file");
        assert!((both[0] - 0.5_f32.sqrt()).abs() < 1e-6 && (both[1] - both[0]).abs() < 1e-6, "{both:?}");
        assert_eq!(vectors.encode("?"), [0.0, 0.0]);
    }

    #[test]
    fn numbers_of_half_precision_are_read() {
        for (bits, number) in
            [(0x3C00, 1.0), (0xC000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8)]
        {
            assert!((half(bits) - number).abs() < f32::EPSILON, "{bits:x}");
        }
        assert!(half(0x7C00).is_infinite() && half(0x7E00).is_nan());
    }

    #[test]
    fn a_damaged_or_foreign_model_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let reason = |folder: &Path| WordVectors::read(folder).map(|_| ()).unwrap_err().to_string();
        assert!(reason(folder.path()).starts_with("cannot read `tokenizer.json`"));
        write(folder.path(), "F32", &[0; 40], "Unigram");
        assert!(reason(folder.path()).contains("only WordPiece"));
        write(folder.path(), "F32", &[0; 36], "WordPiece");
        assert!(reason(folder.path()).contains("does not have the size"));
        write(folder.path(), "I8", &[0; 10], "WordPiece");
        assert!(reason(folder.path()).contains("type I8"));
        std::fs::write(folder.path().join(MODEL), [255; 20]).unwrap();
        assert!(reason(folder.path()).contains("header"));
    }
}
