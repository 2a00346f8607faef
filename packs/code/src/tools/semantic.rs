//! The tools that search the index: by meaning, with filters, in several ways.

pub(crate) mod health;
pub(crate) mod manage;
mod several;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::search::ten;
use super::{Code, here};
use crate::history::ChangedWith;
use crate::index::{Answer, Filter, rank};
use crate::project::Place;
use crate::search::ast;
use several::{Searching, both};

/// What a search by meaning found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Answers {
    /// The project's root.
    project: String,
    results: Vec<Answer>,
    /// The share of the project's chunks that the search could compare by meaning.
    coverage: f32,
    /// For the best results, the files that commits changed along with them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<Related>,
    /// What the query was turned into.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A file of the results with those that changed along with it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Related {
    pub(crate) file: String,
    pub(crate) changed_with: Vec<ChangedWith>,
}

/// What changed along with the files of the three best results.
pub(crate) fn related(code: &Code, place: &Place, results: &[Answer]) -> Vec<Related> {
    let history = code.histories.of(&code.host, place.project.root());
    let mut related: Vec<Related> = Vec::new();
    for answer in results.iter().take(3) {
        let changed_with = history.changed_with(&answer.file);
        if !changed_with.is_empty() && related.iter().all(|known| known.file != answer.file) {
            related.push(Related { file: answer.file.clone(), changed_with });
        }
    }
    related
}

impl Answers {
    /// Moves results for which `is_better` holds to the front, and keeps the first `limit`. Returns how many were better.
    pub(crate) fn prefer(&mut self, limit: usize, is_better: impl Fn(&Answer) -> bool) -> usize {
        // Within each half the order by meaning stays.
        let (mut results, others): (Vec<Answer>, Vec<Answer>) =
            std::mem::take(&mut self.results).into_iter().partition(is_better);
        let better = results.len();
        results.extend(others);
        results.truncate(limit);
        self.results = results;
        better
    }

    /// The same with a further note.
    fn noted(self, note: String) -> Self {
        let note = self.note.into_iter().chain([note]).collect::<Vec<_>>().join(" ");
        Self { note: Some(note), ..self }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        if self.results.is_empty() {
            out.push_str("Nothing found.\n");
        }
        for (n, answer) in self.results.iter().enumerate() {
            let name = if answer.name.is_empty() { &answer.kind } else { &answer.name };
            let _ = writeln!(
                out,
                "{}. {}:{}-{} {name} (score {})\n{}\n",
                n + 1,
                answer.file,
                answer.line,
                answer.end_line,
                answer.score,
                answer.snippet.trim_end()
            );
        }
        out.push_str(&coverage_line(self.coverage));
        for related in &self.related {
            let names: Vec<&str> = related.changed_with.iter().map(|with| with.file.as_str()).collect();
            let _ = writeln!(out, "{} often changed together with {}.", related.file, names.join(", "));
        }
        if let Some(note) = &self.note {
            let _ = writeln!(out, "{note}");
        }
        out
    }
}

/// A line about the coverage; nothing if it is complete.
pub(crate) fn coverage_line(coverage: f32) -> String {
    let percent = coverage * 100.0;
    if coverage < 1.0 {
        format!("Coverage: {percent:.0} % of the chunks have a vector so far.\n")
    } else {
        String::new()
    }
}

/// Searches one project, after bringing its index up to date.
pub(crate) fn answers(
    code: &Code,
    place: &Place,
    provider: Option<&str>,
    query: &str,
    filter: &Filter,
    limit: usize,
) -> Result<Answers, ToolError> {
    if !rank::has_words(query) {
        return Err(
            ToolError::new("the query has no words").hint("ask in words, or use `grep_search` for symbols")
        );
    }
    code.expect_payer(place, provider)?;
    let index = code.index(place, provider)?;
    index.refresh_if_stale()?;
    let found = code.search(&index, query, filter, limit);
    let note = found.note();
    Ok(Answers {
        project: place.project.root().display().to_string(),
        results: found.answers,
        coverage: index.size().coverage(),
        related: Vec::new(),
        note,
    })
}

/// Adds the files that changed together with those of the best results. The history is read in the background and the
/// search does not wait for it, so the first answers may lack them.
pub(crate) fn with_related(
    code: &Code,
    place: &Place,
    search: impl FnOnce() -> Result<Answers, ToolError>,
) -> Result<Answers, ToolError> {
    code.histories.of(&code.host, place.project.root());
    let mut found = search()?;
    found.related = related(code, place, &found.results);
    Ok(found)
}

