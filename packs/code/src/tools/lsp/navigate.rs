//! Reading: hover, definitions, references, implementations, callers, types and symbols.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_lsp::{Location, Range, Symbol, kind_name, locations, path_of, symbols, uri_of};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::{Spot, Spots, Target, Wanted, at, position, request};
use crate::servers::Running;
use crate::tools::{Code, here};

/// A place in a file.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct At {
    /// The file.
    file_path: String,
    /// The line, counted from 1. Not needed with `symbol`.
    line: Option<usize>,
    /// The column in characters, counted from 0; the first name of the line by default.
    character: Option<usize>,
    /// A symbol of the file instead of a position, such as `Type/method`.
    symbol: Option<String>,
}

impl At {
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted { line: self.line, character: self.character, symbol: self.symbol.as_deref() }
    }

    pub(super) fn file(&self) -> &str {
        &self.file_path
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Hover {
    /// Types and documentation, as Markdown; empty if the server knows nothing.
    contents: String,
    /// The server that answered.
    server: String,
}

/// Shows the type and the documentation of a symbol.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_hover(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Hover>, ToolError> {
    let (running, target, answer) = ask(code, context, &args, "textDocument/hover").await?;
    let contents = hover_text(&answer["contents"]);
    let text = if contents.is_empty() {
        let file = target.place.below.display();
        format!("`{}` has no information about this place in `{file}`.", running.server.name)
    } else {
        contents.clone()
    };
    Ok(WithText::new(Hover { contents, server: running.server.name.clone() }, text))
}

/// The text of a hover in any of its forms.
fn hover_text(contents: &Value) -> String {
    match contents {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(hover_text).collect::<Vec<_>>().join("\n\n"),
        Value::Object(_) => {
            let value = contents["value"].as_str().unwrap_or_default();
            match contents["language"].as_str() {
                Some(language) => format!("```{language}\n{value}\n```"),
                None => value.to_owned(),
            }
        }
        _ => String::new(),
    }
}

/// Asks the server for something at a place.
async fn ask(
    code: &Code,
    context: &Context,
    args: &At,
    method: &str,
) -> Result<(std::sync::Arc<Running>, Target, Value), ToolError> {
    let target = code.target(context, &args.file_path).await?;
    let running = code.serving(context, &target, method).await?;
    let position = position(&running, &target, &args.wanted()).await?;
    let answer = code.known(context, &running, method, at(&target, position)).await?;
    Ok((running, target, answer))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Places {
    /// The project's root.
    project: String,
    #[serde(rename = "places")]
    list: Vec<Spot>,
    /// How many there are in all; more than are listed if the limit was reached.
    total: usize,
    /// The server that answered.
    server: String,
}

fn places(running: &Running, found: &[Location], limit: usize, none: &str) -> WithText<Places> {
    let mut spots = Spots::new(running);
    let mut places: Vec<Spot> = found.iter().map(|location| spots.spot(location)).collect();
    places.sort();
    places.dedup();
    let total = places.len();
    places.truncate(limit);
    let mut text = places.iter().map(Spot::to_text).collect::<Vec<_>>().join("\n");
    if places.is_empty() {
        none.clone_into(&mut text);
    } else if total > places.len() {
        let _ = write!(text, "\n… {} of {total}; raise `limit` to see more", places.len());
    }
    let project = running.project.root().display().to_string();
    WithText::new(Places { project, list: places, total, server: running.server.name.clone() }, text)
}

const MOST: usize = 1000;

/// Finds where a symbol is defined.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_goto_definition(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Places>, ToolError> {
    let (running, _, answer) = ask(code, context, &args, "textDocument/definition").await?;
    Ok(places(&running, &locations(&answer), MOST, "No definition found."))
}

