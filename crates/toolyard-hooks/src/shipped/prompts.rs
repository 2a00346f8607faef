//! Hooks that look at the size and the words of a prompt.

use std::collections::BTreeSet;

use regex_lite::Regex;
use serde_json::json;

use super::{Judge, Settings, prompt, with_prompt};
use crate::{Event, Point, Verdict};

/// A token is about four characters.
const CHARS_PER_TOKEN: usize = 4;
const WINDOW: usize = 200_000;

/// Words of tasks that are worth much thought.
const HARD: &str = r"(?i)\b(architect\w*|design\w*|debug\w*|refactor\w*|analy[sz]\w*|prove|optimi[sz]\w*|plan|complex|race condition|deadlock|root cause|why)\b";

/// `high` (16000), `low` (2000).
pub(super) fn budget(settings: &mut Settings) -> Result<Judge, String> {
    let (high, low) = (settings.size("high", 16_000)?, settings.size("low", 2_000)?);
    let hard = Regex::new(HARD).map_err(|error| error.to_string())?;
    Ok(Box::new(move |event| {
        let Some(text) = prompt(event) else { return Verdict::pass() };
        let is_set =
            event.data.get("thinking_budget").and_then(serde_json::Value::as_u64).is_some_and(|n| n > 0);
        if is_set {
            return Verdict::pass();
        }
        Verdict::change("thinking_budget", json!(if hard.is_match(text) { high } else { low }))
    }))
}

const MODES: &[(&str, &str, &str)] = &[
    (
        r"(?i)\b(ultrawork|uw)\b",
        "ultrawork",
        "Work with full effort: split the task, hand independent parts to agents at the same time, check every result, \
         and finish only when everything is done.",
    ),
    (
        r"(?i)\bultrathink\b",
        "ultrathink",
        "Think thoroughly before you act: consider alternatives, state your assumptions, and check the conclusion.",
    ),
    (
        r"(?i)\b(search|find|locate|where is)\b",
        "search",
        "Search widely before you answer: by text, by syntax and by meaning, several searches at the same time.",
    ),
    (
        r"(?i)\b(analy[sz]e|analysis|investigate)\b",
        "analyze",
        "Gather the facts first, from code and documents, then draw conclusions and name the evidence for each.",
    ),
];

pub(super) fn keyword_modes(_: &mut Settings) -> Result<Judge, String> {
    let compile = |(pattern, name, text): &(&str, &'static str, &'static str)| {
        Ok((Regex::new(pattern).map_err(|error| error.to_string())?, *name, *text))
    };
    let modes = MODES.iter().map(compile).collect::<Result<Vec<_>, String>>()?;
    Ok(Box::new(move |event| {
        let Some(text) = prompt(event) else { return Verdict::pass() };
        let fits = |mode: &&(Regex, &str, &str)| {
            mode.0.is_match(text) && !text.contains(&format!("[{} mode]", mode.1))
        };
        let added: Vec<String> =
            modes.iter().filter(fits).map(|(_, name, text)| format!("[{name} mode] {text}")).collect();
        if added.is_empty() {
            return Verdict::pass();
        }
        with_prompt(format!("{}\n\n{text}", added.join("\n")))
    }))
}

/// `window_tokens` (200000).
pub(super) fn context_monitor(settings: &mut Settings) -> Result<Judge, String> {
    let window = settings.size("window_tokens", WINDOW)?;
    Ok(Box::new(move |event| {
        let share = share(event, window);
        match share {
            85.. => {
                Verdict::note(format!("the prompt takes {share} % of the context window; compact it now"))
            }
            70.. => {
                Verdict::note(format!("the prompt takes {share} % of the context window; compact it soon"))
            }
            _ => Verdict::pass(),
        }
    }))
}

/// How much of the window a prompt takes, in per cent.
fn share(event: &Event, window: usize) -> usize {
    prompt(event).unwrap_or_default().chars().count() / CHARS_PER_TOKEN * 100 / window
}

/// `window_tokens` (200000), `remind_chars` (100000).
pub(super) fn compaction(settings: &mut Settings) -> Result<Judge, String> {
    let window = settings.size("window_tokens", WINDOW)?;
    let remind = settings.size("remind_chars", 100_000)?;
    Ok(Box::new(move |event| {
        if event.point == Point::PreCompact {
            return kept_lines(event);
        }
        let Some(text) = prompt(event) else { return Verdict::pass() };
        match share(event, window) {
            share @ 85.. => {
                let note = format!("the prompt took {share} % of the context window and was shortened");
                with_prompt(compacted(text)).with_note(Some(note))
            }
            _ if text.chars().count() > remind => {
                Verdict::note("the prompt is long; summarise what is settled before it is too long")
            }
            _ => Verdict::pass(),
        }
    }))
}

/// The first tenth, the last three tenths, and of the rest the lines that give structure.
fn compacted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (head, tail) = (lines.len() / 10, lines.len() - lines.len() * 3 / 10);
    let gives_structure = |line: &&&str| {
        let line = line.trim_start();
        let marks =
            ["#", "- [", "```", "fn ", "class ", "def ", "error", "Error", "TODO", "FIXME", "Decision"];
        marks.iter().any(|mark| line.starts_with(mark))
    };
    let middle = lines[head..tail].iter().filter(gives_structure).copied();
    let kept: Vec<&str> = lines[..head]
        .iter()
        .copied()
        .chain(["[… shortened …]"])
        .chain(middle)
        .chain(["[… end of the shortened part …]"])
        .chain(lines[tail..].iter().copied())
        .collect();
    kept.join("\n")
}

const MARKERS: [&str; 11] = [
    "DECISION",
    "IMPORTANT",
    "CRITICAL",
    "TODO",
    "FIXME",
    "BUG",
    "CONSTRAINT",
    "REQUIREMENT",
    "ARCHITECTURE",
    "NEXT",
    "REMEMBER",
];
const MOST_KEPT: usize = 15;

/// The lines with a marker and the two after each, for the client to keep. `transcript` is the text of the conversation:
/// `toolyard hook` reads it from the file that the client names.
fn kept_lines(event: &Event) -> Verdict {
    let text = ["transcript", "prompt", "text"].iter().find_map(|key| event.text(key)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let is_marked = |line: &str| MARKERS.iter().any(|marker| line.contains(marker));
    let marked = (0..lines.len()).filter(|at| is_marked(lines[*at]));
    let kept: BTreeSet<usize> = marked.flat_map(|at| at..(at + 3).min(lines.len())).collect();
    let kept: Vec<&str> = kept.into_iter().take(MOST_KEPT).map(|at| lines[at]).collect();
    if kept.is_empty() {
        return Verdict::pass();
    }
    Verdict::change("keep", json!(kept))
}
