//! Diagnostics: of a file, of a project, and as a resource that changes with the files.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolyard_lsp::{Diagnostic, Severity, diagnostics, path_of};
use toolyard_tool::{Contents, Context, ToolError, WithText, clamp, tool};

use super::{Spot, Spots, Target, request};
use crate::project::Place;
use crate::servers::{Role, Running};
use crate::tools::{Code, here};
use crate::walk::Walk;

/// How long a server may take to publish the diagnostics of a file.
const PUBLISHED: Duration = Duration::from_secs(10);
/// Files that are asked for one by one where a server cannot report on the whole project.
const MOST_FILES: usize = 500;

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Least {
    /// Errors only.
    Error,
    /// Errors and warnings.
    Warning,
    /// Everything.
    #[default]
    All,
}

impl Least {
    fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity == Severity::Error,
            Self::Warning => severity <= Severity::Warning,
            Self::All => true,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Diagnose {
    /// The file.
    file_path: String,
    /// How severe a problem must be: `error`, `warning` (which includes errors) or `all`.
    #[serde(default)]
    severity: Least,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Problems {
    #[serde(rename = "problems")]
    list: Vec<Problem>,
    total: usize,
    /// The servers that were asked.
    servers: Vec<String>,
    /// What is missing from the answer, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Problem {
    severity: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    server: String,
    at: Spot,
}

/// Lists the errors and warnings of a file.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_diagnostics(
    code: &Code,
    context: &Context,
    args: Diagnose,
) -> Result<WithText<Problems>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
    let (mut problems, mut servers) = (Vec::new(), Vec::new());
    for running in code.all_serving(context, &target, None).await? {
        let found = diagnostics_of(&running, &target).await?;
        problems.extend(shown(&running, &target.path, &found, args.severity));
        servers.push(running.server.name.clone());
    }
    Ok(to_answer(problems, servers, usize::MAX, None))
}

fn shown(running: &Running, path: &Path, found: &[Diagnostic], least: Least) -> Vec<Problem> {
    let mut spots = Spots::new(running);
    let wanted = found.iter().filter(|diagnostic| least.includes(diagnostic.severity));
    let shown = wanted.map(|diagnostic| Problem {
        severity: word(diagnostic.severity),
        message: diagnostic.message.clone(),
        code: diagnostic.code.clone(),
        server: running.server.name.clone(),
        at: spots.at(path, diagnostic.range),
    });
    shown.collect()
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Information => "information",
        Severity::Hint => "hint",
    }
}

fn to_answer(
    mut problems: Vec<Problem>,
    servers: Vec<String>,
    limit: usize,
    note: Option<String>,
) -> WithText<Problems> {
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    let total = problems.len();
    problems.truncate(limit);
    let mut text = String::new();
    for Problem { severity, message, code, server, at } in &problems {
        let code = code.as_deref().map(|code| format!(" [{code}]")).unwrap_or_default();
        let _ =
            writeln!(text, "{}:{}:{}: {severity}: {message}{code} ({server})", at.file, at.line, at.column);
    }
    if problems.is_empty() {
        text = format!("No problems found by {}.", servers.join(" and "));
    } else if total > problems.len() {
        let _ = writeln!(text, "… {} of {total}; raise `limit` to see more", problems.len());
    }
    if let Some(note) = &note {
        let _ = write!(text, "\n{note}");
    }
    WithText::new(Problems { list: problems, total, servers, note }, text)
}

/// The diagnostics of a file that a server has: asked for if it can be asked, else as it published them.
pub(super) async fn diagnostics_of(running: &Running, target: &Target) -> Result<Vec<Diagnostic>, ToolError> {
    if running.session.supports("textDocument/diagnostic").await {
        let list = running.pull(&target.path).await.map_err(|error| super::failed(running, &error))?;
        return Ok(diagnostics(&list));
    }
    let published = running.session.published(&target.path, PUBLISHED).await;
    Ok(published.map(|list| diagnostics(&list)).unwrap_or_default())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DiagnoseProject {
    /// The project, or a folder of it.
    #[serde(default = "here")]
    directory: String,
    /// How severe a problem must be: `error`, `warning` (which includes errors) or `all`.
    #[serde(default = "errors")]
    severity: Least,
    /// How many problems to list.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 5000), transform = clamp)]
    limit: usize,
}

fn errors() -> Least {
    Least::Error
}

fn hundred() -> usize {
    100
}

/// Lists the errors and warnings of a whole project, in all its languages that have a server.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_workspace_diagnostics(
    code: &Code,
    context: &Context,
    args: DiagnoseProject,
) -> Result<WithText<Problems>, ToolError> {
    let place = code.locate(context, &args.directory).await?;
    let mut problems = Vec::new();
    let mut servers = Vec::new();
    let mut note = None;
    for running in code.for_project(context, &place, "").await? {
        let (found, skipped) = of_project(code, context, &place, &running, args.severity).await?;
        problems.extend(found);
        servers.push(running.server.name.clone());
        if skipped > 0 {
            note = Some(format!("{skipped} files were not looked at; name a folder to see those in it."));
        }
    }
    Ok(to_answer(problems, servers, args.limit, note))
}

