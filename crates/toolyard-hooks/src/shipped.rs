//! The hooks that come with Toolyard. A config switches one on by its name (`use = "truncate"`). All of them work on
//! text alone, except `rules`, `slash-skills` and `directory-context`, which read files of the project.

mod text;
mod tools;
mod prompts;
mod project;
mod todo;

use std::sync::Arc;

use serde_json::{Map, Value};
use toolyard_model::BoxFuture;

use crate::{Event, Hook, Point, Verdict};

/// A hook that can be switched on by its name.
#[derive(Debug)]
pub struct Shipped {
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Where it runs unless the config sets others.
    pub points: &'static [Point],
    /// The tools it is for unless the config sets others; all where there are none.
    pub matches: &'static [&'static str],
    make: fn(&mut Settings) -> Result<Judge, String>,
}

/// Judges an event.
type Judge = Box<dyn Fn(&Event) -> Verdict + Send + Sync>;

const MODEL: &[Point] = &[Point::PreModelInvoke];
const AFTER_TOOL: &[Point] = &[Point::PostToolCall];
const BEFORE_TOOL: &[Point] = &[Point::PreToolCall];
const EDITS: &[&str] = &["*:edit*", "*:*_edit", "*:replace", "Edit", "MultiEdit"];
const AGENTS: &[&str] = &["*:agent_spawn", "*:agent_output", "*:task_status", "Task"];

/// All of them, in the order of the guide.
pub const ALL: &[Shipped] = &[
    Shipped {
        name: "truncate",
        about: "shortens long results, in the middle or to the tail",
        points: AFTER_TOOL,
        matches: &[],
        make: text::truncate,
    },
    Shipped {
        name: "redact",
        about: "replaces secrets in results and prompts",
        points: &[Point::PostToolCall, Point::PreModelInvoke, Point::PostModelInvoke],
        matches: &[],
        make: text::redact,
    },
    Shipped {
        name: "git-noninteractive",
        about: "keeps git in shell commands from waiting for a terminal, an editor or a pager",
        points: BEFORE_TOOL,
        matches: &[],
        make: tools::git_noninteractive,
    },
    Shipped {
        name: "edit-recovery",
        about: "adds what to do after an edit that did not match",
        points: AFTER_TOOL,
        matches: EDITS,
        make: tools::edit_recovery,
    },
    Shipped {
        name: "comment-ratio",
        about: "warns about code that is mostly comments",
        points: BEFORE_TOOL,
        matches: &[],
        make: tools::comment_ratio,
    },
    Shipped {
        name: "rules",
        about: "adds the project's rules for the files that a prompt names",
        points: MODEL,
        matches: &[],
        make: project::rules,
    },
    Shipped {
        name: "slash-skills",
        about: "expands `/name` at the start of a prompt to the command or skill of that name",
        points: MODEL,
        matches: &[],
        make: project::slash_skills,
    },
    Shipped {
        name: "directory-context",
        about: "puts AGENTS.md or README.md of the project before a prompt",
        points: MODEL,
        matches: &[],
        make: project::directory_context,
    },
    Shipped {
        name: "budget",
        about: "sets the thinking budget by what a prompt asks for",
        points: MODEL,
        matches: &["*thinking*", "*o1*", "*o3*"],
        make: prompts::budget,
    },
    Shipped {
        name: "keyword-modes",
        about: "adds instructions for words such as ultrawork, ultrathink, search and analyze",
        points: MODEL,
        matches: &[],
        make: prompts::keyword_modes,
    },
    Shipped {
        name: "sanitize",
        about: "removes control characters and empty messages from a prompt",
        points: MODEL,
        matches: &[],
        make: text::sanitize,
    },
    Shipped {
        name: "delegation-reminder",
        about: "asks for delegation when a list of tasks has several open ones",
        points: AFTER_TOOL,
        matches: &["TodoWrite", "*:todo_write"],
        make: todo::delegation_reminder,
    },
    Shipped {
        name: "parallel-reminder",
        about: "warns when open tasks are worked on one by one",
        points: &[Point::PreToolCall, Point::PostToolCall],
        matches: &[],
        make: todo::parallel_reminder,
    },
    Shipped {
        name: "context-monitor",
        about: "warns when a prompt takes most of the context window",
        points: MODEL,
        matches: &[],
        make: prompts::context_monitor,
    },
    Shipped {
        name: "compaction",
        about: "shortens a prompt that nearly fills the window, and keeps marked lines when a client compacts",
        points: &[Point::PreModelInvoke, Point::PreCompact],
        matches: &[],
        make: prompts::compaction,
    },
    Shipped {
        name: "todo-enforcer",
        about: "asks for evidence of finished tasks, and to go on with open ones",
        points: &[Point::PostModelInvoke, Point::SessionIdle],
        matches: &[],
        make: todo::todo_enforcer,
    },
    Shipped {
        name: "task-validator",
        about: "reports agents that returned nothing",
        points: AFTER_TOOL,
        matches: AGENTS,
        make: tools::task_validator,
    },
    Shipped {
        name: "session-recovery",
        about: "replaces errors of a damaged conversation by a result that can be worked with",
        points: AFTER_TOOL,
        matches: &[],
        make: tools::session_recovery,
    },
];

