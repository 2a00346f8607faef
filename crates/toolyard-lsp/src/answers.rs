//! Reads answers of servers: places, symbols and diagnostics, in all the forms that the protocol allows.

use std::path::PathBuf;

use serde_json::Value;

use crate::position::{Position, Range};
use crate::uri::path_of;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    pub range: Range,
}

/// A named thing in a file, with what is inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub kind: u64,
    /// The name of what it is in, where the server sends a flat list.
    pub container: Option<String>,
    /// The file, where the server names one.
    pub path: Option<PathBuf>,
    pub range: Range,
    /// Where its name is.
    pub at: Position,
    pub children: Vec<Symbol>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Information,
    Hint,
}

/// Something that a server found in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub range: Range,
    pub severity: Severity,
    pub code: Option<String>,
    pub source: Option<String>,
    pub message: String,
    /// As the server sent it, for requests that refer to it.
    pub raw: Value,
}

/// The places of an answer: one location, several, or links.
pub fn locations(answer: &Value) -> Vec<Location> {
    let read = |value: &Value| {
        let (uri, range) = match value["targetUri"].as_str() {
            Some(uri) => (uri, Range::read(&value["targetSelectionRange"])),
            None => (value["uri"].as_str()?, Range::read(&value["range"])),
        };
        Some(Location { path: path_of(uri)?, range: range? })
    };
    match answer {
        Value::Array(list) => list.iter().filter_map(read).collect(),
        one => read(one).into_iter().collect(),
    }
}

/// The symbols of an answer, nested or flat.
pub fn symbols(answer: &Value) -> Vec<Symbol> {
    answer.as_array().map(|list| list.iter().filter_map(symbol).collect()).unwrap_or_default()
}

fn symbol(value: &Value) -> Option<Symbol> {
    let location = &value["location"];
    let range = Range::read(&value["range"]).or_else(|| Range::read(&location["range"]));
    // A workspace symbol may name a file without a place in it.
    let start = Position { line: 0, character: 0 };
    let range = match range {
        Some(range) => range,
        None if location["uri"].is_string() => Range { start, end: start },
        None => return None,
    };
    let uri = location["uri"].as_str().or_else(|| value["uri"].as_str());
    Some(Symbol {
        name: value["name"].as_str()?.to_owned(),
        kind: value["kind"].as_u64().unwrap_or_default(),
        container: value["containerName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
        path: uri.and_then(path_of),
        range,
        at: Range::read(&value["selectionRange"]).map_or(range.start, |range| range.start),
        children: symbols(&value["children"]),
    })
}

/// The diagnostics of a list.
pub fn diagnostics(list: &Value) -> Vec<Diagnostic> {
    list.as_array().map(|list| list.iter().filter_map(diagnostic).collect()).unwrap_or_default()
}

fn diagnostic(value: &Value) -> Option<Diagnostic> {
    let code = match &value["code"] {
        Value::String(code) => Some(code.clone()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    };
    Some(Diagnostic {
        range: Range::read(&value["range"])?,
        severity: match value["severity"].as_u64() {
            Some(2) => Severity::Warning,
            Some(3) => Severity::Information,
            Some(4) => Severity::Hint,
            _ => Severity::Error,
        },
        code,
        source: value["source"].as_str().map(str::to_owned),
        message: value["message"].as_str()?.to_owned(),
        raw: value.clone(),
    })
}

/// The kind of a symbol in words.
pub fn kind_name(kind: u64) -> &'static str {
    const NAMES: [&str; 26] = [
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
        "null",
        "enum member",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    usize::try_from(kind).ok().and_then(|kind| NAMES.get(kind.checked_sub(1)?).copied()).unwrap_or("symbol")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_read_in_all_three_forms() {
        let range = json!({ "start": { "line": 1, "character": 2 }, "end": { "line": 1, "character": 5 } });
        let one = json!({ "uri": "file:///a", "range": range });
        let link = json!({ "targetUri": "file:///a", "targetRange": null, "targetSelectionRange": range });
        let expected = locations(&one);
        assert_eq!((expected.len(), expected[0].path.to_str()), (1, Some("/a")));
        for form in [json!([one]), json!([link])] {
            assert_eq!(locations(&form), expected);
        }
        assert!(locations(&json!(null)).is_empty());
    }

    #[test]
    fn kinds_are_named_as_in_the_protocol() {
        assert_eq!(
            [1, 5, 12, 26, 0, 99].map(kind_name),
            ["file", "class", "function", "type parameter", "symbol", "symbol"]
        );
    }
}
