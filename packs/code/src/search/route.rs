//! Which search fits a question: by syntax, by meaning, both, or by text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of search.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SearchType {
    /// Chosen by the form of the query.
    #[default]
    Auto,
    /// By syntax, with metavariables.
    Ast,
    /// By meaning.
    Semantic,
    /// By meaning; results whose code has the parts of the query, by text or syntax, come first.
    Hybrid,
    /// By regular expression.
    Grep,
    /// By the exact text.
    Exact,
}

/// Words that join parts of a query only when they are written in capitals.
const OPERATORS: [&str; 3] = ["AND", "OR", "NOT"];

/// First words of statements; a query that begins with one and has few words is code.
const KEYWORDS: [&str; 24] = [
    "async",
    "class",
    "const",
    "def",
    "enum",
    "export",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "interface",
    "let",
    "package",
    "pub",
    "return",
    "struct",
    "type",
    "use",
    "var",
    "while",
];

/// Words of questions.
const QUESTION_WORDS: [&str; 14] = [
    "are", "can", "code", "does", "find", "how", "is", "show", "that", "the", "what", "where", "which", "why",
];

/// The kind of search that a query asks for by its form.
pub(crate) fn route(query: &str) -> SearchType {
    let query = query.trim();
    let words: Vec<&str> = query.split_whitespace().collect();
    if query.len() >= 2 && query.starts_with('"') && query.ends_with('"') {
        SearchType::Exact
    } else if has_metavariable(query) {
        SearchType::Ast
    } else if words.len() >= 3 && words.iter().any(|word| OPERATORS.contains(word)) {
        SearchType::Hybrid
    } else if is_prose(&words) {
        SearchType::Semantic
    } else {
        SearchType::Grep
    }
}

/// `$NAME` or `$$$`, which only patterns have.
pub(crate) fn has_metavariable(query: &str) -> bool {
    query.contains("$$$")
        || query
            .split('$')
            .skip(1)
            .any(|after| after.starts_with(|c: char| c.is_ascii_uppercase() || c == '_'))
            && !query.contains("${")
}

/// Several plain words, more of them words than code.
fn is_prose(words: &[&str]) -> bool {
    let Some(first) = words.first() else { return false };
    if words.len() < 2 {
        return false;
    }
    let is_question = words.iter().any(|word| QUESTION_WORDS.contains(&word.to_lowercase().as_str()));
    if words.len() <= 4 && KEYWORDS.contains(first) && !is_question {
        return false;
    }
    let plain = words.iter().filter(|word| is_plain(word)).count();
    2 * plain > words.len() && (is_question || plain == words.len() || words.len() >= 4)
}

/// A word of prose, perhaps with punctuation at its end.
fn is_plain(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', '?', '!', ':', ';']).trim_end_matches("'s");
    !word.is_empty()
        && word.chars().all(|c| c.is_alphabetic() || c == '-' || c == '\'')
        && !has_inner_capital(word)
}

fn has_inner_capital(word: &str) -> bool {
    word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::SearchType::{self, Ast, Exact, Grep, Hybrid, Semantic};
    use super::route;

    /// Sixty queries as agents write them.
    const QUERIES: [(&str, SearchType); 60] = [
        ("$A.unwrap()", Ast),
        ("console.log($$$ARGS)", Ast),
        ("fn $NAME($$$) -> Result<$T>", Ast),
        ("class $NAME:", Ast),
        ("if $COND { return None; }", Ast),
        ("$X == null", Ast),
        ("def $F($SELF, $$$): $$$BODY", Ast),
        ("await $CALL", Ast),
        ("import $A from \"react\"", Ast),
        ("$_.map($_)", Ast),
        ("\"connection refused\"", Exact),
        ("\"TODO: remove\"", Exact),
        ("\"a AND b\"", Exact),
        ("authentication AND token", Hybrid),
        ("retry OR backoff logic", Hybrid),
        ("parse NOT validate", Hybrid),
        ("open file AND close socket", Hybrid),
        ("where are tokens refreshed", Semantic),
        ("how does the gateway reconnect", Semantic),
        ("code that kills child processes", Semantic),
        ("find the function that parses dates", Semantic),
        ("what happens when a client disconnects", Semantic),
        ("refuse a request whose body is too large", Semantic),
        ("kill a child process and its grandchildren", Semantic),
        ("read and write files", Semantic),
        ("search or filter notes", Semantic),
        ("authentication logic", Semantic),
        ("error handling", Semantic),
        ("database connection pool", Semantic),
        ("rate limiting", Semantic),
        ("convert a duration to text", Semantic),
        ("user login flow", Semantic),
        ("why is the cache not invalidated?", Semantic),
        ("which tests cover reloading", Semantic),
        ("show the main loop", Semantic),
        ("is there a retry policy", Semantic),
        ("where is readFile implemented", Semantic),
        ("compute the checksum of a file", Semantic),
        ("handles websocket messages", Semantic),
        ("validation of user's input", Semantic),
        ("escape HTML in templates", Semantic),
        ("not found error page", Semantic),
        ("import os", Grep),
        ("use std::fs", Grep),
        ("from typing import List", Grep),
        ("fn main", Grep),
        ("class Foo", Grep),
        ("class Foo:", Grep),
        ("def parse_args", Grep),
        ("const MAX_SIZE", Grep),
        ("return None", Grep),
        ("pub struct Config", Grep),
        ("TODO", Grep),
        ("readFile", Grep),
        ("read_file", Grep),
        ("fn\\s+\\w+_test", Grep),
        ("std::process::Command", Grep),
        ("foo.bar(", Grep),
        ("x = 1", Grep),
        ("${HOME}/bin", Grep),
    ];

    #[test]
    fn the_form_of_a_query_decides_how_it_is_searched() {
        let wrong: Vec<_> = QUERIES.iter().filter(|(query, expected)| route(query) != *expected).collect();
        assert!(
            wrong.is_empty(),
            "{:?}",
            wrong.iter().map(|(query, expected)| (query, expected, route(query))).collect::<Vec<_>>()
        );
    }
}
