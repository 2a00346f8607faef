//! The hooks that come with Toolyard. A config switches one on by its name (`use = "truncate"`). All of them work on
//! text alone, except those that read files of the project ([`READING`]).

mod text;
mod tools;
mod prompts;
mod project;
mod todo;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use toolyard_model::BoxFuture;
use toolyard_proto::Pattern;

use crate::{Event, Hook, Point, Verdict};

/// A hook that can be switched on by its name.
#[derive(Debug)]
pub struct Shipped {
    pub name: &'static str,
    /// Its description, in one line.
    pub about: &'static str,
    /// The points at which it runs unless the config sets others.
    pub points: &'static [Point],
    /// The tools it is for unless the config sets others; all where there are none.
    pub matches: &'static [&'static str],
    /// The tools it is not for unless the config names tools.
    except: &'static [&'static str],
    make: fn(&mut Settings) -> Result<Judge, String>,
}

/// Judges an event.
type Judge = Box<dyn Fn(&Event) -> Verdict + Send + Sync>;
/// Whether a hook certainly passes arguments or a result, which are JSON text.
type Ignores = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The hooks that read files.
const READING: [&str; 3] = ["rules", "slash-skills", "directory-context"];
/// How many events such a hook reads files for at the same time. A read that hangs keeps its thread after the time of
/// the hook is over, so there must not be more of them with every call.
const READS_AT_ONCE: usize = 4;

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
        // It shortens its results by itself, and a model must read a file as it is.
        except: &["code:read_file"],
        make: text::truncate,
    },
    Shipped {
        name: "redact",
        about: "replaces secrets in results and prompts",
        points: &[Point::PostToolCall, Point::PreModelInvoke, Point::PostModelInvoke],
        matches: &[],
        except: &[],
        make: text::redact,
    },
    Shipped {
        name: "git-noninteractive",
        about: "keeps git in shell commands from waiting for a terminal, an editor or a pager",
        points: BEFORE_TOOL,
        matches: &[],
        except: &[],
        make: tools::git_noninteractive,
    },
    Shipped {
        name: "edit-recovery",
        about: "adds what to do after an edit that did not match",
        points: AFTER_TOOL,
        matches: EDITS,
        except: &[],
        make: tools::edit_recovery,
    },
    Shipped {
        name: "comment-ratio",
        about: "warns about code that is mostly comments",
        points: BEFORE_TOOL,
        matches: &[],
        except: &[],
        make: tools::comment_ratio,
    },
    Shipped {
        name: "rules",
        about: "adds the project's rules for the files that a prompt names",
        points: MODEL,
        matches: &[],
        except: &[],
        make: project::rules,
    },
    Shipped {
        name: "slash-skills",
        about: "expands `/name` at the start of a prompt to the command or skill of that name",
        points: MODEL,
        matches: &[],
        except: &[],
        make: project::slash_skills,
    },
    Shipped {
        name: "directory-context",
        about: "puts AGENTS.md or README.md of the project before a prompt",
        points: MODEL,
        matches: &[],
        except: &[],
        make: project::directory_context,
    },
    Shipped {
        name: "budget",
        about: "sets the thinking budget by what a prompt asks for",
        points: MODEL,
        matches: &["*thinking*", "*o1*", "*o3*"],
        except: &[],
        make: prompts::budget,
    },
    Shipped {
        name: "keyword-modes",
        about: "adds instructions for words such as ultrawork, ultrathink, search and analyze",
        points: MODEL,
        matches: &[],
        except: &[],
        make: prompts::keyword_modes,
    },
    Shipped {
        name: "sanitize",
        about: "removes control characters and empty messages from a prompt",
        points: MODEL,
        matches: &[],
        except: &[],
        make: text::sanitize,
    },
    Shipped {
        name: "delegation-reminder",
        about: "asks for delegation when a list of tasks has several open ones",
        points: AFTER_TOOL,
        matches: &["TodoWrite", "*:todo_write"],
        except: &[],
        make: todo::delegation_reminder,
    },
    Shipped {
        name: "parallel-reminder",
        about: "warns when open tasks are worked on one by one",
        points: &[Point::PreToolCall, Point::PostToolCall],
        matches: &[],
        except: &[],
        make: todo::parallel_reminder,
    },
    Shipped {
        name: "context-monitor",
        about: "warns when a prompt takes most of the context window",
        points: MODEL,
        matches: &[],
        except: &[],
        make: prompts::context_monitor,
    },
    Shipped {
        name: "compaction",
        about: "shortens a prompt that nearly fills the window, and keeps marked lines when a client compacts",
        points: &[Point::PreModelInvoke, Point::PreCompact],
        matches: &[],
        except: &[],
        make: prompts::compaction,
    },
    Shipped {
        name: "todo-enforcer",
        about: "asks for evidence of finished tasks, and to go on with open ones",
        points: &[Point::PostModelInvoke, Point::PostToolCall, Point::SessionIdle],
        matches: &[],
        except: &[],
        make: todo::todo_enforcer,
    },
    Shipped {
        name: "task-validator",
        about: "reports agents that returned nothing",
        points: AFTER_TOOL,
        matches: AGENTS,
        except: &[],
        make: tools::task_validator,
    },
    Shipped {
        name: "session-recovery",
        about: "replaces errors of a damaged conversation by a result that can be worked with",
        points: AFTER_TOOL,
        matches: &[],
        except: &[],
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
    let shipped = find(name).ok_or_else(|| format!("Toolyard has no built-in hook `{name}`"))?;
    let ignores = ignores(name, settings);
    let mut settings = Settings::new(settings)?;
    let judge = (shipped.make)(&mut settings)?;
    settings.finish()?;
    if READING.contains(&name) {
        return Ok(Arc::new(Reading::new(judge)));
    }
    let except = shipped.except.iter().map(|tool| Pattern::new(tool)).collect();
    let tools = if name == "todo-enforcer" { &todo::TASK_TOOLS[..] } else { &[] };
    let tools = tools.iter().map(|tool| Pattern::new(tool)).collect();
    Ok(Arc::new(Judged { judge, ignores, tools, except }))
}

