//! Secrets are removed from everything that leaves a transcript, before the text is cut: half a secret has no form by
//! which it could be known.

use std::sync::LazyLock;

use regex_lite::Regex;

/// How much text beside a part is searched for secrets that reach into the part. No token in use is longer; keys are
/// found at any distance up to `LONGEST_KEY`.
const MARGIN: usize = 4 << 10;
const LONGEST_KEY: usize = 64 << 10;
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";

/// Forms of keys and tokens that are in use, and what follows a word for a secret.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs]|npm|pypi|hf|AIza|ya29)[-_.][A-Za-z0-9_.-]{12,}",
        r"\bAIza[A-Za-z0-9_-]{20,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{12,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        r"://[^/\s:@]+:[^/\s:@]+@",
        r#"(?i)\b[A-Z0-9_-]*(?:api[_-]?key|secret|token|passw(?:or)?d)["']?\s*[:=]\s*["']?[^\s"',;]{6,}"#,
    ];
    patterns.iter().map(|pattern| Regex::new(pattern).expect("the patterns are constant")).collect()
});

pub(crate) fn redact(text: &str) -> String {
    let mut text = text.to_owned();
    for secret in SECRETS.iter() {
        if secret.is_match(&text) {
            text = secret.replace_all(&text, "[redacted]").into_owned();
        }
    }
    text
}

/// The first `most` characters of a text, without secrets, and `…` if there are more.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at + MARGIN);
    let kept = up_to(text, end);
    let redacted = redact(kept);
    match redacted.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &redacted[..at]),
        None if kept.len() < text.len() => format!("{redacted}…"),
        None => redacted,
    }
}

/// The text around a place, without secrets.
pub(crate) fn around(text: &str, at: usize) -> String {
    let text = up_to(text, at.saturating_add(MARGIN));
    let begin = text.floor_char_boundary(at.saturating_sub(MARGIN));
    // The margin may begin within the first line of a key.
    let before = &text[..text.floor_char_boundary(begin + KEY_BEGIN.len())];
    let key = before.rfind(KEY_BEGIN).filter(|key| *key <= begin && begin - key < LONGEST_KEY);
    let open_key = key.filter(|key| !text[*key..begin].contains(KEY_END));
    let torn = || text[begin..].find(char::is_whitespace).filter(|torn| begin + torn < at);
    match open_key {
        Some(key) => redact(&text[key..]),
        None if begin == 0 => redact(text),
        // Without a token that is cut at the margin.
        None => redact(&text[begin + torn().unwrap_or(0)..]),
    }
}

/// The text up to about a place, without a token that is cut there.
fn up_to(text: &str, end: usize) -> &str {
    if end >= text.len() {
        return text;
    }
    let kept = &text[..text.floor_char_boundary(end)];
    let torn = kept.len() - kept.rfind(char::is_whitespace).unwrap_or(0);
    // A long text without spaces is not a token.
    if torn < MARGIN { &kept[..kept.len() - torn] } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_are_removed_and_plain_text_stays() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text), expected);
        check(&format!("use sk-{} now", "a1b2".repeat(6)), "use [redacted] now");
        check("ghp_abcdefghijklmnopqrstuv", "[redacted]");
        check("AKIAIOSFODNN7EXAMPLE", "[redacted]");
        check("Authorization: Bearer abcdefghijklmnop", "Authorization: [redacted]");
        check("postgres://ann:hunter2@db/x", "postgres[redacted]db/x");
        check("export API_KEY='abcdef123456'", "export [redacted]'");
        check("{\"password\": \"hunter22\"}", "{\"[redacted]\"}");
        check("the token of the parser is a word", "the token of the parser is a word");
        check("fn secret() -> u8 { 7 }", "fn secret() -> u8 { 7 }");
    }

    /// A private key of so many lines, none of which has a form of its own.
    fn key(lines: usize) -> String {
        let body = "MIIEvQIBADANBgkqhkiG9w0B\n".repeat(lines);
        format!("-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----")
    }

    #[test]
    fn a_secret_that_crosses_the_end_of_the_shown_text_is_removed_as_a_whole() {
        for secret in [key(20), key(500), "sk-".to_owned() + &"a1b2".repeat(10)] {
            for before in 0..60 {
                let text = format!("{} {secret} and more {}", "x".repeat(before), "word ".repeat(5_000));
                let shown = beginning(&text, 60);
                assert!(!shown.contains("MII") && !shown.contains("sk-"), "{before}: {shown}");
                assert!(shown.ends_with('…') && shown.chars().count() <= 61, "{before}: {shown}");
            }
        }
        assert_eq!(beginning("three short words", 11), "three short…");
        assert_eq!(beginning("three short words", 17), "three short words");
    }

    #[test]
    fn a_secret_that_reaches_into_the_text_around_a_word_is_removed_as_a_whole() {
        for lines in [1, 7, 170, 175, 500] {
            for filler in [0, 1, 100, 4_000, 5_000] {
                let (before, after) = ("tell ".repeat(filler), "more ".repeat(filler));
                let text = format!("{before}{} needle {} {after}", key(lines), key(lines));
                let shown = around(&text, text.find("needle").unwrap());
                assert!(shown.contains("needle") && !shown.contains("MII"), "{lines} {filler}: {shown}");
            }
        }
        for pad in 3_600..4_100 {
            let text = format!("tell {} {}needle", key(10), "x".repeat(pad));
            let shown = around(&text, text.find("needle").unwrap());
            assert!(!shown.contains("MII"), "{pad}: {shown}");
        }
        let dense = format!("{}needle{}", "x".repeat(10_000), "y".repeat(10_000));
        assert!(around(&dense, 10_000).contains("needle"));
    }
}
