//! Secrets are removed from everything that leaves a transcript.

use std::sync::LazyLock;

use regex_lite::Regex;

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
}