fn with_text(answers: Answers) -> WithText<Answers> {
    let text = answers.to_text();
    WithText::new(answers, text)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Search {
    /// What the code does, in words.
    #[schemars(length(min = 1))]
    query: String,
    /// How many results to list.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    n_results: usize,
    /// Only code in this language, such as `python` or `rs`.
    language: Option<String>,
    /// Only this kind: `function`, `method`, `class`, `interface`, `type` or `text`.
    node_type: Option<String>,
    /// The project to search.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

impl Search {
    fn filter(&self) -> Filter {
        Filter { language: self.language.clone(), node_type: self.node_type.clone(), ..Filter::default() }
    }
}

/// Finds code by what it does. The index is made on the first search and kept current.
#[tool(read_only, idempotent)]
pub(crate) fn semantic_search(
    code: &Code,
    context: &Context,
    args: Search,
) -> Result<WithText<Answers>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let search =
        || answers(code, &place, args.provider.as_deref(), &args.query, &args.filter(), args.n_results);
    Ok(with_text(with_related(code, &place, search)?))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Hybrid {
    /// What the code does, in words.
    #[schemars(length(min = 1))]
    query: String,
    /// An ast-grep pattern: results that contain a match come first.
    pattern: Option<String>,
    /// How many results to list.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    n_results: usize,
    /// Only code in this language.
    language: Option<String>,
    /// Only this kind: `function`, `method`, `class`, `interface`, `type` or `text`.
    node_type: Option<String>,
    /// Only definitions with this decorator or attribute.
    decorator: Option<String>,
    /// Only functions that are, or are not, async.
    is_async: Option<bool>,
    /// Only classes that extend this one.
    base_class: Option<String>,
    /// The project to search.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

/// Finds code by what it does and by its syntax together, with filters for decorators, async and base classes.
#[tool(read_only, idempotent)]
pub(crate) fn hybrid_search(
    code: &Code,
    context: &Context,
    args: Hybrid,
) -> Result<WithText<Answers>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let filter = Filter {
        language: args.language.clone(),
        node_type: args.node_type,
        decorator: args.decorator,
        is_async: args.is_async,
        base_class: args.base_class,
    };
    let search = || {
        let Some(pattern) = &args.pattern else {
            return answers(code, &place, args.provider.as_deref(), &args.query, &filter, args.n_results);
        };
        let go_on = || !context.is_cancelled();
        let matches = ast::search(&place, pattern, args.language.as_deref(), 10_000, &go_on)?;
        let mut found = answers(code, &place, args.provider.as_deref(), &args.query, &filter, usize::MAX)?;
        let lines = matches.lines();
        let with_pattern = found.prefer(args.n_results, |answer| answer.has_any_of(&lines));
        Ok(found.noted(format!("{with_pattern} results contain `{pattern}` and come first.")))
    };
    Ok(with_text(with_related(code, &place, search)?))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Several {
    /// What the code does, in words.
    #[schemars(length(min = 1))]
    query: String,
    /// How many results to list.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    n_results: usize,
    /// How many further wordings of the query to search for.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 8), transform = clamp)]
    num_expansions: usize,
    /// Only code in this language.
    language: Option<String>,
    /// Only this kind of code.
    node_type: Option<String>,
    /// The project to search.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

fn three() -> usize {
    3
}

/// Finds code by several wordings of a question at once. Wordings come from a configured model; without one the
/// question is searched as it is, and the answer notes that.
#[tool(read_only, idempotent)]
pub(crate) fn multi_query_search(
    code: &Code,
    context: &Context,
    args: Several,
) -> Result<WithText<Answers>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let filter = Filter { language: args.language, node_type: args.node_type, ..Filter::default() };
    let search = Searching {
        code,
        context,
        place: &place,
        provider: args.provider.as_deref(),
        filter: &filter,
        limit: args.n_results,
    };
    let search = || search.expanded(&args.query, args.num_expansions);
    Ok(with_text(with_related(code, &place, search)?))
}

/// Finds code for each part of a question that asks for several things.
#[tool(read_only, idempotent)]
pub(crate) fn decomposed_search(
    code: &Code,
    context: &Context,
    args: Search,
) -> Result<WithText<Answers>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let search = Searching {
        code,
        context,
        place: &place,
        provider: args.provider.as_deref(),
        filter: &args.filter(),
        limit: args.n_results,
    };
    Ok(with_text(with_related(code, &place, || search.decomposed(&args.query))?))
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Chosen by the form of the query.
    #[default]
    Auto,
    /// Several wordings.
    Expand,
    /// Part by part.
    Decompose,
    /// Both.
    Both,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Enhanced {
    /// What the code does, in words.
    #[schemars(length(min = 1))]
    query: String,
    /// How many results to list.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    n_results: usize,
    /// How the query is enhanced.
    #[serde(default)]
    mode: Mode,
    /// Only code in this language.
    language: Option<String>,
    /// Only this kind of code.
    node_type: Option<String>,
    /// The project to search.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

/// Finds code by the wordings or the parts of a question, whichever fits it.
#[tool(read_only, idempotent)]
pub(crate) fn enhanced_search(
    code: &Code,
    context: &Context,
    args: Enhanced,
) -> Result<WithText<Answers>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let filter = Filter { language: args.language, node_type: args.node_type, ..Filter::default() };
    let is_long = args.query.contains(" and ") || args.query.split_whitespace().count() > 10;
    let decompose = match args.mode {
        Mode::Auto => is_long,
        Mode::Decompose | Mode::Both => true,
        Mode::Expand => false,
    };
    let search = Searching {
        code,
        context,
        place: &place,
        provider: args.provider.as_deref(),
        filter: &filter,
        limit: args.n_results,
    };
    let search = || match args.mode {
        Mode::Both => {
            let parts = search.decomposed(&args.query)?;
            let wordings = search.expanded(&args.query, three())?;
            let note = [parts.note.clone(), wordings.note.clone()].into_iter().flatten().collect::<Vec<_>>();
            let both = Answers { results: both(parts.results, wordings.results, args.n_results), ..wordings };
            Ok(Answers { note: Some(note.join(" ")), ..both })
        }
        _ if decompose => search.decomposed(&args.query),
        _ => search.expanded(&args.query, three()),
    };
    Ok(with_text(with_related(code, &place, search)?))
}
