//! Searches the bytes of lines for a word, ignoring case, without copying the line.

/// The bytes of texts and of JSON, the most frequent ones first. Other bytes are rare.
const FREQUENT: &[u8] = b"\" etaoinsrhldcumfpgwybv0-1:_.2k3xj456789qz";

pub(crate) struct Filter {
    /// In lower case.
    word: Vec<u8>,
    /// The position of its rarest byte, which is searched first.
    rare_at: usize,
}

impl Filter {
    /// The word must not be empty.
    pub(crate) fn new(word: &str) -> Self {
        let word = word.to_ascii_lowercase().into_bytes();
        let rank = |byte: u8| FREQUENT.iter().position(|other| *other == byte).unwrap_or(FREQUENT.len());
        let rare_at = (0..word.len()).max_by_key(|at| rank(word[*at])).unwrap_or_default();
        Self { word, rare_at }
    }

    pub(crate) fn len(&self) -> usize {
        self.word.len()
    }

    pub(crate) fn is_in(&self, line: &[u8]) -> bool {
        let rare = self.word[self.rare_at];
        memchr::memchr2_iter(rare, rare.to_ascii_uppercase(), line).any(|at| {
            let begin = at.checked_sub(self.rare_at);
            let found = begin.and_then(|begin| line.get(begin..begin + self.word.len()));
            found.is_some_and(|found| found.eq_ignore_ascii_case(&self.word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_any_case_and_anywhere_in_a_line() {
        let check = |word: &str, line: &str, expected: bool| {
            assert_eq!(Filter::new(word).is_in(line.as_bytes()), expected, "{word} in {line}");
        };
        check("needle", "the needle", true);
        check("needle", "NeEdLe first", true);
        check("needle", "a needl", false);
        check("needle", "eedle", false);
        check("needle", "nneedlee", true);
        check("a", "bA", true);
        check("a", "", false);
        check("x-y_z.1", "\"X-Y_Z.1\"", true);
        check("ee", "eE", true);
        check("née", "x", false);
    }
}