/// Whether the hooks that are most often on for all tools certainly pass. A text has at most as many characters as
/// bytes in JSON.
fn ignores(name: &str, settings: &Value) -> Ignores {
    match name {
        "truncate" => {
            let most = settings["max_chars"].as_u64().and_then(|most| usize::try_from(most).ok());
            let most = most.unwrap_or(text::MAX_CHARS);
            Box::new(move |json| json.len() <= most)
        }
        "redact" => Box::new(|json| !has_escapes(json) && !text::may_have_secrets(json)),
        "git-noninteractive" => Box::new(|json| !has_escapes(json) && !json.contains("git")),
        "session-recovery" => Box::new(|json| !has_escapes(json) && !json.contains("isError")),
        _ => Box::new(|_| false),
    }
}

/// Whether characters may be written as their numbers.
fn has_escapes(json: &str) -> bool {
    json.contains("\\u")
}

/// A hook that reads files. It runs on a thread for blocking work and under its time limit, so that a slow disk delays
/// no other call.
struct Reading {
    judge: Arc<dyn Fn(&Event) -> Verdict + Send + Sync>,
    places: Arc<Semaphore>,
}

impl Reading {
    fn new(judge: Judge) -> Self {
        Self { judge: judge.into(), places: Arc::new(Semaphore::new(READS_AT_ONCE)) }
    }
}

impl Hook for Reading {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let (judge, places) = (self.judge.clone(), self.places.clone());
        Box::pin(async move {
            let place = places.acquire_owned().await.map_err(|closed| closed.to_string())?;
            let judged = spawn_blocking(move || {
                let _place = place;
                judge(&event)
            });
            judged.await.map_err(|_| "it panicked".to_owned())
        })
    }
}

struct Judged {
    judge: Judge,
    ignores: Ignores,
    /// The only tools that it is for; all if there are none.
    tools: Vec<Pattern>,
    except: Vec<Pattern>,
}

impl Hook for Judged {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let verdict = (self.judge)(&event);
        Box::pin(async move { Ok(verdict) })
    }

    fn judge(&self, event: &Event) -> Option<Verdict> {
        Some((self.judge)(event))
    }

    fn ignores(&self, point: Point, json: &str) -> bool {
        matches!(point, Point::PreToolCall | Point::PostToolCall) && (self.ignores)(json)
    }

    fn leaves_out(&self, tool: &str) -> bool {
        self.except.iter().any(|pattern| pattern.matches(tool))
    }

    fn is_for_tool(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.matches(tool))
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
            _ => Err("the settings of a hook must be a table".to_owned()),
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
    let result = event.data.get("result")?;
    let blocks = result["content"].as_array()?.iter().enumerate();
    let texts: Vec<(usize, String)> =
        blocks.filter_map(|(at, block)| Some((at, block["text"].as_str().and_then(&replace)?))).collect();
    if texts.is_empty() {
        return None;
    }
    let mut result = result.clone();
    for (at, text) in texts {
        result["content"][at]["text"] = text.into();
    }
    Some(result)
}

/// The prompt of a model call.
fn prompt(event: &Event) -> Option<&str> {
    event.text("prompt")
}

fn with_prompt(text: String) -> Verdict {
    Verdict::change("prompt", text.into())
}

#[cfg(test)]
mod tests;
