//! The functions that clients call.

use std::time::{Duration, SystemTime};

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{ToolError, clamp, tool};

use crate::find::{self, Script};
use crate::log::{Filter, Level, Line, Stream};
use crate::run::{Run, Runs, State};

/// The longest pattern.
const LONGEST_PATTERN: usize = 500;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Scripts {
    /// The folder of the project.
    root: String,
    scripts: Vec<Script>,
}

/// Lists the scripts of the project: those of package.json, Cargo, a Makefile or a justfile, and those of the config.
#[tool(read_only, idempotent)]
pub(crate) async fn list(runs: &Runs) -> Scripts {
    Scripts { root: runs.config.root.display().to_string(), scripts: find::scripts(&runs.config) }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    /// The id of a script, such as `npm:dev`, or its name if only one script has it.
    script: String,
}

/// A script that was started.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Started {
    /// What to pass to `logs` and `stop`.
    id: String,
    script: String,
    /// `running`, `stopping`, `stopped` or `exited`.
    state: &'static str,
    /// The exit code, if it ended by itself.
    exit_code: Option<i32>,
    pid: u32,
    /// For how many seconds it has run, or how long ago it was started if it has ended.
    age_seconds: u64,
    /// How many lines it has printed.
    lines: u64,
}

impl From<&Run> for Started {
    fn from(run: &Run) -> Self {
        let (state, exit_code) = match run.state() {
            State::Running => ("running", None),
            State::Stopping => ("stopping", None),
            State::Stopped => ("stopped", None),
            State::Exited(code) => ("exited", code),
        };
        let age = SystemTime::now().duration_since(run.started).unwrap_or_default();
        Self {
            id: run.id.clone(),
            script: run.script.clone(),
            state,
            exit_code,
            pid: run.pid,
            age_seconds: age.as_secs(),
            lines: run.log.count(),
        }
    }
}

/// Starts a script of the project. A script that runs already is not started again. It runs until it ends, `stop` is
/// called or the gateway ends.
#[tool]
pub(crate) async fn run(runs: &Runs, args: Name) -> Result<Started, ToolError> {
    Ok(Started::from(&*runs.start(&args.script).await?))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The newest first.
    scripts: Vec<Started>,
}

/// Shows the scripts that run and the last that have ended, with their exit codes.
#[tool(read_only, idempotent)]
pub(crate) async fn status(runs: &Runs) -> Status {
    Status { scripts: runs.list().iter().map(|run| Started::from(&**run)).collect() }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Logs {
    /// The id that `run` returned, or the name of a script: then its newest run is meant.
    script: String,
    /// Only lines of this level and above, as far as the words of a line show it.
    level: Option<Level>,
    /// Only lines of this stream.
    stream: Option<Stream>,
    /// Only lines that this regular expression finds something in.
    matching: Option<String>,
    /// Only lines of the last so many seconds.
    since_seconds: Option<u64>,
    /// Only lines after the one with this number: pass the `last` of the answer before.
    after: Option<u64>,
    /// How many lines to return: with `after` the oldest, else the newest.
    #[serde(default = "a_hundred")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    limit: usize,
    /// If no line fits, wait so many seconds for one.
    #[serde(default)]
    #[schemars(range(max = 60), transform = clamp)]
    wait: u64,
}

fn a_hundred() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct LogLines {
    id: String,
    /// `running`, `stopping`, `stopped` or `exited`.
    state: &'static str,
    exit_code: Option<i32>,
    /// The oldest first.
    lines: Vec<LogLine>,
    /// How many more lines fit.
    left_out: usize,
    /// How many lines are not kept any more; with `after`, how many of those that follow it.
    lost: u64,
    /// What to pass as `after` to read on.
    last: u64,
}

#[derive(Serialize, JsonSchema)]
struct LogLine {
    number: u64,
    /// How many seconds ago it was printed.
    seconds_ago: u64,
    stream: Stream,
    level: Level,
    text: String,
}

impl From<Line> for LogLine {
    fn from(line: Line) -> Self {
        let ago = SystemTime::now().duration_since(line.at).unwrap_or_default();
        let Line { number, stream, level, text, .. } = line;
        Self { number, seconds_ago: ago.as_secs(), stream, level, text }
    }
}

/// Reads what a script printed, by level, regular expression and age. With `after` and `wait` it follows a log.
#[tool(read_only)]
pub(crate) async fn logs(runs: &Runs, args: Logs) -> Result<LogLines, ToolError> {
    let run = runs.get(&args.script)?;
    let filter = Filter {
        after: args.after,
        level: args.level,
        stream: args.stream,
        matching: args.matching.as_deref().map(pattern).transpose()?,
        not_older_than: args.since_seconds.map(Duration::from_secs),
    };
    if args.wait > 0 {
        run.log.wait(&filter, Duration::from_secs(args.wait), run.ended()).await;
    }
    let state = Started::from(&*run);
    let found = run.log.read(&filter, args.limit);
    Ok(LogLines {
        id: run.id.clone(),
        state: state.state,
        exit_code: state.exit_code,
        lines: found.lines.into_iter().map(LogLine::from).collect(),
        left_out: found.left_out,
        lost: found.lost,
        last: found.last,
    })
}

fn pattern(text: &str) -> Result<Regex, ToolError> {
    if text.len() > LONGEST_PATTERN {
        return Err(ToolError::new(format!("`matching` is longer than {LONGEST_PATTERN} bytes")));
    }
    Regex::new(text)
        .map_err(|error| ToolError::new(format!("`matching` is not a regular expression: {error}")))
}

/// Stops a script with everything that it has started, and returns how it ended.
#[tool(idempotent)]
pub(crate) async fn stop(runs: &Runs, args: Name) -> Result<Started, ToolError> {
    Ok(Started::from(&*runs.stop(&args.script).await?))
}
