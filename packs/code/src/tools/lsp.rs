//! The `lsp_*` tools: what language servers know, through the pool of warm servers.

pub(crate) mod change;
pub(crate) mod diagnose;
pub(crate) mod list;
pub(crate) mod navigate;
mod symbol;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_lsp::{Lines, Location, LspError, Position, Range, symbols, uri_of};
use toolyard_tool::{Context, ToolError};

use super::Code;
use crate::project::Place;
use crate::search::shorten;
use crate::servers::{Role, Running, Server};

const REQUEST: Duration = Duration::from_secs(20);
/// How long a request waits for a server that loads the project.
const LOADING: Duration = Duration::from_secs(90);
/// An empty answer of a server that started just now is not believed: many begin to load only after their start.
const YOUNG: Duration = Duration::from_secs(3);

/// A file that an argument named.
pub(crate) struct Target {
    place: Place,
    path: PathBuf,
    text: String,
}

/// A place in a file, as answers show it.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// Relative to the project's root; absolute if it is outside of the project.
    file: String,
    /// Counted from 1.
    line: usize,
    /// In characters, counted from 1.
    column: usize,
    end_line: usize,
    end_column: usize,
    /// The line.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Spot {
    fn to_text(&self) -> String {
        let text =
            self.text.as_deref().map(|text| format!(": {}", shorten(text.trim(), 200))).unwrap_or_default();
        format!("{}:{}:{}{text}", self.file, self.line, self.column)
    }
}

/// Where in a file: a position or the path of a symbol.
pub(crate) struct Wanted<'a> {
    line: Option<usize>,
    character: Option<usize>,
    symbol: Option<&'a str>,
}

impl Code {
    async fn target(&self, context: &Context, file_path: &str) -> Result<Target, ToolError> {
        let place = self.locate(context, file_path).await?;
        let text = place.project.text(&place.below).ok_or_else(|| {
            ToolError::new(format!("`{file_path}` is not a text file")).hint("name a file with source code")
        })?;
        let path = place.project.root().join(&place.below);
        Ok(Target { place, path, text })
    }

    /// The installed servers for a file: at most one main server, then those that add to it.
    async fn usable(&self, target: &Target) -> Result<Vec<Arc<Server>>, ToolError> {
        let root = target.place.project.root();
        let (mut usable, mut missing) = (Vec::new(), Vec::new());
        for server in self.pool.for_file(&target.path) {
            let has_main = usable.iter().any(|server: &Arc<Server>| server.role == Role::Main);
            if has_main && server.role == Role::Main {
                continue;
            }
            match self.pool.find(server, Some(root)).await {
                Ok(_) => usable.push(server.clone()),
                Err(why) => {
                    missing.push(format!("{}: {why} (to install it: {})", server.name, server.install));
                }
            }
        }
        usable.sort_by_key(|server| server.role == Role::Extra);
        if !usable.is_empty() {
            return Ok(usable);
        }
        let file = target.place.below.display();
        if missing.is_empty() {
            return Err(ToolError::new(format!("no language server is known for `{file}`"))
                .hint("name one in `servers` of [packs.code]"));
        }
        Err(ToolError::new(format!("no language server can be used for `{file}`")).hint(missing.join("; ")))
    }

    /// A warm server that has the current text of the file.
    async fn warm(
        &self,
        context: &Context,
        target: &Target,
        server: &Arc<Server>,
    ) -> Result<Arc<Running>, ToolError> {
        let running = self.pool.running(server, &target.place.project, context.changes()).await?;
        running.refresh().map_err(|error| failed(&running, &error))?;
        let language = server.language(&target.path).unwrap_or_default();
        running
            .session
            .sync(&target.path, language, &target.text)
            .map_err(|error| failed(&running, &error))?;
        Ok(running)
    }

    /// The first server for a file that can do this.
    async fn serving(
        &self,
        context: &Context,
        target: &Target,
        method: &str,
    ) -> Result<Arc<Running>, ToolError> {
        let servers = self.usable(target).await?;
        for server in &servers {
            let running = self.warm(context, target, server).await?;
            if running.session.supports(method).await {
                let _ = self.loaded(context, &running).await;
                return Ok(running);
            }
        }
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let what = method.rsplit('/').next().unwrap_or(method);
        Err(ToolError::new(format!("`{}` does not support `{what}`", names.join("` and `")))
            .hint("lsp_servers lists the servers that can be installed"))
    }

    /// All servers for a file that can do this.
    async fn all_serving(
        &self,
        context: &Context,
        target: &Target,
        method: Option<&str>,
    ) -> Result<Vec<Arc<Running>>, ToolError> {
        let mut all = Vec::new();
        for server in self.usable(target).await? {
            let running = self.warm(context, target, &server).await?;
            let can = match method {
                Some(method) => running.session.supports(method).await,
                None => true,
            };
            if can {
                let _ = self.loaded(context, &running).await;
                all.push(running);
            }
        }
        Ok(all)
    }