/// Finds what implements an interface, a trait or an abstract method.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_implementations(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Places>, ToolError> {
    let (running, _, answer) = ask(code, context, &args, "textDocument/implementation").await?;
    Ok(places(&running, &locations(&answer), MOST, "No implementation found."))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct References {
    /// The file.
    file_path: String,
    /// The line, counted from 1. Not needed with `symbol`.
    line: Option<usize>,
    /// The column in characters, counted from 0; the first name of the line by default.
    character: Option<usize>,
    /// A symbol of the file instead of a position, such as `Type/method`.
    symbol: Option<String>,
    /// Whether the declaration itself is listed.
    #[serde(default = "yes")]
    include_declaration: bool,
    /// How many places to list.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    limit: usize,
}

fn yes() -> bool {
    true
}

fn fifty() -> usize {
    50
}

/// Finds all uses of a symbol.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_find_references(
    code: &Code,
    context: &Context,
    args: References,
) -> Result<WithText<Places>, ToolError> {
    let target = code.target(context, &args.file_path).await?;
    let running = code.serving(context, &target, "textDocument/references").await?;
    let wanted = Wanted { line: args.line, character: args.character, symbol: args.symbol.as_deref() };
    let mut params = at(&target, position(&running, &target, &wanted).await?);
    params["context"] = json!({ "includeDeclaration": args.include_declaration });
    let answer = code.known(context, &running, "textDocument/references", params).await?;
    Ok(places(&running, &locations(&answer), args.limit, "No references found."))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Hierarchy {
    /// The function or type that was asked about.
    of: Vec<String>,
    related: Vec<Relative>,
    /// The server that answered.
    server: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Relative {
    /// `caller`, `callee`, `supertype` or `subtype`.
    relation: String,
    name: String,
    kind: String,
    at: Spot,
    /// The places of the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Spot>,
}

/// Finds the functions that call a function, and those that it calls.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_callers(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Hierarchy>, ToolError> {
    let (running, _, items) = ask(code, context, &args, "textDocument/prepareCallHierarchy").await?;
    let steps =
        [("callHierarchy/incomingCalls", "caller", "from"), ("callHierarchy/outgoingCalls", "callee", "to")];
    related(&running, &items, &steps).await
}

/// Finds the supertypes and the subtypes of a type.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_type_hierarchy(
    code: &Code,
    context: &Context,
    args: At,
) -> Result<WithText<Hierarchy>, ToolError> {
    let (running, _, items) = ask(code, context, &args, "textDocument/prepareTypeHierarchy").await?;
    let steps = [("typeHierarchy/supertypes", "supertype", ""), ("typeHierarchy/subtypes", "subtype", "")];
    related(&running, &items, &steps).await
}

/// Follows a hierarchy one step in each direction. `key` is where an answer has its item; empty if it is the item.
async fn related(
    running: &Running,
    items: &Value,
    steps: &[(&str, &str, &str)],
) -> Result<WithText<Hierarchy>, ToolError> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut spots = Spots::new(running);
    let mut related = Vec::new();
    for item in items {
        for (method, relation, key) in steps {
            let answer = request(running, method, json!({ "item": item })).await?;
            for found in answer.as_array().into_iter().flatten() {
                let other = if key.is_empty() { found } else { &found[*key] };
                related.extend(relation_of(&mut spots, relation, item, other, &found["fromRanges"]));
            }
        }
    }
    let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
    let of: Vec<String> = items.iter().map(name).collect();
    let lines: Vec<String> = related
        .iter()
        .map(|one| format!("{} {} {} {}", one.relation, one.kind, one.name, one.at.to_text()))
        .collect();
    let text = if lines.is_empty() { "Nothing found.".to_owned() } else { lines.join("\n") };
    Ok(WithText::new(Hierarchy { of, related, server: running.server.name.clone() }, text))
}

