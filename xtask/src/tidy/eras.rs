//! Only a few modules may know that the protocol has two eras; everything else works on one model.
//!
//! Looks at code, not at comments: at the words inside identifiers and at string literals that are a
//! dated revision. Test code may name what it likes. The modules `toolyard_proto::modern` and
//! `toolyard_proto::legacy` may be named everywhere: they hold pure conversions and constants.

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::Lit;

use super::Findings;
use super::source::Source;

/// Who may name an era. A path is a folder or a file without its extension.
const ALLOWED: &[(&str, &str)] = &[
    ("bench", "measures both eras"),
    ("crates/toolyard-core/src/bridge", "joins a client of one era to an upstream of the other"),
    ("crates/toolyard-proto/src/legacy", "what is particular to the legacy era on the wire"),
    ("crates/toolyard-proto/src/era", "distinguishes the eras"),
    ("crates/toolyard-proto/src/lib", "declares these modules"),
    ("crates/toolyard-proto/src/modern", "what is particular to the modern era on the wire"),
    ("crates/toolyard-testkit", "plays clients and servers of both eras"),
    ("crates/toolyard-link/src/http", "calls upstreams of both eras"),
    ("crates/toolyard-link/src/probe", "finds out which era an upstream speaks, and connects in that era"),
    ("crates/toolyard-serve", "serves clients of both eras"),
    ("crates/toolyard-config/src/upstream", "the key `era` of an upstream"),
    ("xtask", "tests and measures both eras"),
];

const WORDS: [&str; 2] = ["legacy", "modern"];

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    for source in sources.iter().filter(|source| !source.is_test() && !is_allowed(&source.path)) {
        for (line, name) in names(source) {
            let place = format!("{}:{line}", source.path);
            findings.error(
                &place,
                &format!(
                    "`{name}` names an era: leave that to the modules in ALLOWED of xtask/src/tidy/eras.rs, or add this one there and to ARCHITECTURE.md"
                ),
            );
        }
    }
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| {
        path.strip_prefix(allowed).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    })
}

/// Where code that is not a test names an era, and how.
fn names(source: &Source) -> Vec<(usize, String)> {
    let Ok(tokens) = source.text.parse::<TokenStream>() else { return Vec::new() };
    let mut names = Names::default();
    names.walk(tokens);
    names.found.retain(|(line, _)| !source.is_test_line(*line));
    names.found
}

#[derive(Default)]
struct Names {
    found: Vec<(usize, String)>,
    /// The last three tokens, oldest first.
    before: [String; 3],
    /// Between `use` and its semicolon.
    in_use: bool,
}

impl Names {
    fn walk(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Group(group) => {
                    self.remember("(");
                    self.walk(group.stream());
                    self.remember(")");
                    continue;
                }
                TokenTree::Ident(name) if name == "use" => self.in_use = true,
                TokenTree::Punct(mark) if mark.as_char() == ';' => self.in_use = false,
                TokenTree::Ident(name) => {
                    let is_the_module =
                        (name == "modern" || name == "legacy") && (self.in_use || starts_path(tokens.peek()));
                    if !is_the_module && self.names_an_era(&name.to_string()) {
                        self.add(&token);
                    }
                }
                TokenTree::Literal(literal) if is_revision(literal) => self.add(&token),
                _ => {}
            }
            self.remember(&token.to_string());
        }
    }

    fn names_an_era(&self, name: &str) -> bool {
        // `hyper_util::client::legacy` is a name that others have given, and it means something else.
        let is_foreign = name == "legacy" && self.before == ["client", ":", ":"];
        !is_foreign && words(name).iter().any(|word| WORDS.contains(&word.as_str()))
    }

    fn add(&mut self, token: &TokenTree) {
        self.found.push((token.span().start().line, token.to_string()));
    }

    fn remember(&mut self, token: &str) {
        self.before.rotate_left(1);
        token.clone_into(&mut self.before[2]);
    }
}

/// Whether what follows a name is the first half of `::`.
fn starts_path(next: Option<&TokenTree>) -> bool {
    matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint)
}

fn is_revision(literal: &proc_macro2::Literal) -> bool {
    matches!(Lit::new(literal.clone()), Lit::Str(text) if REVISIONS.contains(&text.value().as_str()))
}

/// The words in an identifier: `LegacySession`, `is_modern` and `MODERN_ERA` all name one.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, expected: &[&str]) {
        let source = Source::parse("src/a.rs", format!("//! A legacy file.\n{code}\n")).unwrap();
        let found: Vec<String> = names(&source).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn identifiers_that_name_an_era_are_found() {
        check("fn is_legacy() {}", &["is_legacy"]);
        check("enum Era { Legacy, Other }", &["Legacy"]);
        check("const MODERN_ONLY: bool = true;", &["MODERN_ONLY"]);
        check("fn f(modern: bool) { if modern {} }", &["modern", "modern"]);
        check("struct ModernSession;", &["ModernSession"]);
        check("fn f() { println!(\"{}\", modern) }", &["modern"]);
        check("const V: &str = \"2025-11-25\";", &["\"2025-11-25\""]);
    }

    #[test]
    fn other_code_is_left_alone() {
        check("/// As in the legacy era, 2025-11-25.\nfn f() {} // legacy", &[]);
        check("use hyper_util::client::legacy::Client;", &[]);
        check("use toolyard_proto::{Raw, modern};\nfn f() { modern::stamp(); }", &[]);
        check("fn modernise() {}", &[]);
        check("const V: &str = \"a legacy thing of 2025-11-25\";", &[]);
        check("#[cfg(test)]\nmod tests { fn legacy() {} }", &[]);
    }

    /// What the check reports about one file.
    fn errors(path: &str, code: &str) -> Vec<String> {
        let source = Source::parse(path, format!("//! A file.\n{code}\n")).unwrap();
        let mut findings = Findings::default();
        super::check(&[source], &mut findings);
        findings.errors
    }

    #[test]
    fn a_module_that_may_not_name_an_era_and_does_is_an_error() {
        let code = "fn f(is_modern: bool) -> bool { is_modern }";
        let found = errors("crates/toolyard-core/src/dispatch.rs", code);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/toolyard-core/src/dispatch.rs:2: `is_modern` names an era"));
        let revision = "const OLD: &str = \"2025-06-18\";";
        assert_eq!(errors("crates/toolyard-link/src/own.rs", revision).len(), 1);
        assert_eq!(errors("crates/toolyard-config/src/reach.rs", revision).len(), 1);
        assert_eq!(errors("sdk/toolyard-tool/src/set.rs", revision).len(), 1);
        for allowed in
            ["crates/toolyard-core/src/bridge/convert.rs", "crates/toolyard-core/tests/gateway/pool.rs"]
        {
            assert_eq!(errors(allowed, code), Vec::<String>::new(), "{allowed}");
        }
    }

    #[test]
    fn a_path_is_allowed_as_a_whole() {
        assert!(is_allowed("crates/toolyard-serve/src/legacy/session.rs"));
        assert!(is_allowed("crates/toolyard-proto/src/era.rs"));
        assert!(!is_allowed("crates/toolyard-proto/src/erase.rs"));
        assert!(!is_allowed("crates/toolyard-core/src/dispatch.rs"));
    }
}
