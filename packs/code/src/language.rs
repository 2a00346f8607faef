//! The languages whose grammars are built in.

use std::path::Path;

use ast_grep_core::Language as _;
use ast_grep_language::SupportLang;

/// Fourteen grammars, of which TypeScript has two dialects; all of ast-grep's with the feature `all-grammars`.
#[cfg(not(feature = "all-grammars"))]
const BUILT_IN: &[SupportLang] = &[
    SupportLang::Bash,
    SupportLang::C,
    SupportLang::Css,
    SupportLang::Go,
    SupportLang::Html,
    SupportLang::Java,
    SupportLang::JavaScript,
    SupportLang::Json,
    SupportLang::Php,
    SupportLang::Python,
    SupportLang::Ruby,
    SupportLang::Rust,
    SupportLang::Tsx,
    SupportLang::TypeScript,
    SupportLang::Yaml,
];
#[cfg(feature = "all-grammars")]
const BUILT_IN: &[SupportLang] = SupportLang::all_langs();

/// All languages that can be parsed.
pub(crate) fn built_in() -> &'static [SupportLang] {
    BUILT_IN
}

/// The language of a file, by its name.
pub(crate) fn of_file(path: &Path) -> Option<SupportLang> {
    SupportLang::from_path(path).filter(|language| BUILT_IN.contains(language))
}

/// The language of a name such as `rust` or `py`.
pub(crate) fn named(name: &str) -> Option<SupportLang> {
    name.parse().ok().filter(|language| BUILT_IN.contains(language))
}

/// Whether a file is of this language, by the language's name or by the ending of the file.
pub(crate) fn is(path: &Path, wanted: &str) -> bool {
    let wanted = wanted.trim_start_matches('.').to_lowercase();
    let by_name = of_file(path).is_some_and(|own| named(&wanted) == Some(own));
    by_name || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted.as_str()))
}

/// A language's name, in lower case.
pub(crate) fn name(language: SupportLang) -> String {
    language.to_string().to_lowercase()
}
