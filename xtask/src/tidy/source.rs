//! One Rust file, parsed, with the knowledge of which of its lines are tests.

use std::ops::RangeInclusive;

use anyhow::{Context as _, Result};
use proc_macro2::TokenTree;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta};

use crate::workspace;

pub(super) struct Source {
    /// Relative to the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) syntax: syn::File,
    /// Lines of tests within code, counted from one.
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub(super) fn read(path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(workspace::root().join(path)).context("read the file")?;
        Self::parse(path, text)
    }

    pub(super) fn parse(path: &str, text: String) -> Result<Self> {
        let syntax = syn::parse_file(&text).context("parse the file as Rust")?;
        let mut tests = Tests { lines: Vec::new() };
        tests.visit_file(&syntax);
        Ok(Self { path: path.to_owned(), text, syntax, test_lines: tests.lines })
    }

    /// Whether the whole file is a test.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.starts_with("tests/") || self.path.contains("/tests/")
    }

    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    pub(super) fn code_lines(&self) -> usize {
        let tests: usize = self.test_lines.iter().map(|lines| lines.end() - lines.start() + 1).sum();
        self.text.lines().count().saturating_sub(tests)
    }
}

/// Collects the items that exist in tests only.
struct Tests {
    lines: Vec<RangeInclusive<usize>>,
}

impl<'a> Visit<'a> for Tests {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if attributes.iter().any(is_test) {
            let span = item.span();
            self.lines.push(span.start().line..=span.end().line);
        } else {
            visit::visit_item(self, item);
        }
    }
}

/// `#[test]`, `#[tokio::test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let names = names_in(list.tokens.clone());
            names.iter().any(|name| name == "test") && !names.iter().any(|name| name == "not")
        }
        meta => meta.path().segments.last().is_some_and(|segment| segment.ident == "test"),
    }
}

fn names_in(tokens: proc_macro2::TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => names_in(group.stream()),
            TokenTree::Ident(name) => vec![name.to_string()],
            _ => Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_known() {
        let text = "//! A file.\nfn code() {}\n#[cfg(test)]\nmod tests {\n    fn helper() {}\n}\n#[cfg(not(test))]\nfn more() {}\n";
        let source = Source::parse("src/a.rs", text.to_owned()).unwrap();
        let test_lines: Vec<usize> = (1..=8).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(test_lines, [3, 4, 5, 6]);
        assert_eq!(source.code_lines(), 4);
    }
}
