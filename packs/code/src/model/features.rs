//! Text becomes features: known words by their number in the vocabulary, unknown ones by hashes of their letters.

use std::collections::HashMap;

/// Parts of identifiers are cut to this many bytes.
const MAX_PART: usize = 24;
/// Unknown words are hashed in pieces of this many bytes.
const GRAM: usize = 4;
/// Where a word can be: in the name, in the first line, or in the rest.
pub(super) const FIELDS: usize = 3;

/// The words that a model knows.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) words: HashMap<Box<str>, u32>,
    /// How many rows unknown words share.
    pub(super) buckets: u32,
}

/// One row of the model and how often it occurs in each field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feature {
    pub(super) row: usize,
    counts: [u8; FIELDS],
}

impl Feature {
    /// The logarithms of the counts.
    pub(super) fn log_counts(&self) -> [f32; FIELDS] {
        self.counts.map(|count| f32::from(count).ln_1p())
    }
}

/// Features in the order of their first occurrence.
pub(super) struct Features<'a> {
    vocabulary: &'a Vocabulary,
    positions: HashMap<u32, usize>,
    list: Vec<Feature>,
}

impl<'a> Features<'a> {
    pub(super) fn new(vocabulary: &'a Vocabulary) -> Self {
        Self { vocabulary, positions: HashMap::new(), list: Vec::new() }
    }

    pub(super) fn into_list(self) -> Vec<Feature> {
        self.list
    }

    pub(super) fn add(&mut self, text: &str, field: usize) {
        for_each_part(text, |part| match self.vocabulary.words.get(part) {
            Some(row) => self.count(*row, field),
            None => self.add_unknown(part, field),
        });
    }

    /// Each distinct piece of `<part>` counts once.
    fn add_unknown(&mut self, part: &str, field: usize) {
        let marked = format!("<{part}>");
        let known = u32::try_from(self.vocabulary.words.len()).unwrap_or(u32::MAX);
        let grams = marked.as_bytes().windows(GRAM.min(marked.len()));
        let mut buckets: Vec<u32> = grams.map(|gram| fnv1a(gram) % self.vocabulary.buckets).collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in buckets {
            self.count(known + bucket, field);
        }
    }

    fn count(&mut self, row: u32, field: usize) {
        let at = *self.positions.entry(row).or_insert_with(|| {
            self.list.push(Feature { row: row as usize, counts: [0; FIELDS] });
            self.list.len() - 1
        });
        let count = &mut self.list[at].counts[field];
        *count = count.saturating_add(1);
    }
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Calls `f` with every part of every identifier in lower case. Only ASCII letters and digits are read, as in training.
fn for_each_part(text: &str, mut f: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut lower = String::with_capacity(MAX_PART);
    while at < bytes.len() {
        let end = part_end(bytes, at);
        if end > at {
            lower.clear();
            lower.push_str(&text[at..end.min(at + MAX_PART)]);
            lower.make_ascii_lowercase();
            f(&lower);
        }
        at = end.max(at + 1);
    }
}

/// Where the part that begins at `at` ends; `at` itself if none begins there.
fn part_end(bytes: &[u8], at: usize) -> usize {
    let run = |from: usize, is_in: fn(&u8) -> bool| {
        from + bytes[from..].iter().take_while(|byte| is_in(byte)).count()
    };
    match bytes[at] {
        b'0'..=b'9' => run(at, u8::is_ascii_digit),
        b'a'..=b'z' => run(at, u8::is_ascii_lowercase),
        b'A'..=b'Z' => {
            let capitals = run(at, u8::is_ascii_uppercase);
            let lower = run(capitals, u8::is_ascii_lowercase);
            match (capitals - at, lower - capitals) {
                (_, 0) => capitals,
                (1, _) => lower,
                // `HTTPServer`: the last capital begins the next part.
                _ => capitals - 1,
            }
        }
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_each_part(text, |part| out.push(part.to_owned()));
        out
    }

    #[test]
    fn identifiers_are_split_where_case_and_kind_change() {
        assert_eq!(parts("readHTTPFile2 é SNAKE_case"), ["read", "http", "file", "2", "snake", "case"]);
        assert_eq!(parts("X HTTP aB"), ["x", "http", "a", "b"]);
        assert_eq!(parts(&"a".repeat(30)), ["a".repeat(24)]);
    }
}
