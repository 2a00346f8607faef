//! `code_map` and `code_context`: an outline and a selection of a project within a budget of tokens.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::semantic::{coverage_line, related};
use super::{Code, here};
use crate::index::{Answer, Filter, Index, Outlined, SNIPPET};
use crate::project::{Place, Project};
use crate::search::shorten;

/// A token is about this many characters of code.
const CHARACTERS_PER_TOKEN: usize = 4;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Map {
    /// How long the outline may be, in tokens of four characters.
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
    /// How long the answer may be, in tokens of four characters.
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
    let (mut out, files) = pieces(&place.project, &found.answers, budget * 6 / 10);
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

/// The code of as many answers as fit, and where they are. A long piece is shortened to half of the room that is left,
/// so that others have room, too.
fn pieces(project: &Project, answers: &[Answer], budget: usize) -> (String, Vec<String>) {
    let (mut out, mut files, mut left) = (String::new(), Vec::new(), budget);
    let mut whole: Vec<&Answer> = Vec::new();
    for answer in answers {
        if whole.iter().any(|shown| shown.contains(answer)) {
            continue;
        }
        let code = code_of(project, answer);
        let most = SNIPPET.max(left / 2);
        let place = format!("{}:{}-{}", answer.file, answer.line, answer.end_line);
        let part = format!("## {place} {}\n{}\n\n", answer.name, shorten(&code, most));
        let Some(rest) = left.checked_sub(part.chars().count()) else { continue };
        left = rest;
        out.push_str(&part);
        files.push(format!("{}:{}", answer.file, answer.line));
        if code.chars().nth(most).is_none() {
            whole.push(answer);
        }
    }
    (out, files)
}

/// The lines of an answer as they are in its file.
fn code_of(project: &Project, answer: &Answer) -> String {
    let Some(text) = project.text(Path::new(&answer.file)) else { return answer.snippet.clone() };
    let lines = text.lines().skip(answer.line - 1).take(answer.end_line + 1 - answer.line);
    lines.collect::<Vec<_>>().join("\n")
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

    #[test]
    fn a_piece_may_take_half_of_the_room_and_what_a_whole_one_contains_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (1..=60).map(|line| format!("line {line:02} {}", "x".repeat(31))).collect();
        std::fs::write(folder.path().join("a.txt"), lines.join("\n")).unwrap();
        let project = crate::project::Projects::new(vec![folder.path().to_owned()], false);
        let project = project.locate(".", None).unwrap().project;
        let answer = |file: &str, line: usize, end_line: usize| Answer {
            file: file.into(),
            line,
            column: 1,
            end_line,
            kind: "text".into(),
            name: String::new(),
            score: 1.0,
            snippet: "as indexed".into(),
        };
        // 60 lines are 2,399 characters.
        let answers = [
            answer("a.txt", 1, 60),
            answer("a.txt", 21, 30),
            answer("a.txt", 25, 26),
            answer("gone.txt", 1, 1),
        ];
        let (text, files) = pieces(&project, &answers, 10_000);
        assert_eq!(files, ["a.txt:1", "gone.txt:1"], "the first has all lines of the next two");
        assert!(text.contains("line 60") && text.ends_with("## gone.txt:1-1 \nas indexed\n\n"), "{text}");
        let (text, files) = pieces(&project, &answers, 2_000);
        assert_eq!(files, ["a.txt:1", "a.txt:21", "gone.txt:1"]);
        assert!(text.contains("\nline 25 ") && text.contains("…\n\n## a.txt:21-30 \nline 21 "), "{text}");
        assert!(text.chars().count() <= 2_000, "{}", text.chars().count());
    }
}
