//! Edits that servers ask for, and what a text is after them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::position::{Encoding, Lines, Range};
use crate::uri::path_of;

/// One replacement in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    pub range: Range,
    pub text: String,
}

/// The edits of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdits {
    pub path: PathBuf,
    pub edits: Vec<TextEdit>,
}

/// Why an edit cannot be carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the server sent an edit that cannot be read")]
    Unreadable,
    #[error("the server's edit names `{0}`, which is not a file")]
    NotAFile(String),
    #[error("the server's edit would {0} a file, which is not supported")]
    Unsupported(String),
    #[error("the server sent edits that overlap")]
    Overlap,
}

impl TextEdit {
    pub fn read(value: &Value) -> Option<Self> {
        Some(Self { range: Range::read(&value["range"])?, text: value["newText"].as_str()?.to_owned() })
    }

    /// A list of edits.
    pub fn read_all(list: &Value) -> Result<Vec<Self>, EditError> {
        let list = list.as_array().ok_or(EditError::Unreadable)?;
        list.iter().map(|edit| Self::read(edit).ok_or(EditError::Unreadable)).collect()
    }

    /// A text after all edits, which refer to the text before them.
    pub fn apply(text: &str, edits: &[Self], encoding: Encoding) -> Result<String, EditError> {
        let lines = Lines::new(text);
        let mut spans: Vec<(usize, usize, &str)> = edits
            .iter()
            .map(|edit| {
                let byte = |position| lines.byte(position, encoding);
                (byte(edit.range.start), byte(edit.range.end), edit.text.as_str())
            })
            .collect();
        // Stable: insertions at one place keep their order, and precede a replacement that starts there.
        spans.sort_by_key(|(start, end, _)| (*start, *end));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end, new) in spans {
            if start < at || end < start {
                return Err(EditError::Overlap);
            }
            out.push_str(&text[at..start]);
            out.push_str(new);
            at = end;
        }
        out.push_str(&text[at..]);
        Ok(out)
    }
}

/// The files that a `WorkspaceEdit` changes, in either of its forms, sorted by path.
pub fn file_edits(edit: &Value) -> Result<Vec<FileEdits>, EditError> {
    let mut files: BTreeMap<PathBuf, FileEdits> = BTreeMap::new();
    let mut add = |uri: &str, edits: Vec<TextEdit>| {
        let path = path_of(uri).ok_or_else(|| EditError::NotAFile(uri.to_owned()))?;
        let file = files.entry(path.clone()).or_insert_with(|| FileEdits { path, edits: Vec::new() });
        file.edits.extend(edits);
        Ok(())
    };
    if let Some(changes) = edit["documentChanges"].as_array() {
        for change in changes {
            if let Some(kind) = change["kind"].as_str() {
                return Err(EditError::Unsupported(kind.to_owned()));
            }
            let uri = change["textDocument"]["uri"].as_str().ok_or(EditError::Unreadable)?;
            add(uri, TextEdit::read_all(&change["edits"])?)?;
        }
    } else if let Some(changes) = edit["changes"].as_object() {
        for (uri, edits) in changes {
            add(uri, TextEdit::read_all(edits)?)?;
        }
    }
    Ok(files.into_values().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edit(from: (usize, usize), to: (usize, usize), text: &str) -> Value {
        let position = |(line, character): (usize, usize)| json!({ "line": line, "character": character });
        json!({ "range": { "start": position(from), "end": position(to) }, "newText": text })
    }

    fn applied(text: &str, edits: &Value, encoding: Encoding) -> Result<String, EditError> {
        TextEdit::apply(text, &TextEdit::read_all(edits).unwrap(), encoding)
    }

    #[test]
    fn edits_of_several_lines_apply_in_any_order() {
        let edits = json!([edit((2, 0), (2, 1), "C"), edit((0, 1), (1, 1), ""), edit((0, 0), (0, 0), ">")]);
        assert_eq!(applied("ab\ncd\nef\n", &edits, Encoding::Utf8).unwrap(), ">ad\nCf\n");
    }

    #[test]
    fn edits_after_an_emoji_hit_the_same_characters_in_both_encodings() {
        let text = "x = '🦀'; y\n";
        for (encoding, column) in [(Encoding::Utf8, 12), (Encoding::Utf16, 10)] {
            let edits = json!([edit((0, column), (0, column + 1), "z")]);
            assert_eq!(applied(text, &edits, encoding).unwrap(), "x = '🦀'; z\n", "{encoding:?}");
        }
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let edits = json!([edit((0, 0), (0, 2), "x"), edit((0, 1), (0, 3), "y")]);
        assert_eq!(applied("abc", &edits, Encoding::Utf8), Err(EditError::Overlap));
    }

    #[test]
    fn both_forms_of_a_workspace_edit_are_read() {
        let one = edit((0, 0), (0, 1), "x");
        let changes = json!({ "changes": { "file:///b": [one], "file:///a": [] } });
        let paths = |value: &Value| -> Vec<PathBuf> {
            file_edits(value).unwrap().into_iter().map(|file| file.path).collect()
        };
        assert_eq!(paths(&changes), [PathBuf::from("/a"), "/b".into()]);
        let document = json!({ "textDocument": { "uri": "file:///b", "version": null }, "edits": [one] });
        let files = file_edits(&json!({ "documentChanges": [document, document] })).unwrap();
        assert_eq!((files.len(), files[0].edits.len()), (1, 2));
        let deleted = json!({ "documentChanges": [{ "kind": "delete", "uri": "file:///a" }] });
        assert_eq!(file_edits(&deleted), Err(EditError::Unsupported("delete".into())));
        assert_eq!(file_edits(&json!(null)), Ok(vec![]));
    }
}