pub fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|one| one.name == name)
}

/// Whether these are settings of the hook; an error names the wrong one.
pub fn check(name: &str, settings: &Value) -> Result<(), String> {
    make(name, settings).map(|_| ())
}

pub(crate) fn make(name: &str, settings: &Value) -> Result<Arc<dyn Hook>, String> {
    let shipped = find(name).ok_or_else(|| format!("no hook `{name}` comes with Toolyard"))?;
    let mut settings = Settings::new(settings)?;
    let judge = (shipped.make)(&mut settings)?;
    settings.finish()?;
    Ok(Arc::new(Judged(judge)))
}

struct Judged(Judge);

impl Hook for Judged {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let verdict = (self.0)(&event);
        Box::pin(async move { Ok(verdict) })
    }
}

/// The settings of a shipped hook. Each is taken once; one that is left is unknown.
struct Settings {
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Settings {
    fn new(settings: &Value) -> Result<Self, String> {
        match settings {
            Value::Null => Ok(Self { left: Map::new(), known: Vec::new() }),
            Value::Object(left) => Ok(Self { left: left.clone(), known: Vec::new() }),
            _ => Err("settings of a hook are a table".to_owned()),
        }
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        kind: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        self.known.push(key);
        match self.left.remove(key) {
            None => Ok(None),
            Some(value) => read(&value).map(Some).ok_or_else(|| format!("`{key}` must be {kind}")),
        }
    }

    fn size(&mut self, key: &'static str, usual: usize) -> Result<usize, String> {
        let read = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        Ok(self.take(key, "a number above 0", read)?.unwrap_or(usual))
    }

    fn text(&mut self, key: &'static str, usual: &str) -> Result<String, String> {
        let read = |value: &Value| value.as_str().map(str::to_owned);
        Ok(self.take(key, "a string", read)?.unwrap_or_else(|| usual.to_owned()))
    }

    fn finish(self) -> Result<(), String> {
        let Some(key) = self.left.keys().next() else { return Ok(()) };
        if self.known.is_empty() {
            return Err(format!("`{key}` is not a setting: this hook has none"));
        }
        Err(format!("`{key}` is not a setting; there are {}", self.known.join(", ")))
    }
}

/// The texts of a tool's result, joined by line breaks.
fn result_text(event: &Event) -> String {
    let blocks = event.data.get("result").and_then(|result| result["content"].as_array());
    let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// The result with each of its texts replaced where `replace` returns another.
fn with_texts(event: &Event, replace: impl Fn(&str) -> Option<String>) -> Option<Value> {
    let mut result = event.data.get("result")?.clone();
    let mut is_changed = false;
    for block in result["content"].as_array_mut()? {
        if let Some(text) = block["text"].as_str().and_then(&replace) {
            block["text"] = text.into();
            is_changed = true;
        }
    }
    is_changed.then_some(result)
}

/// What a model is asked: `prompt`.
fn prompt(event: &Event) -> Option<&str> {
    event.text("prompt")
}

fn with_prompt(text: String) -> Verdict {
    Verdict::change("prompt", text.into())
}

#[cfg(test)]
mod tests;
