//! Hooks about lists of tasks: open ones are to be delegated, worked on at the same time, and really finished.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
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
/// How many tasks of a session that are created one by one are remembered.
const MOST_TASKS: usize = 1_000;

/// The tools that write a list of tasks, and those of Claude Code that create and change single ones.
pub(super) const TASK_TOOLS: [&str; 4] = ["TodoWrite", "*:todo_write", "TaskCreate", "TaskUpdate"];

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
        let mut written = written.lock();
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
    let is_open = |todo: &&Value| todo["status"] == "pending";
    listed(event).map_or(0, |todos| todos.iter().filter(is_open).count())
}

/// The list of tasks that a call writes, or that the client states.
fn listed(event: &Event) -> Option<&[Value]> {
    let arguments = event.data.get("arguments").and_then(|arguments| arguments.get("todos"));
    arguments.or_else(|| event.data.get("todos"))?.as_array().map(Vec::as_slice)
}

/// The tasks of each session that are not finished, as its calls of [`TASK_TOOLS`] have left them.
#[derive(Default)]
struct Unfinished(HashMap<String, Tasks>);

struct Tasks {
    at: Instant,
    /// Of the list that was written last.
    listed: usize,
    /// The ids of those that were created one by one.
    single: BTreeSet<String>,
}

impl Tasks {
    fn open(&mut self, id: &str) {
        if self.single.len() < MOST_TASKS {
            self.single.insert(id.to_owned());
        }
    }
}

impl Unfinished {
    /// An agent of a session has tasks of its own.
    fn key(event: &Event) -> String {
        let text = |key: &str| event.text(key).unwrap_or_default();
        [text("session"), text("agent")].join("/")
    }

    fn count(&self, event: &Event) -> usize {
        self.0.get(&Self::key(event)).map_or(0, |tasks| tasks.listed + tasks.single.len())
    }

    fn note(&mut self, event: &Event) {
        let key = Self::key(event);
        if self.0.len() >= MOST_SESSIONS && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, tasks)| tasks.at).map(|(key, _)| key.clone());
            oldest.map(|key| self.0.remove(&key));
        }
        let new = || Tasks { at: Instant::now(), listed: 0, single: BTreeSet::new() };
        let tasks = self.0.entry(key).or_insert_with(new);
        tasks.at = Instant::now();
        let member = |key: &str| event.data.get(key).unwrap_or(&Value::Null);
        let (arguments, created) =
            (member("arguments"), &member("result")["structuredContent"]["task"]["id"]);
        if let Some(list) = listed(event) {
            tasks.listed = unfinished(list);
        } else if let Some(id) = created.as_str() {
            tasks.open(id);
        } else if let Some(id) = arguments["taskId"].as_str() {
            match arguments["status"].as_str() {
                Some("pending" | "in_progress") => tasks.open(id),
                Some(_) => _ = tasks.single.remove(id),
                None => {}
            }
        }
    }
}

fn unfinished(list: &[Value]) -> usize {
    list.iter().filter(|todo| matches!(todo["status"].as_str(), Some("pending" | "in_progress"))).count()
}

/// The verdict about an idle session with unfinished tasks. A client that can be kept from stopping is kept once: the
/// second time in a row it may stop, and also while it waits for work in the background.
fn on_idle(event: &Event, open: usize) -> Verdict {
    let text = match open {
        0 => return Verdict::pass(),
        1 => "1 task is open: go on with it".to_owned(),
        open => format!("{open} tasks are open: go on with the next one"),
    };
    let waits =
        event.data.get("backgroundTasks").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    match event.data.get("stopHookActive").and_then(Value::as_bool) {
        Some(true) => Verdict::pass(),
        Some(false) if waits => Verdict::pass(),
        Some(false) => Verdict::block(text),
        None => Verdict::note(text),
    }
}

pub(super) fn todo_enforcer(_: &mut Settings) -> Result<Judge, String> {
    let claim = Regex::new(r"(?m)^.*(✅|\[x\]|\[X\]).*$").map_err(|error| error.to_string())?;
    let evidence =
        Regex::new(r"`[^`]+`|\b[\w./-]+\.\w{1,5}:\d+|\b\d+ (tests?|passed)\b|\bcommit [0-9a-f]{7}|https?://")
            .map_err(|error| error.to_string())?;
    let remembered: Mutex<Unfinished> = Mutex::default();
    Ok(Box::new(move |event| {
        match event.point {
            Point::PostToolCall => {
                remembered.lock().note(event);
                return Verdict::pass();
            }
            Point::SessionIdle => {
                let open = listed(event).map(unfinished);
                let open = open.unwrap_or_else(|| remembered.lock().count(event));
                return on_idle(event, open);
            }
            _ => {}
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
