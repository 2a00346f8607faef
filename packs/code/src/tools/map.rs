//! `code_map` and `code_context`: an outline and a selection of a project within a budget of tokens.

use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::semantic::{coverage_line, related};
use super::{Code, here};
use crate::index::{Answer, Filter, Index, Outlined};
use crate::project::Place;

/// A token is about this many characters of code.
const CHARACTERS_PER_TOKEN: usize = 4;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Map {
    /// How long the outline may be, in tokens.
    #[serde(default = "two_thousand")]
    #[schemars(range(min = 100, max = 50_000), transform = clamp)]
    budget: usize,
    /// The project to outline.
    #[serde(default = "here")]
    project_path: String,
}

fn two_thousand() -> usize {
    2000
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Outline {
    project: String,
    /// Definitions in the outline, and in the project.
    shown: usize,
    total: usize,
    /// The outline, by file.
    map: String,
}

/// Outlines a project: its most used definitions by file, as many as fit into the budget.
#[tool(read_only, idempotent)]
pub(crate) fn code_map(code: &Code, context: &Context, args: Map) -> Result<WithText<Outline>, ToolError> {
    let place = code.place(context, &args.project_path)?;
    let index = code.index(&place, None)?;
    index.refresh_if_stale()?;
    let definitions = index.outline();
    let total = definitions.len();
    let (map, shown) = outline(definitions, args.budget * CHARACTERS_PER_TOKEN);
    let project = place.project.root().display().to_string();
    Ok(WithText::new(Outline { project, shown, total, map: map.clone() }, map))
}

/// The best definitions that fit, grouped by file and in the order of their lines.
fn outline(mut definitions: Vec<Outlined>, budget: usize) -> (String, usize) {
    definitions.sort_by(|a, b| b.uses.cmp(&a.uses).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line))));
    let mut files: HashMap<String, Vec<Outlined>> = HashMap::new();
    let (mut used, mut shown) = (0, 0);
    for definition in definitions {
        let heading =
            if files.contains_key(&definition.file) { 0 } else { definition.file.chars().count() + 2 };
        let cost = heading + line_of(&definition).chars().count() + 1;
        if used + cost > budget {
            continue;
        }
        used += cost;
        shown += 1;
        files.entry(definition.file.clone()).or_default().push(definition);
    }
    let mut files: Vec<(String, Vec<Outlined>)> = files.into_iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::new();
    for (file, mut definitions) in files {
        definitions.sort_by_key(|definition| definition.line);
        let _ = writeln!(out, "{file}:");
        for definition in definitions {
            let _ = writeln!(out, "{}", line_of(&definition));
        }
    }
    (out, shown)
}

fn line_of(definition: &Outlined) -> String {
    format!("  {}: {}", definition.line, definition.signature)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ForTask {
    /// What you are about to do, in words.
    #[schemars(length(min = 1))]
    task: String,
    /// How long the answer may be, in tokens.
    #[serde(default = "four_thousand")]
    #[schemars(range(min = 200, max = 50_000), transform = clamp)]
    budget: usize,
    /// The project.
    #[serde(default = "here")]
    project_path: String,
}

fn four_thousand() -> usize {
    4000
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Selection {
    project: String,
    /// The pieces that were chosen, best first.
    files: Vec<String>,
    /// The share of the project's chunks that could be compared by meaning.
    coverage: f32,
    /// Why meaning did not count everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Everything in one text.
    context: String,
}

/// Collects what is needed for a task within a budget: the code that fits it best, who uses it, and an outline.
#[tool(read_only, idempotent)]
pub(crate) fn code_context(
    code: &Code,
    context: &Context,
    args: ForTask,
) -> Result<WithText<Selection>, ToolError> {
    let place = code.place(context, &args.project_path)?;
    code.expect_payer(&place, None)?;
    let index = code.index(&place, None)?;
    index.refresh_if_stale()?;
    let budget = args.budget * CHARACTERS_PER_TOKEN;
    let found = code.search(&index, &args.task, &Filter::default(), 20);
    let (coverage, note) = (index.size().coverage(), found.note());
    let mut end = coverage_line(coverage);
    end.extend(note.iter().map(|note| format!("{note}\n")));
    let (mut out, files) = pieces(&found.answers, budget * 6 / 10);
    let together = changed_together(code, &place, &found.answers);
    for part in users(&index, &found.answers).into_iter().chain(together) {
        if out.chars().count() + part.chars().count() <= budget * 8 / 10 {
            out.push_str(&part);
        }
    }
    let left = budget.saturating_sub(out.chars().count() + end.chars().count() + 12);
    let (map, _) = outline(index.outline(), left);
    let _ = write!(out, "## Outline\n{map}{end}");
    let project = place.project.root().display().to_string();
    Ok(WithText::new(Selection { project, files, coverage, note, context: out.clone() }, out))
}

/// The code of as many answers as fit, and where they are.
fn pieces(answers: &[Answer], budget: usize) -> (String, Vec<String>) {
    let (mut out, mut files) = (String::new(), Vec::new());
    for answer in answers {
        let place = format!("{}:{}-{}", answer.file, answer.line, answer.end_line);
        let part = format!("## {place} {}\n{}\n\n", answer.name, answer.snippet);
        if out.chars().count() + part.chars().count() > budget {
            continue;
        }
        out.push_str(&part);
        files.push(format!("{}:{}", answer.file, answer.line));
    }
    (out, files)
}

/// Who uses the best answers: a part for each.
fn users(index: &Index, answers: &[Answer]) -> Vec<String> {
    let part = |answer: &Answer| {
        let name = answer.name.rsplit('/').next().unwrap_or_default();
        let users = index.users_of(name, &answer.file, answer.line, 5);
        (!users.is_empty()).then(|| format!("## Uses of {name}\n{}\n\n", users.join("\n")))
    };
    answers.iter().take(3).filter(|answer| !answer.name.is_empty()).filter_map(part).collect()
}

/// For the best files, those that commits changed along with them: `a.rs: b.rs (5 commits)`.
fn changed_together(code: &Code, place: &Place, answers: &[Answer]) -> Option<String> {
    let lines = related(code, place, answers).into_iter().map(|related| {
        let with =
            related.changed_with.iter().map(|with| format!("{} ({} commits)", with.file, with.commits));
        format!("{}: {}", related.file, with.collect::<Vec<_>>().join(", "))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| format!("## Files that changed together\n{}\n\n", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_fits_its_budget_and_prefers_what_is_used() {
        let definition = |file: &str, line: usize, uses: usize| Outlined {
            file: file.into(),
            line,
            signature: format!("fn f{line}()"),
            uses,
        };
        let all = vec![definition("b.rs", 1, 1), definition("a.rs", 9, 5), definition("a.rs", 2, 3)];
        let (map, shown) = outline(all.clone(), 1000);
        assert_eq!(map, "a.rs:\n  2: fn f2()\n  9: fn f9()\nb.rs:\n  1: fn f1()\n");
        assert_eq!(shown, 3);
        let (map, shown) = outline(all, 25);
        assert_eq!((map.as_str(), shown), ("a.rs:\n  9: fn f9()\n", 1));
    }
}
