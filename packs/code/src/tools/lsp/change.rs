//! Changing: rename, code actions, extract and format. All show a diff first and change all files or none.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_lsp::{Diagnostic, FileEdits, Lines, Position, Range, TextEdit, file_edits, uri_of};
use toolyard_tool::{Context, Told, ToolError, tool};

use super::diagnose::diagnostics_of;
use super::navigate::At;
use super::{REQUEST, Target, Wanted, at, failed, position, request};
use crate::search::ast::Rewritten;
use crate::servers::Running;
use crate::tools::Code;
use crate::tools::rewrite::{Replaced, Wish, conclude};

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Renamable {
    /// Whether there is a symbol that can be renamed.
    can_rename: bool,
    /// Its current name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Why it cannot be renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Checks whether a symbol can be renamed.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_prepare_rename(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<Told<Renamable>, ToolError> {
    let target = code.target(context, args.file())?;
    let running = code.serving(context, &target, "textDocument/rename").await?;
    let position = position(&running, &target, &args.wanted()).await?;
    let answer = prepare(&running, &target, position).await;
    let (name, reason) = match answer {
        Ok(Some(name)) => (Some(name), None),
        Ok(None) => (None, Some("there is no symbol that can be renamed".to_owned())),
        Err(error) => (None, Some(error.message().to_owned())),
    };
    let text = match (&name, &reason) {
        (Some(name), _) => format!("`{name}` can be renamed."),
        (None, reason) => format!("Cannot rename: {}.", reason.as_deref().unwrap_or_default()),
    };
    Ok(Told::new(Renamable { can_rename: name.is_some(), name, reason }, text))
}

/// The name at a position, if the server can rename it.
async fn prepare(
    running: &Running,
    target: &Target,
    position: Position,
) -> Result<Option<String>, ToolError> {
    let lines = Lines::new(&target.text);
    let word = word_at(&target.text, lines.byte(position, running.session.encoding()));
    if !running.session.supports("textDocument/prepareRename").await {
        return Ok(word);
    }
    let answer = request(running, "textDocument/prepareRename", at(target, position)).await?;
    let range = Range::read(&answer).or_else(|| Range::read(&answer["range"]));
    if let Some(range) = range {
        let byte = |position| lines.byte(position, running.session.encoding());
        let (start, end) = (byte(range.start), byte(range.end));
        return Ok(target.text.get(start..end).map(str::to_owned));
    }
    Ok(word.filter(|_| answer["defaultBehavior"] == true))
}

fn word_at(text: &str, byte: usize) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let before = text[..byte]
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let after = text[byte..].find(|c| !is_part(c)).map_or(text.len(), |at| byte + at);
    Some(text[before..after].to_owned()).filter(|word| !word.is_empty())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Rename {
    /// The file.
    file_path: String,
    /// The line, counted from 1. Not needed with `symbol`.
    line: Option<usize>,
    /// The column in characters, counted from 0; the first name of the line by default.
    character: Option<usize>,
    /// A symbol of the file instead of a position, such as `Type/method`.
    symbol: Option<String>,
    /// The new name.
    #[schemars(length(min = 1))]
    new_name: String,
    /// Whether to show the change only.
    #[serde(default = "yes")]
    dry_run: bool,
    /// The id of a preview: the change is refused if it is no longer the one that was previewed.
    preview: Option<String>,
}

/// Renames a symbol in all files. A dry run shows the diff; applying changes all files or none.
#[tool(destructive)]
pub(crate) async fn lsp_rename(
    code: &Code,
    context: &Context,
    args: Rename,
) -> Result<Told<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path)?;
    let running = code.serving(context, &target, "textDocument/rename").await?;
    let wanted = Wanted { line: args.line, character: args.character, symbol: args.symbol.as_deref() };
    let mut params = at(&target, position(&running, &target, &wanted).await?);
    params["newName"] = args.new_name.into();
    let edit = code.known(context, &running, "textDocument/rename", params).await?;
    let rewritten = rewritten(&running, &[edit])?;
    if rewritten.is_empty() {
        return Err(ToolError::new(format!("`{}` found nothing to rename there", running.server.name))
            .hint("lsp_prepare_rename shows what can be renamed"));
    }
    conclude(code, &running.project, &rewritten, &Wish { dry_run: args.dry_run, preview: args.preview })
}

/// The files of a project after these edits. An edit outside of the project refuses all of them.
fn rewritten(running: &Running, edits: &[Value]) -> Result<Vec<Rewritten>, ToolError> {
    applied(running, &read_edits(edits)?)
}

