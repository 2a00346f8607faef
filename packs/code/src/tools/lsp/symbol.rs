//! Symbols by path: `Type/method` instead of a line and a column.

use toolyard_lsp::{Lines, Position, Symbol, kind_name};
use toolyard_tool::ToolError;

/// The position of the name of the symbol with this path. Of several, the one at or after `line` if it is given.
pub(super) fn find(
    symbols: &[Symbol],
    path: &str,
    line: Option<usize>,
    lines: &Lines<'_>,
) -> Result<Position, ToolError> {
    let wanted: Vec<&str> =
        path.split(['/', '.']).flat_map(|part| part.split("::")).filter(|part| !part.is_empty()).collect();
    let mut found = Vec::new();
    collect(symbols, &mut Vec::new(), &wanted, &mut found);
    found.sort_by_key(|symbol| symbol.at);
    let near = |symbol: &&&Symbol| line.is_none_or(|line| symbol.at.line + 1 >= line);
    match (found.as_slice(), found.iter().find(near)) {
        ([], _) => Err(ToolError::not_found(format!("the file has no symbol `{path}`"))
            .hint("lsp_document_symbols lists the symbols of a file")),
        ([one], _) => Ok(name_of(one, lines)),
        (_, Some(symbol)) if line.is_some() => Ok(name_of(symbol, lines)),
        (several, _) => {
            let places: Vec<String> = several
                .iter()
                .map(|symbol| format!("{} on line {}", kind_name(symbol.kind), symbol.at.line + 1))
                .collect();
            Err(ToolError::new(format!("`{path}` could be any of {}: {}", several.len(), places.join(", ")))
                .hint("give a longer path, or `line` as well"))
        }
    }
}

/// Symbols whose path ends with the wanted names.
fn collect<'a>(
    symbols: &'a [Symbol],
    above: &mut Vec<&'a str>,
    wanted: &[&str],
    found: &mut Vec<&'a Symbol>,
) {
    for symbol in symbols {
        let container = symbol.container.as_deref();
        let before = above.len();
        above.extend(container);
        above.push(&symbol.name);
        let is_wanted = above.len() >= wanted.len()
            && above.iter().rev().zip(wanted.iter().rev()).all(|(name, wanted)| is_named(name, wanted));
        if is_wanted {
            found.push(symbol);
        }
        collect(&symbol.children, above, wanted, found);
        above.truncate(before);
    }
}

/// Whether a symbol has this name: `run`, `run(int)`, `(*Server).run`, and `impl Trait for Type` for `Type`.
fn is_named(name: &str, wanted: &str) -> bool {
    let is_part = |part: &str| bare(part) == wanted;
    if name == wanted || is_part(name) {
        return true;
    }
    match name.strip_prefix("impl") {
        Some(rest) => rest.rsplit(" for ").next().is_some_and(|of| is_part(of.trim())),
        None => name.rsplit(['.', ':', ' ']).next().is_some_and(is_part),
    }
}

/// A name without its parameters, generic or not.
fn bare(name: &str) -> &str {
    let end = name.find(['(', '<', '[']).filter(|end| *end > 0).unwrap_or(name.len());
    name[..end].trim_end_matches(')')
}

/// Where the name is. Servers with flat lists give the place of the whole symbol, which may begin with a keyword.
fn name_of(symbol: &Symbol, lines: &Lines<'_>) -> Position {
    let line = lines.line(symbol.at.line);
    let name = bare(symbol.name.rsplit(['.', ':', ' ']).next().unwrap_or(&symbol.name));
    let is_nested = symbol.range.start != symbol.at || !symbol.children.is_empty();
    match line.find(name).filter(|_| !is_nested && !name.is_empty()) {
        // Columns of a flat list are replaced only on lines where all encodings agree.
        Some(byte) if line.is_ascii() => Position { line: symbol.at.line, character: byte },
        _ => symbol.at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_lsp::symbols;

    use super::*;

    fn tree() -> Vec<Symbol> {
        let range = |line: usize| json!({ "start": { "line": line, "character": 0 }, "end": { "line": line + 1, "character": 0 } });
        let name = |line: usize| json!({ "start": { "line": line, "character": 4 }, "end": { "line": line, "character": 7 } });
        let symbol = |text: &str, line: usize, children: serde_json::Value| json!({ "name": text, "kind": 12, "range": range(line), "selectionRange": name(line), "children": children });
        symbols(&json!([
            symbol("Cat", 0, json!([symbol("run", 1, json!([])), symbol("run(int)", 2, json!([]))])),
            symbol("impl Animal for Dog<T>", 5, json!([symbol("run", 6, json!([]))])),
            symbol("main", 9, json!([])),
        ]))
    }

    #[test]
    fn a_path_names_the_symbol_at_its_end() {
        let lines = Lines::new("");
        for (path, line) in [("main", 9), ("Dog/run", 6), ("Dog::run", 6), ("Dog.run", 6), ("Cat", 0)] {
            assert_eq!(find(&tree(), path, None, &lines).unwrap(), Position { line, character: 4 }, "{path}");
        }
        assert_eq!(find(&tree(), "Cat/run", Some(3), &lines).unwrap().line, 2);
    }

    #[test]
    fn unknown_and_ambiguous_paths_are_errors_with_advice() {
        let lines = Lines::new("");
        let message = |path: &str| find(&tree(), path, None, &lines).unwrap_err().message().to_owned();
        assert_eq!(message("Bird"), "the file has no symbol `Bird`");
        assert_eq!(
            message("run"),
            "`run` could be any of 3: function on line 2, function on line 3, function on line 7"
        );
    }

    #[test]
    fn the_name_in_a_flat_list_is_looked_up_in_its_line() {
        let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 20 } });
        let flat = symbols(
            &json!([{ "name": "greet", "kind": 12, "containerName": "Shell", "location": { "uri": "file:///a", "range": range } }]),
        );
        let lines = Lines::new("function greet() {}");
        assert_eq!(find(&flat, "Shell/greet", None, &lines).unwrap(), Position { line: 0, character: 9 });
    }
}
