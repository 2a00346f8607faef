//! Hooks that change text: shorter, without secrets, without what models stumble over.

use std::borrow::Cow;

use regex_lite::Regex;
use serde_json::Value;

use super::{Judge, Settings, prompt, with_texts};
use crate::{Event, Point, Verdict};

/// How many characters `truncate` leaves, unless it is set.
pub(super) const MAX_CHARS: usize = 20_000;

/// `max_chars` (20000), `keep` = "ends" or "tail".
pub(super) fn truncate(settings: &mut Settings) -> Result<Judge, String> {
    let most = settings.size("max_chars", MAX_CHARS)?;
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

/// Forms that secrets have, each with a part that all of its texts contain: most texts contain none of these, and are
/// not matched against the forms.
const SECRETS: &[(&str, &str)] = &[
    ("PRIVATE KEY-----", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{40,}\b"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
];
/// The same, in any case.
const BEARER: &str = r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*";
/// Names of settings, which are followed by their value.
const ASSIGNMENT: &str = r#"(?i)\b((?:[A-Za-z0-9_-]*[_-])?(?:api[_-]?key|secret|token|passwd|password|access[_-]?key)["']?\s*[:=]\s*["']?)([^\s"'`,;&]{8,})"#;

/// Each name contains one of these, in any case.
const ASSIGNED: [&str; 4] = ["key", "secret", "token", "passw"];

/// Whether a text contains a part of any form.
pub(super) fn may_have_secrets(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    SECRETS.iter().any(|(part, _)| text.contains(part))
        || ASSIGNED.iter().chain([&"bearer"]).any(|part| lower.contains(part))
}

/// `with` ("[redacted]").
pub(super) fn redact(settings: &mut Settings) -> Result<Judge, String> {
    let with = settings.text("with", "[redacted]")?;
    let compile = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
    let form = |(part, pattern): &(&'static str, &str)| Ok((*part, compile(pattern)?));
    let forms = SECRETS.iter().map(form).collect::<Result<Vec<_>, String>>()?;
    let (assignment, bearer) = (compile(ASSIGNMENT)?, compile(BEARER)?);
    let (with, assigned) = (with.replace('$', "$$"), format!("${{1}}{}", with.replace('$', "$$")));
    let replace = move |text: &str| {
        let mut found = Cow::Borrowed(text);
        if !may_have_secrets(text) {
            return None;
        }
        let lower = text.to_ascii_lowercase();
        if ASSIGNED.iter().any(|part| lower.contains(part)) {
            found = assignment.replace_all(text, &assigned).into_owned().into();
        }
        let is_there = |part: &str, form: &Regex, text: &str| text.contains(part) && form.is_match(text);
        for (part, form) in &forms {
            if is_there(part, form, &found) {
                found = form.replace_all(&found, &with).into_owned().into();
            }
        }
        if lower.contains("bearer") {
            found = bearer.replace_all(&found, &with).into_owned().into();
        }
        (found != text).then(|| found.into_owned())
    };
    Ok(Box::new(move |event| match event.point {
        Point::PostToolCall => without_secrets(event, "result", &replace),
        Point::PostModelInvoke => in_members(event, &["text", "thinking"], &replace),
        _ => {
            let mut verdict = in_members(event, &["prompt", "system"], &replace);
            verdict.change.extend(without_secrets(event, "messages", &replace).change);
            verdict
        }
    }))
}

/// Replaces in all texts of a member, such as those in the structured form of a result.
fn without_secrets(event: &Event, key: &str, replace: &impl Fn(&str) -> Option<String>) -> Verdict {
    fn walk(value: &mut Value, replace: &impl Fn(&str) -> Option<String>) {
        match value {
            Value::String(text) => {
                if let Some(clean) = replace(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| walk(item, replace)),
            Value::Object(members) => members.values_mut().for_each(|item| walk(item, replace)),
            _ => {}
        }
    }
    fn has_secret(value: &Value, replace: &impl Fn(&str) -> Option<String>) -> bool {
        match value {
            Value::String(text) => replace(text).is_some(),
            Value::Array(items) => items.iter().any(|item| has_secret(item, replace)),
            Value::Object(members) => members.values().any(|item| has_secret(item, replace)),
            _ => false,
        }
    }
    // Most results contain no secret, and are not copied.
    let Some(value) = event.data.get(key).filter(|value| has_secret(value, replace)) else {
        return Verdict::pass();
    };
    let mut value = value.clone();
    walk(&mut value, replace);
    Verdict::change(key, value)
}

fn in_members(event: &Event, keys: &[&str], replace: &impl Fn(&str) -> Option<String>) -> Verdict {
    let clean = |key: &&str| Some(((*key).to_owned(), event.text(key).and_then(replace)?.into()));
    Verdict { change: keys.iter().filter_map(clean).collect(), ..Verdict::pass() }
}

/// The replacement for a prompt without text.
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
