//! `ast_grep_search` and `ast_grep_replace`: code by its syntax, with metavariables, through ast-grep's library.

use std::path::{Path, PathBuf};

use ast_grep_core::matcher::Pattern;
use ast_grep_core::replacer::Replacer as _;
use ast_grep_core::tree_sitter::{LanguageExt as _, StrDoc};
use ast_grep_core::{AstGrep, NodeMatch};
use ast_grep_language::SupportLang;
use memchr::memmem;
use toolyard_tool::ToolError;

use super::{Match, Matches};
use crate::language;
use crate::project::Place;
use crate::walk::Walk;

/// One file as a rewrite would leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// Relative to the project's root.
    pub(crate) path: PathBuf,
    pub(crate) before: String,
    pub(crate) after: String,
    /// How many places change.
    pub(crate) changes: usize,
}

/// A pattern, compiled for each language when a file of that language is met.
struct Patterns<'a> {
    text: &'a str,
    only: Option<SupportLang>,
    compiled: Vec<(SupportLang, Option<Pattern>)>,
}

impl<'a> Patterns<'a> {
    fn new(text: &'a str, language: Option<&str>) -> Result<Self, ToolError> {
        let only = match language {
            None => None,
            Some(name) => Some(language::named(name).ok_or_else(|| unknown_language(name))?),
        };
        if let Some(only) = only {
            Pattern::try_new(text, only).map_err(|error| {
                ToolError::new(format!("`{text}` is not a pattern of {}: {error}", language::name(only)))
                    .hint(
                        "write it as code of that language, with $NAME for one node and $$$NAME for several",
                    )
            })?;
        }
        Ok(Self { text, only, compiled: Vec::new() })
    }

    /// The pattern in the language of this file, if it has one and the pattern is code in it.
    fn of_file(&mut self, path: &Path) -> Option<(SupportLang, &Pattern)> {
        let language = language::of_file(path)?;
        if self.only.is_some_and(|only| only != language) {
            return None;
        }
        let at = self.compiled.iter().position(|(known, _)| *known == language).unwrap_or_else(|| {
            self.compiled.push((language, Pattern::try_new(self.text, language).ok()));
            self.compiled.len() - 1
        });
        let (language, pattern) = &self.compiled[at];
        pattern.as_ref().map(|pattern| (*language, pattern))
    }
}

fn unknown_language(name: &str) -> ToolError {
    let known: Vec<String> = language::built_in().iter().map(|language| language::name(*language)).collect();
    ToolError::new(format!("language `{name}` is not built in")).hint(format!("known: {}", known.join(", ")))
}

/// A file that the pattern can match: it has the pattern's longest fixed text.
fn candidate(place: &Place, path: &Path, pattern: &Pattern) -> Option<String> {
    let text = place.project.text(path)?;
    memmem::find(text.as_bytes(), pattern.fixed_string().as_bytes()).map(|_| text)
}

