//! Every Rust file opens with `//!` and a sentence about its purpose.

use super::Findings;
use super::source::Source;

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    for source in sources {
        if !has_head(&source.text) {
            findings.error(&source.path, "open the file with `//!` and one sentence about its purpose");
        }
    }
}

/// One word alone is not enough.
fn has_head(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("//! ").is_some_and(|sentence| sentence.split_whitespace().count() >= 3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_head_is_a_sentence_on_the_first_line() {
        let check = |text: &str, expected: bool| assert_eq!(super::has_head(text), expected, "{text:?}");
        check("//! Parses one line.\nfn a() {}", true);
        check("\n//! Parses one line.", false);
        check("//! placeholder", false);
        check("// Parses one line.", false);
        check("", false);
    }
}
