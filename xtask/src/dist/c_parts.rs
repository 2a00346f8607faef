//! The parts of a program that are not Rust: each grammar of tree-sitter, its library, `SQLite` and the rest.

use std::collections::HashMap;

use super::parts::Symbol;

/// What a symbol of C belongs to.
pub(super) enum Owner {
    Grammar(String),
    Library(&'static str),
}

/// The name of what follows in the functions of a grammar that scan what its tables cannot describe.
const SCANNER: &str = "_external_scanner";

/// The grammars whose local symbols follow the names of files, by the numbers of the files. The tables of a grammar do
/// not have its name, but one function behind its other functions does. Its scanner is the next file.
pub(super) fn grammars(symbols: &[Symbol<'_>]) -> HashMap<usize, String> {
    let mut named: Vec<(u64, String)> = symbols
        .iter()
        .filter(|symbol| !symbol.name.contains(SCANNER))
        .filter_map(|symbol| Some((symbol.address, grammar_named(symbol)?)))
        .collect();
    named.sort();
    let mut ends: Vec<((usize, &str), u64)> = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.is_local() && is_of_grammar(symbol)) {
        let end = if symbol.is_code() { symbol.address } else { 0 };
        match ends.last_mut() {
            Some((file, last)) if *file == symbol.file => *last = end.max(*last),
            _ => ends.push((symbol.file, end)),
        }
    }
    let mut current = None;
    let mut found = HashMap::new();
    for ((number, file), end) in ends {
        if file == "parser.c" {
            current = named.iter().find(|(address, _)| *address > end).map(|(_, name)| name.clone());
        }
        found.extend(current.clone().map(|name| (number, name)));
    }
    found
}

/// What a symbol that is not of Rust belongs to.
pub(super) fn owner(symbol: &Symbol<'_>, grammars: &HashMap<usize, String>) -> Owner {
    let of_file = || grammars.get(&symbol.file.0).filter(|_| symbol.is_local()).cloned();
    if let Some(grammar) = grammar_named(symbol).or_else(of_file) {
        return Owner::Grammar(grammar);
    }
    let file = if symbol.is_local() { symbol.file.1 } else { "" };
    Owner::Library(match file {
        "sqlite3.c" => "SQLite",
        "lib.c" => "tree-sitter's library",
        _ if symbol.name.starts_with("sqlite3") => "SQLite",
        _ if symbol.name.starts_with("ts_") => "tree-sitter's library",
        _ => "other C and data",
    })
}

fn is_of_grammar(symbol: &Symbol<'_>) -> bool {
    ["parser.c", "scanner.c"].contains(&symbol.file.1)
}

/// `php` for `tree_sitter_php` and `tree_sitter_php_external_scanner_scan`.
fn grammar_named(symbol: &Symbol<'_>) -> Option<String> {
    let name = symbol.name.strip_prefix("tree_sitter_").filter(|_| !symbol.is_local())?;
    Some(name.split(SCANNER).next().unwrap_or(name).to_owned())
}
