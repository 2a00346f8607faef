//! `grep_search`: lines that match a regular expression, as ripgrep finds them.

use std::path::{Path, PathBuf};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use toolyard_tool::ToolError;

use super::{Match, Matches, column};
use crate::language;
use crate::project::Place;
use crate::walk::Walk;

/// What to look for.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) pattern: &'a str,
    /// Whether the pattern is a text, not an expression.
    pub(crate) is_literal: bool,
    pub(crate) file_pattern: Option<&'a str>,
    /// Only files of this language.
    pub(crate) language: Option<&'a str>,
    pub(crate) ignore_case: bool,
    /// How many lines around each match are listed, too.
    pub(crate) context: usize,
    pub(crate) limit: usize,
}

/// Searches all files at or below a place. `go_on` is asked before each file.
pub(crate) fn grep(place: &Place, query: &Query<'_>, go_on: &dyn Fn() -> bool) -> Result<Matches, ToolError> {
    let matcher = matcher(query)?;
    let walk = match query.file_pattern {
        Some(glob) => Walk::matching(place.project.root(), glob)?,
        None => Walk::default(),
    };
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(query.context)
        .after_context(query.context)
        .build();
    let mut found = Matches { project: place.project.root().display().to_string(), ..Matches::default() };
    let is_wanted = |path: &PathBuf| query.language.is_none_or(|wanted| language::is(path, wanted));
    for path in walk.files(place).into_iter().filter(is_wanted) {
        if !go_on() {
            return Err(ToolError::new("the search was cancelled"));
        }
        let Some(file) = place.project.open(&path) else { continue };
        found.files += 1;
        let mut sink = Lines {
            matcher: &matcher,
            path: &path,
            limit: query.limit,
            before: Vec::new(),
            is_listed: false,
            found: &mut found,
        };
        // A file that cannot be read to its end has what was found up to there.
        let _ = searcher.search_file(&matcher, &file, &mut sink);
    }
    Ok(found)
}

fn matcher(query: &Query<'_>) -> Result<RegexMatcher, ToolError> {
    let built = RegexMatcherBuilder::new()
        .case_insensitive(query.ignore_case)
        .fixed_strings(query.is_literal)
        .line_terminator(Some(b'\n'))
        .build(query.pattern);
    built.map_err(|error| {
        ToolError::new(format!("`{}` is not a valid regular expression: {error}", query.pattern))
            .hint("escape special characters with a backslash")
    })
}

struct Lines<'a> {
    matcher: &'a RegexMatcher,
    path: &'a Path,
    limit: usize,
    /// Lines that belong to the next match.
    before: Vec<String>,
    /// Whether the last match is listed, so that the lines after it are.
    is_listed: bool,
    found: &'a mut Matches,
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.found.total += 1;
        let before = std::mem::take(&mut self.before);
        self.is_listed = self.found.list.len() < self.limit;
        if self.is_listed {
            let line = text_of(matched.bytes());
            let at = first_match(self.matcher, &line);
            let number = usize::try_from(matched.line_number().unwrap_or(1)).unwrap_or(usize::MAX);
            self.found.list.push(Match {
                file: self.path.display().to_string(),
                line: number,
                column: column(&line, at),
                end_line: number,
                text: super::shorten(&line, 1000),
                before,
                after: Vec::new(),
            });
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        let line = super::shorten(&text_of(context.bytes()), 1000);
        match (context.kind(), self.found.list.last_mut()) {
            (SinkContextKind::After, Some(last)) if self.is_listed => last.after.push(line),
            (SinkContextKind::Before, _) => self.before.push(line),
            _ => {}
        }
        Ok(true)
    }
}

/// A line without its end.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_owned()
}

fn first_match(matcher: &RegexMatcher, line: &str) -> usize {
    matcher.find(line.as_bytes()).ok().flatten().map_or(0, |found| found.start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Projects;

    fn check(pattern: &str, file_pattern: Option<&str>, expected: &[(&str, usize, usize)]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".git")).unwrap();
        std::fs::create_dir_all(folder.path().join("src")).unwrap();
        for (path, text) in [
            ("src/a.rs", "fn one() {}\n// é two one\n"),
            ("src/b.py", "def one(): pass\n"),
            ("ignored.rs", "one\n"),
            (".hidden", "one\n"),
            (".gitignore", "ignored.rs\n"),
            ("binary", "one\0"),
        ] {
            std::fs::write(folder.path().join(path), text).unwrap();
        }
        let place = Projects::new(vec![folder.path().to_owned()], false).locate(".", None).unwrap();
        let query = Query { pattern, file_pattern, context: 0, limit: 100, ..Query::default() };
        let found = grep(&place, &query, &|| true).unwrap();
        let found: Vec<(&str, usize, usize)> =
            found.list.iter().map(|found| (found.file.as_str(), found.line, found.column)).collect();
        assert_eq!(found, expected, "{pattern}");
    }

    #[test]
    fn ignored_hidden_and_binary_files_are_skipped_and_columns_count_characters() {
        check("one", None, &[("src/a.rs", 1, 4), ("src/a.rs", 2, 10), ("src/b.py", 1, 5)]);
        check(r"\bone\b.*pass", None, &[("src/b.py", 1, 5)]);
        check("one", Some("*.py"), &[("src/b.py", 1, 5)]);
        check("One", None, &[]);
    }

    #[test]
    fn lines_around_matches_are_listed_once_and_only_for_matches_that_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "1\n2\nx3\n4\nx5\n6\n7\n8\n9\nx10\n11\n").unwrap();
        let place = Projects::new(vec![folder.path().to_owned()], false).locate(".", None).unwrap();
        let found = |limit| {
            let query = Query { pattern: "x", context: 2, limit, ..Query::default() };
            grep(&place, &query, &|| true).unwrap()
        };
        let all = "a.txt-1- 1\na.txt-2- 2\na.txt:3:1: x3\na.txt-4- 4\na.txt:5:1: x5\na.txt-6- 6\na.txt-7- 7\n\
                   a.txt-8- 8\na.txt-9- 9\na.txt:10:1: x10\na.txt-11- 11\n";
        assert_eq!(found(10).to_text(), all);
        let first = found(1);
        assert_eq!(
            (&first.list[0].before[..], &first.list[0].after[..], first.total),
            (&["1".to_owned(), "2".to_owned()][..], &["4".to_owned()][..], 3)
        );
        let query = Query { pattern: "2|10", context: 1, limit: 9, ..Query::default() };
        let apart = grep(&place, &query, &|| true).unwrap().to_text();
        assert_eq!(
            apart,
            "a.txt-1- 1\na.txt:2:1: 2\na.txt-3- x3\n--\na.txt-9- 9\na.txt:10:2: x10\na.txt-11- 11\n"
        );
    }

    #[test]
    fn an_invalid_expression_is_an_error_that_names_it() {
        let query = Query { pattern: "(", context: 0, limit: 1, ..Query::default() };
        assert!(matcher(&query).unwrap_err().message().contains("`(` is not a valid regular expression"));
    }
}
