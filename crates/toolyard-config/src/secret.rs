//! Recognises values that look like secrets, and hides them. Hiding too many is better than showing a token.

mod words;

pub use words::{args as without_secrets, credential, url as url_without_secrets};

/// Parts of names whose values are secrets.
const NAMES: [&str; 17] = [
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "connectionstring",
    "credential",
    "dsn",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "private",
    "secret",
    "session",
    "token",
];

/// How well-known tokens begin.
const PREFIXES: [&str; 14] = [
    "AIza",
    "AKIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "lin_api_",
    "ntn_",
    "sk-",
    "sk_",
    "xox",
];

const MASK: &str = "********";

/// Whether the value of something with this name is a secret, as far as one can tell. A reference to a variable
/// is none.
pub fn is_secret(name: &str, value: &str) -> bool {
    !value.is_empty() && !is_reference(value) && (is_secret_name(name) || looks_random(value))
}

/// Whether every part of it that matters is a variable: `${TOKEN}`, `Bearer ${TOKEN}`.
pub fn is_reference(value: &str) -> bool {
    let Some((before, rest)) = value.split_once("${") else { return false };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    !looks_random(before) && !looks_random(after)
}

/// Whether a name suggests a secret. Whole words are compared: `MONKEY` is not a key, `api-key` is one.
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let joined = words.concat();
    words.iter().any(|word| NAMES.contains(&word.trim_end_matches('s')) || NAMES.contains(&word.as_str()))
        || ["apikey", "password", "secret", "token", "connectionstring"]
            .iter()
            .any(|name| joined.contains(name))
}

fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        let starts = !letter.is_alphanumeric() || (letter.is_uppercase() && after_lower);
        if starts {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A known beginning, or long, without spaces or slashes, and of digits and letters mixed.
fn looks_random(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").or(value.strip_prefix("Basic ")).unwrap_or(value).trim();
    let long = value.len() >= 24 && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_+=.".contains(c));
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let mixed = digits >= 3 && value.chars().any(|c| c.is_ascii_alphabetic());
    (value.len() >= 12 && PREFIXES.iter().any(|prefix| value.starts_with(prefix)))
        || (long && mixed && !value.contains(".."))
}

/// A value as it may be shown: references as they are, anything else hidden.
pub fn masked(value: &str) -> String {
    if value.is_empty() || is_reference(value) { value.to_owned() } else { MASK.to_owned() }
}

/// Arguments as they may be shown.
pub fn masked_args(args: &[String]) -> Vec<String> {
    words::args(args, &mut |_, value| masked(value))
}

/// A URL as it may be shown.
pub fn masked_url(url: &str) -> String {
    words::url(url, &mut |_, value| masked(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_name_or_by_form() {
        let check = |name: &str, value: &str, expected: bool| {
            assert_eq!(is_secret(name, value), expected, "{name}={value}");
        };
        check("GITHUB_TOKEN", "x", true);
        check("apiKey", "x", true);
        check("OPENAI_API_KEYS", "x", true);
        check("DB_PASSWORD", "x", true);
        check("MONKEY", "banana", false);
        check("LOG_LEVEL", "debug", false);
        check("PATH", "/usr/bin:/bin", false);
        check("ANY", "ghp_0123456789abcdef", true);
        check("ANY", "a1b2c3d4e5f6a7b8c9d0e1f2", true);
        check("MODEL", "claude-with-a-very-long-name", false);
        check("GITHUB_TOKEN", "${GITHUB_TOKEN}", false);
        check("Authorization", "Bearer ${T}", false);
        check("Authorization", "Bearer ghp_0123456789abcdef${T}", true);
    }
}