    /// Waits while a server loads the project, with progress.
    async fn loaded(&self, context: &Context, running: &Running) -> Result<(), String> {
        let mut step = 0;
        let report = |words: &str| {
            step += 1;
            context.progress_with(step, None, format!("{}: {words}", running.server.name));
        };
        running.session.loaded(Instant::now() + LOADING, report).await
    }

    /// An answer that is empty only if the server knows the project.
    async fn known(
        &self,
        context: &Context,
        running: &Running,
        method: &str,
        params: Value,
    ) -> Result<Value, ToolError> {
        let answer = request(running, method, params.clone()).await?;
        if !is_empty(&answer) || (running.session.loading().is_none() && running.session.age() > YOUNG) {
            return Ok(answer);
        }
        tokio::time::sleep(YOUNG.saturating_sub(running.session.age())).await;
        let still_loading = self.loaded(context, running).await.err();
        let answer = request(running, method, params).await?;
        match still_loading.filter(|_| is_empty(&answer)) {
            Some(words) => Err(ToolError::new(format!(
                "`{}` is still loading the project: {words}",
                running.server.name
            ))
            .hint("try again later")),
            None => Ok(answer),
        }
    }
}

fn is_empty(answer: &Value) -> bool {
    answer.is_null() || answer.as_array().is_some_and(Vec::is_empty)
}

async fn request(running: &Running, method: &str, params: Value) -> Result<Value, ToolError> {
    running.session.request(method, params, REQUEST).await.map_err(|error| failed(running, &error))
}

fn failed(running: &Running, error: &LspError) -> ToolError {
    let failed = ToolError::new(format!("language server `{}`: {error}", running.server.name));
    match error {
        LspError::Closed(_) => failed.hint("it is started again by the next call"),
        LspError::Timeout { .. } => failed.hint("try again; lsp_servers shows what it is doing"),
        _ => failed,
    }
}

/// The position of what is wanted, as the server counts.
async fn position(running: &Running, target: &Target, wanted: &Wanted<'_>) -> Result<Position, ToolError> {
    let lines = Lines::new(&target.text);
    let encoding = running.session.encoding();
    if let Some(symbol) = wanted.symbol {
        let params = json!({ "textDocument": { "uri": uri_of(&target.path) } });
        let answer = request(running, "textDocument/documentSymbol", params).await?;
        let at = symbol::find(&symbols(&answer), symbol, wanted.line, &lines)?;
        return Ok(at);
    }
    let Some(line) = wanted.line else {
        return Err(ToolError::new("neither `line` nor `symbol` is given").hint("give one of them"));
    };
    if line == 0 || line > lines.count() {
        let file = target.place.below.display();
        return Err(ToolError::new(format!("`{file}` has {} lines, not a line {line}", lines.count())));
    }
    let column = wanted.character.unwrap_or_else(|| first_name(lines.line(line - 1)));
    Ok(lines.position(line, column, encoding))
}

/// The column of the first character of a line that can be part of a name.
fn first_name(line: &str) -> usize {
    line.chars().position(|c| c.is_alphanumeric() || c == '_').unwrap_or(0)
}

fn at(target: &Target, position: Position) -> Value {
    json!({ "textDocument": { "uri": uri_of(&target.path) }, "position": position.to_json() })
}

/// Shows places as `Spot`s; reads each file once.
struct Spots<'a> {
    running: &'a Running,
    texts: HashMap<PathBuf, Option<String>>,
}

impl<'a> Spots<'a> {
    fn new(running: &'a Running) -> Self {
        Self { running, texts: HashMap::new() }
    }

    fn spot(&mut self, location: &Location) -> Spot {
        self.at(&location.path, location.range)
    }

    fn at(&mut self, path: &Path, range: Range) -> Spot {
        let running = self.running;
        let text = self.texts.entry(path.to_owned()).or_insert_with(|| running.text(path));
        let file = shown(running, path);
        match text {
            Some(text) => {
                let lines = Lines::new(text);
                let (line, column) = lines.readable(range.start, running.session.encoding());
                let (end_line, end_column) = lines.readable(range.end, running.session.encoding());
                let text = Some(lines.line(range.start.line).to_owned());
                Spot { file, line, column, end_line, end_column, text }
            }
            // Outside of the project nothing is read, so columns are as the server counts them.
            None => Spot {
                file,
                line: range.start.line + 1,
                column: range.start.character + 1,
                end_line: range.end.line + 1,
                end_column: range.end.character + 1,
                text: None,
            },
        }
    }
}

fn shown(running: &Running, path: &Path) -> String {
    path.strip_prefix(running.project.root()).unwrap_or(path).display().to_string()
}
