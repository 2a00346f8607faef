//! Files and functions stay small: a warning first, then an error. Tests do not count.
//!
//! Something that reads better long goes on the list of exceptions, with the reason.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::Findings;
use super::source::Source;

const FILE: Limit = Limit { warn: 500, fail: 800 };
const FUNCTION: Limit = Limit { warn: 60, fail: 100 };

/// What may be long, and why. An exception that is no longer needed is an error.
const EXCEPTIONS: &[Exception] = &[];

struct Limit {
    warn: usize,
    fail: usize,
}

struct Exception {
    path: &'static str,
    /// The function; nothing for the file as a whole.
    function: Option<&'static str>,
    reason: &'static str,
}

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    check_with(EXCEPTIONS, sources, findings);
}

fn check_with(exceptions: &[Exception], sources: &[Source], findings: &mut Findings) {
    let mut needed = vec![false; exceptions.len()];
    for thing in sources.iter().filter(|source| !source.is_test()).flat_map(things) {
        if thing.lines <= thing.limit.warn {
            continue;
        }
        let place = thing.place();
        let is_too_long = thing.lines > thing.limit.fail;
        let exception = exceptions.iter().position(|exception| thing.is(exception)).filter(|_| is_too_long);
        match exception {
            Some(index) => needed[index] = true,
            None if is_too_long => findings.error(
                &place,
                &format!(
                    "{} lines, {} at most: split it, or add it with a reason to EXCEPTIONS in xtask/src/tidy/sizes.rs",
                    thing.lines, thing.limit.fail
                ),
            ),
            None => findings.warn(&place, &format!("{} lines, {} is where it gets long", thing.lines, thing.limit.warn)),
        }
    }
    for (exception, needed) in exceptions.iter().zip(needed) {
        if !needed || exception.reason.is_empty() {
            let name = exception.function.unwrap_or("the file");
            let what = format!("the exception for {name} has no reason or is no longer needed: remove it");
            findings.error(exception.path, &what);
        }
    }
}

/// A file or a function, with its length.
struct Thing<'a> {
    path: &'a str,
    function: Option<String>,
    line: usize,
    lines: usize,
    limit: Limit,
}

impl Thing<'_> {
    fn place(&self) -> String {
        match &self.function {
            Some(function) => format!("{}:{}: {function}", self.path, self.line),
            None => self.path.to_owned(),
        }
    }

    fn is(&self, exception: &Exception) -> bool {
        self.path == exception.path && self.function.as_deref() == exception.function
    }
}

fn things(source: &Source) -> Vec<Thing<'_>> {
    let file = Thing { path: &source.path, function: None, line: 1, lines: source.code_lines(), limit: FILE };
    let mut functions = Functions { source, found: vec![file] };
    functions.visit_file(&source.syntax);
    functions.found
}

struct Functions<'a> {
    source: &'a Source,
    found: Vec<Thing<'a>>,
}

impl Functions<'_> {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let line = signature.fn_token.span().start().line;
        if self.source.is_test_line(line) {
            return;
        }
        self.found.push(Thing {
            path: &self.source.path,
            function: Some(signature.ident.to_string()),
            line,
            lines: body.span().end().line - line + 1,
            limit: FUNCTION,
        });
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a file with one function of so many lines.
    fn check(lines: usize, exceptions: &[Exception]) -> (usize, usize) {
        let body = "    work();\n".repeat(lines - 2);
        let source = Source::parse("src/a.rs", format!("//! A file.\nfn long() {{\n{body}}}\n")).unwrap();
        let mut findings = Findings::default();
        check_with(exceptions, &[source], &mut findings);
        (findings.errors.len(), findings.warnings.len())
    }

    fn exception(reason: &'static str) -> [Exception; 1] {
        [Exception { path: "src/a.rs", function: Some("long"), reason }]
    }

    #[test]
    fn a_function_is_warned_about_before_it_is_refused() {
        assert_eq!(check(60, &[]), (0, 0));
        assert_eq!(check(61, &[]), (0, 1));
        assert_eq!(check(100, &[]), (0, 1));
        assert_eq!(check(101, &[]), (1, 0));
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_use() {
        assert_eq!(check(101, &exception("a flat table")), (0, 0));
        assert_eq!(check(101, &exception("")), (1, 0));
        assert_eq!(check(20, &exception("a flat table")), (1, 0));
    }
}