/// All matches at or below a place, nested ones included, as ast-grep's own program lists them.
pub(crate) fn search(
    place: &Place,
    pattern: &str,
    language: Option<&str>,
    limit: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<Matches, ToolError> {
    let mut patterns = Patterns::new(pattern, language)?;
    let mut found = Matches { project: place.project.root().display().to_string(), ..Matches::default() };
    for path in Walk::default().files(place) {
        if !go_on() {
            return Err(ToolError::new("the search was cancelled"));
        }
        let Some((language, pattern)) = patterns.of_file(&path) else { continue };
        found.files += 1;
        let Some(text) = candidate(place, &path, pattern) else { continue };
        let tree = language.ast_grep(&text);
        for matched in tree.root().find_all(pattern) {
            found.total += 1;
            if found.list.len() < limit {
                found.list.push(as_match(&path, &matched));
            }
        }
    }
    Ok(found)
}

fn as_match(path: &Path, matched: &NodeMatch<'_, StrDoc<SupportLang>>) -> Match {
    let start = matched.start_pos();
    Match {
        file: path.display().to_string(),
        line: start.line() + 1,
        column: start.column(matched) + 1,
        end_line: matched.end_pos().line() + 1,
        text: matched.text().into_owned(),
        before: Vec::new(),
        after: Vec::new(),
    }
}

/// The files that a rewrite changes, with their text before and after.
pub(crate) fn rewrite(
    place: &Place,
    pattern: &str,
    replacement: &str,
    language: Option<&str>,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Rewritten>, ToolError> {
    let mut patterns = Patterns::new(pattern, language)?;
    let mut out = Vec::new();
    for path in Walk::default().files(place) {
        if !go_on() {
            return Err(ToolError::new("the rewrite was cancelled; nothing was changed"));
        }
        let Some((language, pattern)) = patterns.of_file(&path) else { continue };
        let Some(before) = candidate(place, &path, pattern) else { continue };
        let (after, changes) = rewritten(&language.ast_grep(&before), pattern, replacement);
        if changes > 0 && after != before {
            out.push(Rewritten { path, before, after, changes });
        }
    }
    Ok(out)
}

/// Matches inside a match that is replaced are left alone, or the edits would overlap.
fn rewritten(tree: &AstGrep<StrDoc<SupportLang>>, pattern: &Pattern, replacement: &str) -> (String, usize) {
    let source = tree.source();
    let mut after = String::with_capacity(source.len());
    let mut copied = 0;
    let mut changes = 0;
    for matched in tree.root().find_all(pattern) {
        let range = matched.range();
        if range.start < copied {
            continue;
        }
        after.push_str(&source[copied..range.start]);
        after.push_str(&String::from_utf8_lossy(&replacement.generate_replacement(&matched)));
        copied = range.end;
        changes += 1;
    }
    after.push_str(&source[copied..]);
    (after, changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Projects;

    const SOURCES: [(&str, &str); 3] = [
        ("a.rs", "fn main() {\n    let é = a.unwrap().b().unwrap();\n}\n"),
        ("b.py", "print(foo(1))\nprint(2)\n"),
        ("c.txt", "a.unwrap()\n"),
    ];

    fn place(folder: &tempfile::TempDir) -> Place {
        for (path, text) in SOURCES {
            std::fs::write(folder.path().join(path), text).unwrap();
        }
        Projects::new(vec![folder.path().to_owned()], false).locate(".", None).unwrap()
    }

    #[test]
    fn nested_matches_are_found_and_columns_count_characters() {
        let folder = tempfile::tempdir().unwrap();
        let found = search(&place(&folder), "$A.unwrap()", None, 10, &|| true).unwrap();
        let found: Vec<(&str, usize, usize, &str)> = found
            .list
            .iter()
            .map(|found| (found.file.as_str(), found.line, found.column, found.text.as_str()))
            .collect();
        assert_eq!(found, [("a.rs", 2, 13, "a.unwrap().b().unwrap()"), ("a.rs", 2, 13, "a.unwrap()")]);
    }

    #[test]
    fn the_language_limits_which_files_are_searched() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder);
        assert_eq!(search(&place, "print($A)", Some("python"), 10, &|| true).unwrap().total, 2);
        assert_eq!(search(&place, "print($A)", Some("rust"), 10, &|| true).unwrap().total, 0);
        let error = search(&place, "print($A)", Some("cobol"), 10, &|| true).unwrap_err();
        assert_eq!(error.message(), "language `cobol` is not built in");
    }

    #[test]
    fn a_rewrite_replaces_outer_matches_and_keeps_every_other_byte() {
        let folder = tempfile::tempdir().unwrap();
        let changed = rewrite(&place(&folder), "$A.unwrap()", "$A?", None, &|| true).unwrap();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].after, "fn main() {\n    let é = a.unwrap().b()?;\n}\n");
        assert_eq!(changed[0].changes, 1);
    }
}
