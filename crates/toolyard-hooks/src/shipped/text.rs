//! Hooks that change text: shorter, without secrets, without what models stumble over.

use regex_lite::Regex;
use serde_json::Value;

use super::{Judge, Settings, prompt, with_texts};
use crate::{Event, Point, Verdict};

/// `max_chars` (20000), `keep` = "ends" or "tail".
pub(super) fn truncate(settings: &mut Settings) -> Result<Judge, String> {
    let most = settings.size("max_chars", 20_000)?;
    let keep = settings.text("keep", "ends")?;
    let shorten: fn(&str, usize) -> Option<String> = match keep.as_str() {
        "ends" => middle_cut,
        "tail" => tail_only,
        _ => return Err("`keep` must be \"ends\" or \"tail\"".to_owned()),
    };
    Ok(Box::new(move |event| {
        let shortened = with_texts(event, |text| shorten(text, most));
        shortened.map_or_else(Verdict::pass, |result| Verdict::change("result", result))
    }))
}

fn middle_cut(text: &str, most: usize) -> Option<String> {
    let left_out = text.chars().count().checked_sub(most).filter(|n| *n > 0)?;
    let head = most.div_ceil(2);
    let start = &text[..at_char(text, head)];
    let end = &text[at_char(text, head + left_out)..];
    Some(format!(
        "{start}\n\n[… {left_out} characters left out; ask for a smaller part to see them …]\n\n{end}"
    ))
}

fn tail_only(text: &str, most: usize) -> Option<String> {
    let left_out = text.chars().count().checked_sub(most).filter(|n| *n > 0)?;
    let end = &text[at_char(text, left_out)..];
    Some(format!(
        "[… {left_out} characters left out before this; ask for a smaller part to see them …]\n\n{end}"
    ))
}

fn at_char(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Forms that secrets have. Names of settings are followed by their value.
const SECRETS: &[&str] = &[
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{36,}\b",
    r"\bgithub_pat_[A-Za-z0-9_]{40,}\b",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\bnpm_[A-Za-z0-9]{36}\b",
    r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}",
    r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*",
];
const ASSIGNMENT: &str = r#"(?i)\b((?:[A-Za-z0-9_-]*[_-])?(?:api[_-]?key|secret|token|passwd|password|access[_-]?key)["']?\s*[:=]\s*["']?)([^\s"'`,;&]{8,})"#;

/// `with` ("[redacted]").
pub(super) fn redact(settings: &mut Settings) -> Result<Judge, String> {
    let with = settings.text("with", "[redacted]")?;
    let compile = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
    let forms = SECRETS.iter().map(|pattern| compile(pattern)).collect::<Result<Vec<_>, _>>()?;
    let assignment = compile(ASSIGNMENT)?;
    let replace = move |text: &str| {
        let mut found = assignment.replace_all(text, format!("${{1}}{}", with.replace('$', "$$")));
        for form in &forms {
            if form.is_match(&found) {
                found = form.replace_all(&found, with.replace('$', "$$")).into_owned().into();
            }
        }
        (found != text).then(|| found.into_owned())
    };
    Ok(Box::new(move |event| match event.point {
        Point::PostToolCall => without_secrets(event, &replace),
        Point::PostModelInvoke => in_member(event, "text", &replace),
        _ => in_member(event, "prompt", &replace),
    }))
}

/// Texts may also be in the structured form of a result.
fn without_secrets(event: &Event, replace: &impl Fn(&str) -> Option<String>) -> Verdict {
    fn walk(value: &mut Value, replace: &impl Fn(&str) -> Option<String>) -> bool {
        match value {
            Value::String(text) => replace(text).map(|clean| *text = clean).is_some(),
            Value::Array(items) => {
                items.iter_mut().filter_map(|item| walk(item, replace).then_some(())).count() > 0
            }
            Value::Object(members) => {
                members.values_mut().filter_map(|item| walk(item, replace).then_some(())).count() > 0
            }
            _ => false,
        }
    }
    let Some(mut result) = event.data.get("result").cloned() else { return Verdict::pass() };
    if walk(&mut result, replace) { Verdict::change("result", result) } else { Verdict::pass() }
}

fn in_member(event: &Event, key: &str, replace: &impl Fn(&str) -> Option<String>) -> Verdict {
    let clean = event.text(key).and_then(replace);
    clean.map_or_else(Verdict::pass, |text| Verdict::change(key, text.into()))
}

/// What a prompt without any text becomes.
const EMPTY: &str = "[empty message]";

#[expect(clippy::unnecessary_wraps, reason = "all hooks are made in the same way")]
pub(super) fn sanitize(_: &mut Settings) -> Result<Judge, String> {
    Ok(Box::new(|event| {
        let mut verdict = Verdict::pass();
        if let Some(text) = prompt(event) {
            let clean = clean_prompt(text);
            if clean != text {
                verdict.change.insert("prompt".to_owned(), clean.into());
            }
        }
        if let Some(messages) = event.data.get("messages").and_then(Value::as_array) {
            let kept: Vec<Value> = messages.iter().filter(|message| !is_empty(message)).cloned().collect();
            if kept.len() != messages.len() {
                verdict.change.insert("messages".to_owned(), kept.into());
            }
        }
        verdict
    }))
}

/// Without control characters and without the lines of a role without a message.
fn clean_prompt(text: &str) -> String {
    let visible: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let lines: Vec<&str> = visible.split('\n').collect();
    let roles = ["user:", "assistant:", "system:", "human:"];
    let role =
        |line: &str| roles.iter().find(|role| line.trim().to_ascii_lowercase().starts_with(*role)).copied();
    let is_silent = |at: usize| {
        let next = lines[at + 1..].iter().find(|line| !line.trim().is_empty());
        let is_bare = role(lines[at]).is_some_and(|role| lines[at].trim().len() == role.len());
        is_bare && next.is_none_or(|next| role(next).is_some())
    };
    let kept: Vec<&str> =
        lines.iter().enumerate().filter(|(at, _)| !is_silent(*at)).map(|(_, line)| *line).collect();
    let kept = kept.join("\n");
    if kept.trim().is_empty() { EMPTY.to_owned() } else { kept }
}

fn is_empty(message: &Value) -> bool {
    match &message["content"] {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(blocks) => blocks.iter().all(|block| {
            block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty())
        }),
        _ => false,
    }
}
