//! Extracting code into a function or a variable, under the name that the caller wants.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_lsp::{Lines, Range, TextEdit};
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::actions::{Offered, offers};
use super::{applied, read_edits, yes};
use crate::tools::Code;
use crate::tools::rewrite::{Replaced, Wish, conclude};

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
) -> Result<WithText<Replaced>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
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
            return conclude(code, &target.place.project, &files, &wish);
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

/// The first name that a text defines with a keyword of this kind, or else the first name in front of a call's
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

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_lsp::Position;

    fn named(kind: ExtractKind, texts: &[&str]) -> Vec<String> {
        let start = Position { line: 0, character: 0 };
        let range = Range { start, end: start };
        let mut edits: Vec<TextEdit> =
            texts.iter().map(|&text| TextEdit { range, text: text.to_owned() }).collect();
        name_new(&mut edits, kind, "sum");
        edits.into_iter().map(|edit| edit.text).collect()
    }

    #[test]
    fn extracted_code_gets_the_requested_name() {
        let rust = named(ExtractKind::Function, &["twice()", "fn twice() -> u32 { let twices = 1; }"]);
        assert_eq!(rust, ["sum()", "fn sum() -> u32 { let twices = 1; }"]);
        let c = named(ExtractKind::Function, &["int extracted(int a) { return a; }", "extracted(1)"]);
        assert_eq!(c, ["int sum(int a) { return a; }", "sum(1)"]);
        let python = named(ExtractKind::Variable, &["value = 1 + 2\n", "value"]);
        assert_eq!(python, ["sum = 1 + 2\n", "sum"]);
        let unclear = named(ExtractKind::Variable, &["nothing here"]);
        assert_eq!(unclear, ["nothing here"]);
    }
}
