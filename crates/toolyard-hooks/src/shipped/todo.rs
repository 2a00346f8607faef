//! Hooks about lists of tasks: open ones are to be delegated, worked on at the same time, and really finished.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;
use tokio::time::Instant;

use super::{Judge, Settings};
use crate::{Event, Point, Verdict};

/// Fewer open tasks are not worth more than one agent.
const SEVERAL: usize = 2;
/// How long after a list of tasks was written its open tasks count.
const RECENT: Duration = Duration::from_mins(1);
/// How many sessions are remembered.
const MOST_SESSIONS: usize = 256;

#[expect(clippy::unnecessary_wraps, reason = "all hooks are made in the same way")]
pub(super) fn delegation_reminder(_: &mut Settings) -> Result<Judge, String> {
    Ok(Box::new(|event| match open_tasks(event) {
        open @ SEVERAL.. => Verdict::note(format!(
            "{open} tasks are open: hand those that do not depend on each other to agents, all in one message"
        )),
        _ => Verdict::pass(),
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "all hooks are made in the same way")]
pub(super) fn parallel_reminder(_: &mut Settings) -> Result<Judge, String> {
    let written: Mutex<HashMap<String, (Instant, usize)>> = Mutex::default();
    Ok(Box::new(move |event| {
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        let session = event.text("session").or(event.text("client")).unwrap_or_default().to_owned();
        let tool = event.subject.as_deref().unwrap_or_default();
        if event.point == Point::PostToolCall {
            if is_todo_list(tool) {
                written.retain(|_, (at, _)| at.elapsed() < RECENT);
                if written.len() < MOST_SESSIONS {
                    written.insert(session, (Instant::now(), open_tasks(event)));
                }
            }
            return Verdict::pass();
        }
        let recent = written.get(&session).filter(|(at, _)| at.elapsed() < RECENT);
        match recent {
            Some((_, open @ SEVERAL..)) if !starts_agents(tool) && !is_todo_list(tool) => {
                Verdict::note(format!(
                    "{open} tasks are open and this call works on one of them; start agents for the others first"
                ))
            }
            _ => Verdict::pass(),
        }
    }))
}

fn is_todo_list(tool: &str) -> bool {
    tool == "TodoWrite" || tool.ends_with(":todo_write")
}

fn starts_agents(tool: &str) -> bool {
    tool == "Task" || tool.ends_with(":agent_spawn") || tool.ends_with(":task_spawn")
}

/// The tasks of a list that are not finished.
fn open_tasks(event: &Event) -> usize {
    let list = |value: &Value| value["todos"].as_array().cloned();
    let todos =
        event.data.get("arguments").and_then(list).or_else(|| event.data.get("todos")?.as_array().cloned());
    let is_open = |todo: &&Value| todo["status"] == "pending";
    todos.unwrap_or_default().iter().filter(is_open).count()
}

pub(super) fn todo_enforcer(_: &mut Settings) -> Result<Judge, String> {
    let claim = Regex::new(r"(?m)^.*(✅|\[x\]|\[X\]).*$").map_err(|error| error.to_string())?;
    let evidence =
        Regex::new(r"`[^`]+`|\b[\w./-]+\.\w{1,5}:\d+|\b\d+ (tests?|passed)\b|\bcommit [0-9a-f]{7}|https?://")
            .map_err(|error| error.to_string())?;
    Ok(Box::new(move |event| {
        if event.point == Point::SessionIdle {
            return match open_tasks(event) {
                0 => Verdict::pass(),
                1 => Verdict::note("1 task is open: go on with it"),
                open => Verdict::note(format!("{open} tasks are open: go on with the next one")),
            };
        }
        let text = event.text("text").unwrap_or_default();
        let claims = claim.find_iter(text).map(|found| found.as_str());
        let bare: Vec<&str> = claims.filter(|claim| !evidence.is_match(claim)).map(str::trim).collect();
        match bare.first() {
            None => Verdict::pass(),
            Some(first) => Verdict::note(format!(
                "{} finished without evidence, such as {first:?}: name the file and line, the command or the test that \
                 shows it",
                if bare.len() == 1 {
                    "1 task is reported as".to_owned()
                } else {
                    format!("{} tasks are reported as", bare.len())
                },
            )),
        }
    }))
}