/// The problems that one server knows below a folder, and how many files were left out.
async fn of_project(
    code: &Code,
    context: &Context,
    place: &Place,
    running: &Arc<Running>,
    least: Least,
) -> Result<(Vec<Problem>, usize), ToolError> {
    let folder = place.project.root().join(&place.below);
    let mut problems = Vec::new();
    if running.session.supports("workspace/diagnostic").await {
        let answer = request(running, "workspace/diagnostic", json!({ "previousResultIds": [] })).await?;
        for report in answer["items"].as_array().into_iter().flatten() {
            let path = report["uri"].as_str().and_then(path_of).filter(|path| path.starts_with(&folder));
            if let Some(path) = path {
                problems.extend(shown(running, &path, &diagnostics(&report["items"]), least));
            }
        }
        return Ok((problems, 0));
    }
    let files = Walk::default().files(place);
    let known: Vec<_> = files.iter().filter(|path| running.server.language(path).is_some()).collect();
    for (done, path) in known.iter().take(MOST_FILES).enumerate() {
        let Some(text) = place.project.text(path) else { continue };
        let target = Target {
            path: place.project.root().join(path),
            place: Place { below: (*path).clone(), ..place.clone() },
            text,
        };
        code.warm(context, &target, &running.server).await?;
        let found = diagnostics_of(running, &target).await?;
        problems.extend(shown(running, &target.path, &found, least));
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        context.progress(number(done + 1), number(known.len()));
    }
    Ok((problems, known.len().saturating_sub(MOST_FILES)))
}

impl Code {
    /// The warm servers for the languages of a project that can do this; an empty method means anything.
    pub(super) async fn for_project(
        &self,
        context: &Context,
        place: &Place,
        method: &str,
    ) -> Result<Vec<Arc<Running>>, ToolError> {
        let files = Walk::default().files(place);
        let mut all: Vec<Arc<Running>> = Vec::new();
        let mut missing = Vec::new();
        for server in self.pool.servers() {
            let has_main = |path: &Path| {
                all.iter().any(|running| {
                    running.server.role == Role::Main && running.server.language(path).is_some()
                })
            };
            let mut own = files.iter().filter(|path| server.language(path).is_some());
            let Some(file) = own.next() else { continue };
            if server.role == Role::Main && has_main(file) {
                continue;
            }
            if let Err(why) = self.pool.find(server, Some(place.project.root())).await {
                missing.push(format!("{}: {why} (to install it: {})", server.name, server.install));
                continue;
            }
            let Some(text) = place.project.text(file) else { continue };
            let target = Target {
                path: place.project.root().join(file),
                place: Place { below: file.clone(), ..place.clone() },
                text,
            };
            let running = self.warm(context, &target, server).await?;
            if method.is_empty() || running.session.supports(method).await {
                let _ = self.loaded(context, &running).await;
                all.push(running);
            }
        }
        if all.is_empty() {
            return Err(ToolError::new(format!(
                "no language server can be used in `{}`",
                place.project.root().display()
            ))
            .hint(if missing.is_empty() {
                "it has no files in a language with a known server".to_owned()
            } else {
                missing.join("; ")
            }));
        }
        Ok(all)
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Diagnosed {
    /// The absolute path of the file, without its first slash.
    path: String,
}

/// The current diagnostics of a file as JSON. Subscribers learn of changes after an edit.
#[tool(template = "code://diagnostics/{+path}", mime = "application/json")]
pub(crate) async fn file_diagnostics(
    code: &Code,
    context: &Context,
    args: Diagnosed,
) -> Result<Contents, ToolError> {
    let target = code.target(context, &format!("/{}", args.path)).await?;
    let mut problems = Vec::new();
    for running in code.all_serving(context, &target, None).await? {
        let found = diagnostics_of(&running, &target).await?;
        problems.extend(shown(&running, &target.path, &found, Least::All));
    }
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    Contents::json(&problems)
}
