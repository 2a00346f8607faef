//! Hooks around single tools: shells, edits, agents.

use regex_lite::Regex;
use serde_json::json;

use super::{Judge, Settings, result_text};
use crate::Verdict;

const GIT_ENV: &str = "GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true GIT_PAGER=cat ";

/// `argument` ("command").
pub(super) fn git_noninteractive(settings: &mut Settings) -> Result<Judge, String> {
    let argument = settings.text("argument", "command")?;
    // `git` where a shell expects a command.
    let git = Regex::new(r"(^|[;&|(\n]\s*)git(\s)").map_err(|error| error.to_string())?;
    Ok(Box::new(move |event| {
        let Some(arguments) = event.data.get("arguments") else { return Verdict::pass() };
        let Some(command) = arguments[&argument].as_str() else { return Verdict::pass() };
        if !command.contains("git") || !git.is_match(command) || command.contains("GIT_TERMINAL_PROMPT") {
            return Verdict::pass();
        }
        let mut arguments = arguments.clone();
        arguments[&argument] = json!(git.replace_all(command, format!("${{1}}{GIT_ENV}git${{2}}")));
        Verdict::change("arguments", arguments)
    }))
}

const EDIT_FAILURES: &[(&str, &str)] = &[
    (
        r"(?i)old_?(string|text)\s+(was\s+)?not\s+found|string to replace (was )?not found|(no|0) match(es)?\b|not found in (the )?file",
        "the text to replace is not in the file as given. Read the file again, copy the text exactly, with its \
         indentation, and repeat the edit",
    ),
    (
        r"(?i)multiple (matches|occurrences)|found (more than once|multiple)|matches? \d+ (times|places)|not unique",
        "the text to replace occurs several times. Add lines before or after it until it is unique, or ask to replace \
         all of them",
    ),
    (
        r"(?i)old_?(string|text) and new_?(string|text) (are|must be) (the same|identical|different)",
        "the new text equals the old one. Check what was to be changed",
    ),
];

pub(super) fn edit_recovery(_: &mut Settings) -> Result<Judge, String> {
    let compile = |(pattern, hint): &(&str, &'static str)| {
        Ok((Regex::new(pattern).map_err(|error| error.to_string())?, *hint))
    };
    let failures = EDIT_FAILURES.iter().map(compile).collect::<Result<Vec<_>, String>>()?;
    Ok(Box::new(move |event| {
        let text = result_text(event);
        let found = failures.iter().find(|(pattern, _)| pattern.is_match(&text));
        found.map_or_else(Verdict::pass, |(_, hint)| Verdict::note(format!("the edit failed: {hint}")))
    }))
}

/// The names of arguments that hold code.
const CODE: [&str; 5] = ["content", "new_string", "new_text", "code", "text"];

/// `max_percent` (30), `min_lines` (5).
pub(super) fn comment_ratio(settings: &mut Settings) -> Result<Judge, String> {
    let most = settings.size("max_percent", 30)?;
    let least = settings.size("min_lines", 5)?;
    Ok(Box::new(move |event| {
        let Some(arguments) = event.data.get("arguments") else { return Verdict::pass() };
        let path = ["path", "file_path", "file"].iter().find_map(|key| arguments[key].as_str());
        if path.is_some_and(is_prose) {
            return Verdict::pass();
        }
        let code = CODE.iter().filter_map(|key| arguments[key].as_str());
        let share = code.filter_map(|code| comment_share(code, least)).max();
        match share.filter(|share| *share > most) {
            Some(share) => Verdict::note(format!(
                "{share} % of the lines are comments, more than {most} %. Keep those that give a reason"
            )),
            None => Verdict::pass(),
        }
    }))
}

fn is_prose(path: &str) -> bool {
    [".md", ".txt", ".rst", ".adoc"].iter().any(|end| path.to_ascii_lowercase().ends_with(end))
}

/// Comment lines of 100 lines that are not blank.
fn comment_share(code: &str, least: usize) -> Option<usize> {
    let lines: Vec<&str> = code.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_comment = |line: &&&str| {
        let starts = ["//", "# ", "/*", "* ", "*/", "--", "<!--", "\"\"\""];
        **line == "#" || **line == "*" || starts.iter().any(|start| line.starts_with(start))
    };
    let comments = lines.iter().filter(is_comment).count();
    (lines.len() >= least).then(|| comments * 100 / lines.len())
}

pub(super) fn task_validator(_: &mut Settings) -> Result<Judge, String> {
    let failed = Regex::new(r"(?i)^\s*(none|null|undefined|no (output|response|result)( generated)?\.?)\s*$")
        .map_err(|error| error.to_string())?;
    Ok(Box::new(move |event| {
        let text = result_text(event);
        if text.trim().is_empty() || failed.is_match(&text) {
            return Verdict::note(
                "the agent returned nothing. Read its progress, then start it again with a smaller task and the \
                 result that is expected",
            );
        }
        Verdict::pass()
    }))
}

const DAMAGED: &[(&str, &str)] = &[
    (
        r"(?i)tool_use.{0,40}(ids? )?(were|was)? ?(found )?without.{0,20}tool_result|missing tool_result",
        "the result of this call was lost",
    ),
    (
        r"(?i)(thinking|redacted_thinking) blocks?.{0,60}(cannot be modified|must|expected)",
        "a reasoning block is damaged",
    ),
    (
        r"(?i)prompt is too long|context[_ ]length[_ ]exceeded|maximum context length",
        "the conversation is too long",
    ),
    (
        r"(?i)messages?.{0,30}(must (have|be) non-?empty|text content blocks must be non-empty)",
        "a message is empty",
    ),
];

pub(super) fn session_recovery(_: &mut Settings) -> Result<Judge, String> {
    let compile = |(pattern, what): &(&str, &'static str)| {
        Ok((Regex::new(pattern).map_err(|error| error.to_string())?, *what))
    };
    let damaged = DAMAGED.iter().map(compile).collect::<Result<Vec<_>, String>>()?;
    Ok(Box::new(move |event| {
        let is_error = event.data.get("result").is_some_and(|result| result["isError"] == true);
        let text = result_text(event);
        let found = damaged.iter().find(|(pattern, _)| is_error && pattern.is_match(&text));
        let Some((_, what)) = found else { return Verdict::pass() };
        let text = format!(
            "[recovered] {what}. Go on from the last result that you have; repeat this call only if you need it."
        );
        Verdict::change("result", json!({ "content": [{ "type": "text", "text": text }] }))
    }))
}
