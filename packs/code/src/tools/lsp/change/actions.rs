//! Code actions: the fixes and refactorings that language servers offer for a place.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_lsp::{Diagnostic, Lines, Position, Range, uri_of};
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::super::diagnose::diagnostics_of;
use super::super::navigate::At;
use super::super::{REQUEST, Target, failed, position, request};
use super::{rewritten, yes};
use crate::servers::Running;
use crate::tools::Code;
use crate::tools::rewrite::{Replaced, Wish, conclude};

/// An action with the server that offers it.
pub(super) struct Offered {
    running: Arc<Running>,
    pub(super) raw: Value,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Actions {
    actions: Vec<CodeAction>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CodeAction {
    /// Pass it to `lsp_code_action_resolve` as `action_code`.
    action_code: String,
    kind: String,
    /// The codes of the diagnostics that it fixes.
    fixes: Vec<String>,
    server: String,
    /// Whether the server recommends it.
    preferred: bool,
}

/// Lists the fixes and refactorings that the servers offer at a place.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_code_actions(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Actions>, ToolError> {
    let target = code.target(context, args.file()).await?;
    let wanted = args.wanted();
    let line = match (wanted.line, wanted.symbol) {
        (Some(line), None) => Some((line, wanted.character)),
        _ => None,
    };
    let mut offered = Vec::new();
    for running in code.all_serving(context, &target, Some("textDocument/codeAction")).await? {
        // Without a column the whole line is meant.
        let range = if let Some((line, None)) = line {
            whole_line(&running, &target, line)
        } else {
            let start = position(&running, &target, &wanted).await?;
            Range { start, end: start }
        };
        offered.extend(offers(&running, &target, range, None).await?);
    }
    let actions: Vec<CodeAction> = offered.iter().map(Offered::shown).collect();
    let lines: Vec<String> = actions
        .iter()
        .map(|action| format!("{} [{}] ({})", action.action_code, action.kind, action.server))
        .collect();
    let text = if lines.is_empty() { "No action is offered here.".to_owned() } else { lines.join("\n") };
    Ok(WithText::new(Actions { actions }, text))
}

fn whole_line(running: &Running, target: &Target, line: usize) -> Range {
    let lines = Lines::new(&target.text);
    let end = lines.line(line.saturating_sub(1)).chars().count();
    let position = |column| lines.position(line, column, running.session.encoding());
    Range { start: position(0), end: position(end) }
}

impl Offered {
    pub(super) fn title(&self) -> &str {
        self.raw["title"].as_str().unwrap_or_default()
    }

    fn fixes(&self) -> Vec<String> {
        toolyard_lsp::diagnostics(&self.raw["diagnostics"]).into_iter().filter_map(|one| one.code).collect()
    }

    fn shown(&self) -> CodeAction {
        CodeAction {
            action_code: self.title().to_owned(),
            kind: self.raw["kind"].as_str().unwrap_or("command").to_owned(),
            fixes: self.fixes(),
            server: self.running.server.name.clone(),
            preferred: self.raw["isPreferred"] == true,
        }
    }

    /// Whether this is the action that a title, a kind or the code of a diagnostic means.
    fn is_meant(&self, code: &str) -> bool {
        self.title() == code || self.raw["kind"] == code || self.fixes().iter().any(|fixed| fixed == code)
    }

    /// The edits of the action: its own, those that the server adds on request, those of its command.
    pub(super) async fn edits(&self) -> Result<Vec<Value>, ToolError> {
        let running = &self.running;
        let mut action = self.raw.clone();
        if action["edit"].is_null()
            && running.session.supports("codeAction/resolve").await
            && action["kind"].is_string()
        {
            action = request(running, "codeAction/resolve", action).await?;
        }
        let mut edits: Vec<Value> =
            Some(action["edit"].clone()).filter(Value::is_object).into_iter().collect();
        let command = if action["command"].is_string() { &action } else { &action["command"] };
        if edits.is_empty() && command.is_object() {
            let asked = running.session.command(command, REQUEST).await;
            edits.extend(asked.map_err(|error| failed(running, &error))?);
        }
        Ok(edits)
    }
}

/// The actions that a server offers for a range.
pub(super) async fn offers(
    running: &Arc<Running>,
    target: &Target,
    range: Range,
    only: Option<&str>,
) -> Result<Vec<Offered>, ToolError> {
    let touching: Vec<Value> = diagnostics_of(running, target)
        .await?
        .into_iter()
        .filter(|diagnostic: &Diagnostic| diagnostic.range.touches(&range))
        .map(|diagnostic| diagnostic.raw)
        .collect();
    let mut wanted = json!({ "diagnostics": touching, "triggerKind": 1 });
    if let Some(only) = only {
        wanted["only"] = json!([only]);
    }
    let params = json!({ "textDocument": { "uri": uri_of(&target.path) }, "range": range.to_json(), "context": wanted });
    let answer = request(running, "textDocument/codeAction", params).await?;
    let list = answer.as_array().cloned().unwrap_or_default();
    let usable = list.into_iter().filter(|action| action["disabled"].is_null());
    Ok(usable.map(|raw| Offered { running: running.clone(), raw }).collect())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Resolve {
    /// The file.
    file_path: String,
    /// Which action: its title, its kind such as `source.organizeImports`, or the code of a diagnostic such as `F401`.
    #[schemars(length(min = 1))]
    action_code: String,
    /// The line, counted from 1; the whole file by default.
    line: Option<usize>,
    /// Whether to show the change only.
    #[serde(default = "yes")]
    dry_run: bool,
    /// The id of a preview: the change is refused if it is no longer the one that was previewed.
    preview: Option<String>,
}

/// Carries out a fix or a refactoring of the language server. A dry run shows the diff.
#[tool(destructive)]
pub(crate) async fn lsp_code_action_resolve(
    code: &Code,
    context: &Context,
    args: Resolve,
) -> Result<WithText<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
    let mut titles = Vec::new();
    for running in code.all_serving(context, &target, Some("textDocument/codeAction")).await? {
        let range = match args.line {
            Some(line) => whole_line(&running, &target, line),
            None => whole_file(&running, &target),
        };
        let mut offered = offers(&running, &target, range, None).await?;
        if args.action_code.starts_with("source.") {
            offered.extend(offers(&running, &target, range, Some(&args.action_code)).await?);
        }
        // The recommended one first, if several fix the same.
        offered.sort_by_key(|action| action.raw["isPreferred"] != true);
        if let Some(action) = offered.iter().find(|action| action.is_meant(&args.action_code)) {
            let rewritten = rewritten(&running, &action.edits().await?)?;
            let wish = Wish { dry_run: args.dry_run, preview: args.preview };
            return conclude(code, &target.place.project, &rewritten, &wish);
        }
        titles.extend(offered.iter().map(|action| action.title().to_owned()));
    }
    titles.dedup();
    let offered = if titles.is_empty() {
        "no action is offered there".to_owned()
    } else {
        format!("offered: {}", titles.join("; "))
    };
    Err(ToolError::not_found(format!("no action `{}` is offered", args.action_code)).hint(offered))
}

fn whole_file(running: &Running, target: &Target) -> Range {
    let lines = Lines::new(&target.text);
    let last = lines.count();
    let end = lines.position(last, usize::MAX, running.session.encoding());
    Range { start: Position { line: 0, character: 0 }, end }
}
