//! `grep_search`, `glob_files`, `ast_grep_search`, `ast_grep_replace` and `find_code`.

use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::rewrite::{Replaced, Wish, conclude};
use super::{Code, here, semantic};
use crate::index::Filter;
use crate::project::Place;
use crate::search::route::{SearchType, has_metavariable, route};
use crate::search::terms::Terms;
use crate::search::{Matches, ast, glob, grep};

/// So many places of one part of a query are compared with the results by meaning.
const MOST_PLACES: usize = 10_000;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Grep {
    /// A regular expression.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Where to search: a folder or a file.
    #[serde(default = "here")]
    directory: String,
    /// Only files that match this glob, such as `*.rs` or `!*.md`.
    file_pattern: Option<String>,
    /// Whether capitals and small letters are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines before and after each match to list, too.
    #[serde(default)]
    #[schemars(range(min = 0, max = 50), transform = clamp)]
    context: usize,
    /// How many matches to list.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 10_000), transform = clamp)]
    limit: usize,
}

fn fifty() -> usize {
    50
}

/// Finds lines that match a regular expression, as ripgrep does: ignored, hidden and binary files are skipped.
#[tool(read_only, idempotent)]
pub(crate) fn grep_search(
    code: &Code,
    context: &Context,
    args: Grep,
) -> Result<WithText<Matches>, ToolError> {
    let place = code.place(context, &args.directory)?;
    let query = grep::Query {
        pattern: &args.pattern,
        file_pattern: args.file_pattern.as_deref(),
        ignore_case: args.ignore_case,
        context: args.context,
        limit: args.limit,
        ..grep::Query::default()
    };
    let found = grep::grep(&place, &query, &|| !context.is_cancelled())?;
    let text = found.to_text();
    Ok(WithText::new(found, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Glob {
    /// A glob for file names, such as `*.rs`; with a `/` it is matched against paths.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Where to look.
    #[serde(default = "here")]
    directory: String,
    /// How many files to list.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 10_000), transform = clamp)]
    limit: usize,
}

fn hundred() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FileList {
    /// The project's root.
    project: String,
    /// Relative to the root, sorted.
    files: Vec<String>,
    /// How many match in all.
    total: usize,
}

/// Finds files by name, as fd does: ignored and hidden files are skipped.
#[tool(read_only, idempotent)]
pub(crate) fn glob_files(
    code: &Code,
    context: &Context,
    args: Glob,
) -> Result<WithText<FileList>, ToolError> {
    let place = code.place(context, &args.directory)?;
    let mut files = glob::glob(&place, &args.pattern)?;
    let total = files.len();
    files.truncate(args.limit);
    let mut text = if files.is_empty() { "No file matches.".to_owned() } else { files.join("\n") };
    if total > files.len() {
        let _ = write!(text, "\n… {} of {total} files; raise `limit` to see more", files.len());
    }
    Ok(WithText::new(FileList { project: place.project.root().display().to_string(), files, total }, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AstSearch {
    /// Code with metavariables: `$NAME` matches one node, `$$$NAME` matches several.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Where to search.
    #[serde(default = "here")]
    directory: String,
    /// The language of the pattern; without it every file is searched in its own language.
    language: Option<String>,
    /// How many matches to list.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    limit: usize,
}

/// Finds code by its syntax, with ast-grep patterns such as `$A.unwrap()` or `console.log($$$ARGS)`.
#[tool(read_only, idempotent)]
pub(crate) fn ast_grep_search(
    code: &Code,
    context: &Context,
    args: AstSearch,
) -> Result<WithText<Matches>, ToolError> {
    let place = code.place(context, &args.directory)?;
    let go_on = || !context.is_cancelled();
    let found = ast::search(&place, &args.pattern, args.language.as_deref(), args.limit, &go_on)?;
    let text = found.to_text();
    Ok(WithText::new(found, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AstReplace {
    /// Code with metavariables, as in `ast_grep_search`.
    #[schemars(length(min = 1))]
    pattern: String,
    /// What replaces each match; metavariables of the pattern can be used.
    replacement: String,
    /// Where to replace.
    #[serde(default = "here")]
    directory: String,
    /// The language of the pattern.
    language: Option<String>,
    /// Whether to show the change only.
    #[serde(default = "yes")]
    dry_run: bool,
    /// The id of a preview: the change is refused if it is no longer the one that was previewed.
    preview: Option<String>,
}

fn yes() -> bool {
    true
}

/// Rewrites code by its syntax. A dry run shows the diff; applying changes all files or none.
#[tool(destructive)]
pub(crate) fn ast_grep_replace(
    code: &Code,
    context: &Context,
    args: AstReplace,
) -> Result<WithText<Replaced>, ToolError> {
    let place = code.place(context, &args.directory)?;
    let go_on = || !context.is_cancelled();
    let rewritten = ast::rewrite(&place, &args.pattern, &args.replacement, args.language.as_deref(), &go_on)?;
    conclude(code, &place.project, &rewritten, &Wish { dry_run: args.dry_run, preview: args.preview })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindCode {
    /// A question in words, a pattern with metavariables, a name, or a regular expression.
    #[schemars(length(min = 1))]
    query: String,
    /// How to search; chosen by the form of the query by default.
    #[serde(default)]
    search_type: SearchType,
    /// The project to search.
    #[serde(default = "here")]
    project_path: String,
    /// Only code in this language.
    language: Option<String>,
    /// How many results to list.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    n_results: usize,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

pub(crate) fn ten() -> usize {
    10
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    /// How the query was searched.
    search_type: SearchType,
    /// Results of a search by text or syntax.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Matches>,
    /// Results of a search by meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<semantic::Answers>,
}

/// Finds code by whatever fits the query: by meaning for a question, by syntax for a pattern, by text for the rest.
#[tool(read_only, idempotent)]
pub(crate) fn find_code(
    code: &Code,
    context: &Context,
    args: FindCode,
) -> Result<WithText<Found>, ToolError> {
    let provider = args.provider.as_deref();
    code.expect_provider(provider)?;
    let place = code.place(context, &args.project_path)?;
    let search_type = match args.search_type {
        SearchType::Auto => route(&args.query),
        chosen => chosen,
    };
    let go_on = || !context.is_cancelled();
    let language = args.language.as_deref();
    let by_text = |pattern: &str, is_literal: bool| {
        let query =
            grep::Query { pattern, is_literal, language, limit: args.n_results, ..grep::Query::default() };
        grep::grep(&place, &query, &go_on)
    };
    let (matches, answers) = match search_type {
        SearchType::Ast => (Some(ast::search(&place, &args.query, language, args.n_results, &go_on)?), None),
        SearchType::Exact => (Some(by_text(args.query.trim().trim_matches('"'), true)?), None),
        SearchType::Semantic => {
            let filter = Filter { language: args.language.clone(), ..Filter::default() };
            let search = || semantic::answers(code, &place, provider, &args.query, &filter, args.n_results);
            (None, Some(semantic::with_related(code, &place, search)?))
        }
        SearchType::Hybrid => {
            let mut matches = None;
            let answers = semantic::with_related(code, &place, || {
                let (found, answers) = hybrid(code, &place, &args, &go_on)?;
                matches = Some(found);
                Ok(answers)
            })?;
            (matches, Some(answers))
        }
        // A name or a piece of code that is not an expression is looked for as it is.
        SearchType::Grep | SearchType::Auto => {
            (Some(by_text(&args.query, false).or_else(|_| by_text(&args.query, true))?), None)
        }
    };
    let text = match (&matches, &answers) {
        (Some(matches), Some(answers)) => format!("{}\n{}", answers.to_text(), matches.to_text()),
        (Some(matches), None) => matches.to_text(),
        (None, Some(answers)) => answers.to_text(),
        (None, None) => String::new(),
    };
    Ok(WithText::new(Found { search_type, matches, answers }, text))
}

/// Searches by meaning for the wanted parts of a query, and by text or syntax for each part. Results that have the parts
/// as the query joins them come first.
fn hybrid(
    code: &Code,
    place: &Place,
    args: &FindCode,
    go_on: &dyn Fn() -> bool,
) -> Result<(Matches, semantic::Answers), ToolError> {
    let terms = Terms::parse(&args.query);
    let filter = Filter { language: args.language.clone(), ..Filter::default() };
    let question = terms.wanted().join(" ");
    let mut answers =
        semantic::answers(code, place, args.provider.as_deref(), &question, &filter, usize::MAX)?;
    let mut found: Vec<(&str, Matches)> = Vec::new();
    for part in terms.parts() {
        found.push((part, places(place, part, args.language.as_deref(), go_on)?));
    }
    let lines: HashMap<&str, _> = found.iter().map(|(part, found)| (*part, found.lines())).collect();
    answers.prefer(args.n_results, |answer| terms.hold(|part| answer.has_any_of(&lines[part])));
    let mut matches = Matches { project: place.project.root().display().to_string(), ..Matches::default() };
    for (_, found) in found.into_iter().filter(|(part, _)| terms.wanted().contains(part)) {
        matches.files = matches.files.max(found.files);
        matches.total += found.total;
        matches.list.extend(found.list);
    }
    matches.list.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    matches.list.truncate(args.n_results);
    Ok((matches, answers))
}

/// Where a part of a query is: by syntax if it is a pattern, otherwise by its text in capitals and small letters alike.
fn places(
    place: &Place,
    part: &str,
    language: Option<&str>,
    go_on: &dyn Fn() -> bool,
) -> Result<Matches, ToolError> {
    if has_metavariable(part) {
        return ast::search(place, part, language, MOST_PLACES, go_on);
    }
    let query = grep::Query {
        pattern: part.trim_matches('"'),
        is_literal: true,
        ignore_case: true,
        language,
        limit: MOST_PLACES,
        ..grep::Query::default()
    };
    grep::grep(place, &query, go_on)
}
