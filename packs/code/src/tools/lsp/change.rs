//! Changing: rename, code actions, extract and format. All show a diff first and change all files or none.

pub(crate) mod actions;
pub(crate) mod extract;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_lsp::{FileEdits, Lines, Position, Range, TextEdit, file_edits, uri_of};
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::navigate::At;
use super::{Target, Wanted, at, position, request};
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

/// Checks whether the name at a position can be changed.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_prepare_rename(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Renamable>, ToolError> {
    let target = code.target(context, args.file()).await?;
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
    Ok(WithText::new(Renamable { can_rename: name.is_some(), name, reason }, text))
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
) -> Result<WithText<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
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
    conclude(code, &target.place.project, &rewritten, &Wish { dry_run: args.dry_run, preview: args.preview })
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
) -> Result<WithText<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
    let running = code.serving(context, &target, "textDocument/formatting").await?;
    let uri = uri_of(&target.path);
    let options = json!({ "tabSize": 4, "insertSpaces": true, "insertFinalNewline": true });
    let params = json!({ "textDocument": { "uri": uri }, "options": options });
    let edits = request(&running, "textDocument/formatting", params).await?;
    let edits = if edits.is_null() { json!([]) } else { edits };
    let rewritten = rewritten(&running, &[json!({ "changes": { uri: edits } })])?;
    conclude(code, &target.place.project, &rewritten, &Wish { dry_run: args.dry_run, preview: args.preview })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_at_a_byte_is_whole() {
        let text = "let größe = 1;";
        for byte in [4, 5, 11] {
            assert_eq!(word_at(text, byte).as_deref(), Some("größe"), "{byte}");
        }
        assert_eq!(word_at(text, 12), None);
    }
}