fn read_edits(edits: &[Value]) -> Result<Vec<FileEdits>, ToolError> {
    Ok(edits.iter().map(file_edits).collect::<Result<Vec<_>, _>>().map_err(edit_error)?.concat())
}

fn applied(running: &Running, edits: &[FileEdits]) -> Result<Vec<Rewritten>, ToolError> {
    let root = running.project.root();
    let mut files = Vec::new();
    for file in edits {
        let Ok(path) = file.path.strip_prefix(root) else {
            let path = file.path.display();
            return Err(ToolError::new(format!(
                "the change includes `{path}`, which is outside of the project"
            )));
        };
        let before = running.project.text(path).ok_or_else(|| {
            ToolError::new(format!("the change includes `{}`, which cannot be read", path.display()))
        })?;
        let after = TextEdit::apply(&before, &file.edits, running.session.encoding()).map_err(edit_error)?;
        if after != before {
            files.push(Rewritten { path: path.to_owned(), before, after, changes: file.edits.len() });
        }
    }
    Ok(files)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn edit_error(error: toolyard_lsp::EditError) -> ToolError {
    ToolError::new(error.to_string())
}

/// An action with the server that offers it.
struct Offered {
    running: Arc<Running>,
    raw: Value,
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
) -> Result<Told<Actions>, ToolError> {
    let target = code.target(context, args.file())?;
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
    Ok(Told::new(Actions { actions }, text))
}

fn whole_line(running: &Running, target: &Target, line: usize) -> Range {
    let lines = Lines::new(&target.text);
    let end = lines.line(line.saturating_sub(1)).chars().count();
    let position = |column| lines.position(line, column, running.session.encoding());
    Range { start: position(0), end: position(end) }
}

impl Offered {
    fn title(&self) -> &str {
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
    async fn edits(&self) -> Result<Vec<Value>, ToolError> {
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
async fn offers(
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
) -> Result<Told<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path)?;
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
            return conclude(code, &running.project, &rewritten, &wish);
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

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Extract {
    /// The file.
    file_path: String,
    /// The first line of the code, counted from 1.
    start_line: usize,
    /// The column of its first character, counted from 0.
    start_char: usize,
    /// The last line of the code.
    end_line: usize,
    /// The column after its last character, counted from 0.
    end_char: usize,
    /// The name of the new function or variable.
    #[schemars(length(min = 1))]
    new_name: String,
    /// What to make of the code.
    #[serde(default)]
    kind: ExtractKind,
    /// Whether to show the change only.
    #[serde(default = "yes")]
    dry_run: bool,
    /// The id of a preview: the change is refused if it is no longer the one that was previewed.
    preview: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExtractKind {
    #[default]
    Function,
    Variable,
}

/// Moves code into a new function or variable. A dry run shows the diff.
#[tool(destructive)]
pub(crate) async fn lsp_extract_refactor(
    code: &Code,
    context: &Context,
    args: Extract,
) -> Result<Told<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path)?;
    let lines = Lines::new(&target.text);
    let mut asked = Vec::new();
    for running in code.all_serving(context, &target, Some("textDocument/codeAction")).await? {
        let encoding = running.session.encoding();
        let range = Range {
            start: lines.position(args.start_line, args.start_char, encoding),
            end: lines.position(args.end_line, args.end_char, encoding),
        };
        let offered = offers(&running, &target, range, Some("refactor.extract")).await?;
        if let Some(action) = offered.iter().find(|action| extracts(action, args.kind)) {
            let mut edits = read_edits(&action.edits().await?)?;
            for file in &mut edits {
                name_new(&mut file.edits, args.kind, &args.new_name);
            }
            let files = applied(&running, &edits)?;
            let wish = Wish { dry_run: args.dry_run, preview: args.preview };
            return conclude(code, &running.project, &files, &wish);
        }
        asked.push(running.server.name.clone());
    }
    let what = if args.kind == ExtractKind::Function { "function" } else { "variable" };
    Err(ToolError::new(format!("no server offers to extract a {what} there (asked: {})", asked.join(", ")))
        .hint("select whole expressions or statements; rust-analyzer, gopls and clangd can extract"))
}

fn extracts(action: &Offered, kind: ExtractKind) -> bool {
    let (title, kind_of) = (action.title().to_lowercase(), action.raw["kind"].as_str().unwrap_or_default());
    let words: &[&str] = match kind {
        ExtractKind::Function => &["function", "method"],
        ExtractKind::Variable => &["variable", "constant"],
    };
    kind_of.starts_with("refactor.extract")
        && words.iter().any(|word| kind_of.ends_with(word) || title.contains(word))
}

/// Gives what was extracted its name. Servers invent one: it is in the new texts, once where it is defined and once where
/// it is used.
fn name_new(edits: &mut [TextEdit], kind: ExtractKind, new_name: &str) {
    let all: Vec<&str> = edits.iter().map(|edit| edit.text.as_str()).collect();
    let all = all.join("\n");
    let invented = defined(&all, kind).filter(|name| words(&all).filter(|word| word == name).count() > 1);
    let Some(invented) = invented.map(str::to_owned) else { return };
    for edit in edits {
        edit.text = with_name(&edit.text, &invented, new_name);
    }
}

/// The first name that a text defines with a keyword of this kind, or else the first name that stands before a call's
/// parentheses or an assignment.
fn defined(text: &str, kind: ExtractKind) -> Option<&str> {
    let keywords: &[&str] = match kind {
        ExtractKind::Function => &["fn", "def", "function", "func"],
        ExtractKind::Variable => &["let", "const", "var", "val", "auto"],
    };
    let named = words(text).zip(words(text).skip(1)).find(|(keyword, _)| keywords.contains(keyword));
    let follows = |word: &&str| {
        let at = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        let rest = text[at..].trim_start();
        match kind {
            ExtractKind::Function => rest.starts_with('('),
            ExtractKind::Variable => rest.starts_with('=') || rest.starts_with(":="),
        }
    };
    named.map(|(_, name)| name).or_else(|| words(text).find(follows))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c))
        .filter(|word| word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_'))
}

/// A text with one name replaced where it is a whole word.
fn with_name(text: &str, old: &str, new: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find(old).map(|found| at + found) {
        let end = found + old.len();
        let is_whole = !text[..found].ends_with(is_part) && !text[end..].starts_with(is_part);
        out.push_str(&text[at..found]);
        out.push_str(if is_whole { new } else { old });
        at = end;
    }
    out.push_str(&text[at..]);
    out
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Format {
    /// The file.
    file_path: String,
    /// Whether to show the change only.
    #[serde(default = "yes")]
    dry_run: bool,
    /// The id of a preview: the change is refused if it is no longer the one that was previewed.
    preview: Option<String>,
}

/// Formats a file as its language server does. A dry run shows the diff.
#[tool(destructive, idempotent)]
pub(crate) async fn lsp_format(
    code: &Code,
    context: &Context,
    args: Format,
) -> Result<Told<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path)?;
    let running = code.serving(context, &target, "textDocument/formatting").await?;
    let uri = uri_of(&target.path);
    let options = json!({ "tabSize": 4, "insertSpaces": true, "insertFinalNewline": true });
    let params = json!({ "textDocument": { "uri": uri }, "options": options });
    let edits = request(&running, "textDocument/formatting", params).await?;
    let edits = if edits.is_null() { json!([]) } else { edits };
    let rewritten = rewritten(&running, &[json!({ "changes": { uri: edits } })])?;
    conclude(code, &running.project, &rewritten, &Wish { dry_run: args.dry_run, preview: args.preview })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: ExtractKind, texts: &[&str]) -> Vec<String> {
        let start = Position { line: 0, character: 0 };
        let range = Range { start, end: start };
        let mut edits: Vec<TextEdit> =
            texts.iter().map(|&text| TextEdit { range, text: text.to_owned() }).collect();
        name_new(&mut edits, kind, "sum");
        edits.into_iter().map(|edit| edit.text).collect()
    }

    #[test]
    fn what_was_extracted_gets_the_wanted_name() {
        let rust = named(ExtractKind::Function, &["twice()", "fn twice() -> u32 { let twices = 1; }"]);
        assert_eq!(rust, ["sum()", "fn sum() -> u32 { let twices = 1; }"]);
        let c = named(ExtractKind::Function, &["int extracted(int a) { return a; }", "extracted(1)"]);
        assert_eq!(c, ["int sum(int a) { return a; }", "sum(1)"]);
        let python = named(ExtractKind::Variable, &["value = 1 + 2\n", "value"]);
        assert_eq!(python, ["sum = 1 + 2\n", "sum"]);
        let unclear = named(ExtractKind::Variable, &["nothing here"]);
        assert_eq!(unclear, ["nothing here"]);
    }

    #[test]
    fn the_word_at_a_byte_is_whole() {
        let text = "let größe = 1;";
        for byte in [4, 5, 11] {
            assert_eq!(word_at(text, byte).as_deref(), Some("größe"), "{byte}");
        }
        assert_eq!(word_at(text, 12), None);
    }
}
