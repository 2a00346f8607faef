//! Text becomes terms: `readHTTPFile2` is `readhttpfile2`, `read`, `http`, `file` and `2`, each reduced to its stem.

/// Words that say nothing about what a document is about.
const STOP_WORDS: [&str; 25] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "if", "in", "is", "it", "its", "of",
    "on", "or", "that", "the", "this", "to", "when", "which", "with",
];

/// Endings that are cut, longest first.
const ENDINGS: [&str; 10] = ["ations", "ation", "ings", "ing", "ies", "ers", "ed", "er", "es", "s"];

/// The minimum length of a word after its ending is cut.
const MIN_STEM: usize = 4;

/// The terms of a text, in order, with repetitions. An identifier of several parts yields itself and its parts.
pub fn terms(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
        let parts: Vec<String> = parts(word).map(str::to_lowercase).collect();
        if parts.len() > 1 {
            push_term(&mut out, &word.to_lowercase());
        }
        for part in &parts {
            push_term(&mut out, part);
        }
    }
    out
}

fn push_term(out: &mut Vec<String>, word: &str) {
    if STOP_WORDS.binary_search(&word).is_err() {
        out.push(stem(word).to_owned());
    }
}

/// The parts of an identifier: split at `_`, where the case rises, and where letters and digits meet.
/// `HTTPServer` is `HTTP` and `Server`.
pub fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split('_').flat_map(|piece| {
        let mut rest = piece;
        std::iter::from_fn(move || {
            let (part, after) = rest.split_at(first_part(rest));
            rest = after;
            (!part.is_empty()).then_some(part)
        })
    })
}

/// The length of the first part of `text`, in bytes.
fn first_part(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    let Some((_, first)) = chars.next() else { return 0 };
    let mut previous = Kind::of(first);
    let mut is_acronym = false;
    while let Some((at, c)) = chars.next() {
        let kind = Kind::of(c);
        let next = chars.peek().map(|(_, next)| Kind::of(*next));
        let splits = match (previous, kind) {
            // `HTTPServer`: the last capital begins the next word.
            (Kind::Upper, Kind::Upper) => {
                is_acronym = true;
                next == Some(Kind::Lower)
            }
            // `Read` after its capital; `HTTPs` looks like the start of a new word, so it is one.
            (Kind::Upper, Kind::Lower) => is_acronym,
            (before, now) => before != now,
        };
        if splits {
            return at;
        }
        previous = kind;
    }
    text.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
}

impl Kind {
    fn of(c: char) -> Self {
        if c.is_numeric() {
            Self::Digit
        } else if c.is_uppercase() {
            Self::Upper
        } else {
            Self::Lower
        }
    }
}

/// A word without its ending: `indexes`, `indexing` and `index` have one stem.
fn stem(word: &str) -> &str {
    let stem = ENDINGS.iter().find_map(|ending| {
        let stem = word.strip_suffix(ending)?;
        (stem.len() >= MIN_STEM).then_some(stem)
    });
    let stem = stem.unwrap_or(word).trim_end_matches('e');
    if stem.is_empty() { word } else { stem }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text), expected, "{text:?}");
    }

    #[test]
    fn identifiers_are_split_and_kept() {
        check("readHTTPFile2", &["readhttpfile2", "read", "http", "fil", "2"]);
        check("read_file", &["read_fil", "read", "fil"]);
        check("files:readFile", &["fil", "readfil", "read", "fil"]);
        check("HTTPServer", &["httpserv", "http", "serv"]);
        check("X", &["x"]);
        check("_", &[]);
        check("é ÄÖü", &["é", "äöü", "ä", "öü"]);
    }

    #[test]
    fn words_of_one_stem_are_one_term() {
        for words in [["indexes", "indexing", "indexed"], ["caller", "calling", "called"]] {
            let stems: Vec<Vec<String>> = words.iter().map(|word| terms(word)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{stems:?}");
        }
        assert_ne!(terms("sing"), terms("s"));
    }

    #[test]
    fn stop_words_are_left_out_and_sorted() {
        check("the size of a list", &["siz", "list"]);
        assert!(STOP_WORDS.is_sorted());
    }

    proptest! {
        #[test]
        fn parts_are_the_word_without_underscores(word in "\\PC{0,40}") {
            prop_assert_eq!(parts(&word).collect::<String>(), word.replace('_', ""));
            prop_assert!(terms(&word).iter().all(|term| !term.is_empty()));
        }
    }
}