fn relation_of(
    spots: &mut Spots<'_>,
    relation: &str,
    item: &Value,
    other: &Value,
    calls: &Value,
) -> Option<Relative> {
    let path = path_of(other["uri"].as_str()?)?;
    // Calls to a function are in the caller's file, calls by it in its own.
    let caller = if relation == "caller" { path.clone() } else { path_of(item["uri"].as_str()?)? };
    let calls = calls.as_array().into_iter().flatten().filter_map(Range::read);
    Some(Relative {
        relation: relation.to_owned(),
        name: other["name"].as_str()?.to_owned(),
        kind: kind_name(other["kind"].as_u64().unwrap_or_default()).to_owned(),
        calls: calls.map(|range| spots.at(&caller, range)).collect(),
        at: spots.at(&path, Range::read(&other["selectionRange"])?),
    })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FileArgs {
    /// The file.
    pub(super) file_path: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Outline {
    symbols: Vec<Listed>,
    /// The server that answered.
    server: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The path that other tools take as `symbol`.
    path: String,
    kind: String,
    at: Spot,
}

/// Lists the symbols of a file with their paths.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_document_symbols(
    code: &Code,
    context: &Context,
    args: FileArgs,
) -> Result<WithText<Outline>, ToolError> {
    const METHOD: &str = "textDocument/documentSymbol";
    let target = code.target(context, &args.file_path).await?;
    let running = code.serving(context, &target, METHOD).await?;
    let params = json!({ "textDocument": { "uri": uri_of(&target.path) } });
    let answer = code.known(context, &running, METHOD, params).await?;
    let mut listed = Vec::new();
    list(&mut Spots::new(&running), &target, &symbols(&answer), "", &mut listed);
    let lines: Vec<String> = listed
        .iter()
        .map(|symbol| format!("{:>5} {} {}", symbol.at.line, symbol.kind, symbol.path))
        .collect();
    let text = if lines.is_empty() { "The file has no symbols.".to_owned() } else { lines.join("\n") };
    Ok(WithText::new(Outline { symbols: listed, server: running.server.name.clone() }, text))
}

fn list(spots: &mut Spots<'_>, target: &Target, symbols: &[Symbol], above: &str, listed: &mut Vec<Listed>) {
    for symbol in symbols {
        let above = symbol.container.as_deref().filter(|_| above.is_empty()).unwrap_or(above);
        let path = if above.is_empty() { symbol.name.clone() } else { format!("{above}/{}", symbol.name) };
        let range = Range { start: symbol.at, end: symbol.range.end };
        let kind = kind_name(symbol.kind).to_owned();
        listed.push(Listed { path: path.clone(), kind, at: spots.at(&target.path, range) });
        list(spots, target, &symbol.children, &path, listed);
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WorkspaceSymbols {
    /// A name or a part of it.
    #[schemars(length(min = 1))]
    query: String,
    /// The project, or a folder or file of it.
    #[serde(default = "here")]
    directory: String,
    /// How many symbols to list.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    limit: usize,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Named {
    project: String,
    symbols: Vec<Listed>,
    total: usize,
    /// The servers that answered.
    servers: Vec<String>,
}

/// Finds symbols of a project by name, in all its languages that have a server.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_workspace_symbols(
    code: &Code,
    context: &Context,
    args: WorkspaceSymbols,
) -> Result<WithText<Named>, ToolError> {
    let place = code.locate(context, &args.directory).await?;
    let folder = place.project.root().join(&place.below);
    let (mut listed, mut servers) = (Vec::new(), Vec::new());
    for running in code.for_project(context, &place, "workspace/symbol").await? {
        let answer =
            code.known(context, &running, "workspace/symbol", json!({ "query": args.query })).await?;
        let mut spots = Spots::new(&running);
        for symbol in symbols(&answer) {
            let Some(path) = symbol.path.as_ref().filter(|path| path.starts_with(&folder)) else { continue };
            let container =
                symbol.container.as_deref().map(|container| format!("{container}/")).unwrap_or_default();
            listed.push(Listed {
                path: format!("{container}{}", symbol.name),
                kind: kind_name(symbol.kind).to_owned(),
                at: spots.at(path, symbol.range),
            });
        }
        servers.push(running.server.name.clone());
    }
    let total = listed.len();
    listed.truncate(args.limit);
    let lines: Vec<String> = listed
        .iter()
        .map(|symbol| format!("{} {} {}", symbol.at.to_text(), symbol.kind, symbol.path))
        .collect();
    let text = if lines.is_empty() { "No symbol found.".to_owned() } else { lines.join("\n") };
    let project = place.project.root().display().to_string();
    Ok(WithText::new(Named { project, symbols: listed, total, servers }, text))
}
