//! The difference between two definitions, for people: one line for each place, with removed and added words marked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::text::is_hidden;

/// How many places are shown; the rest are counted.
const PLACES: usize = 20;
/// How many characters of one place are shown.
const LENGTH: usize = 600;
/// Texts beyond this are not compared word by word.
const COMPARED: usize = 20_000;

/// One place that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// As a JSON pointer.
    pub place: String,
    /// Removed text as `[-words-]`, added text as `{+words+}`. Hidden characters are written out.
    pub change: String,
}

/// All places where `new` is different.
pub fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    walk(old, new, "", &mut all);
    let more = all.len().saturating_sub(PLACES);
    all.truncate(PLACES);
    all.extend((more > 0).then(|| Difference { place: "…".to_owned(), change: format!("and {more} more") }));
    all
}

fn walk(old: &Value, new: &Value, place: &str, all: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let place = format!("{place}/{}", shown(&key.replace('~', "~0").replace('/', "~1")));
            match (before.get(key), after.get(key)) {
                (Some(old), Some(new)) => walk(old, new, &place, all),
                (Some(old), None) => add(all, &place, format!("[-{}-]", shown(&text(old)))),
                (None, Some(new)) => add(all, &place, format!("{{+{}+}}", shown(&text(new)))),
                (None, None) => {}
            }
        }
        return;
    }
    add(all, place, words(&text(old), &text(new)));
}

fn add(all: &mut Vec<Difference>, place: &str, change: String) {
    let change = match change.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &change[..end]),
        None => change,
    };
    all.push(Difference { place: if place.is_empty() { "/".to_owned() } else { place.to_owned() }, change });
}

/// A text as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn words(old: &str, new: &str) -> String {
    if old.len().max(new.len()) > COMPARED {
        return format!("[-{}-]{{+{}+}}", shown(old), shown(new));
    }
    let diff = TextDiff::from_words(old, new);
    let mut out = String::new();
    let mut open = ChangeTag::Equal;
    let close = |tag| match tag {
        ChangeTag::Equal => "",
        ChangeTag::Delete => "-]",
        ChangeTag::Insert => "+}",
    };
    for change in diff.iter_all_changes() {
        if change.tag() != open {
            out.push_str(close(open));
            open = change.tag();
            out.push_str(match open {
                ChangeTag::Equal => "",
                ChangeTag::Delete => "[-",
                ChangeTag::Insert => "{+",
            });
        }
        out.push_str(&shown(change.value()));
    }
    out.push_str(close(open));
    out
}

/// Writes out hidden characters and line breaks.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) || matches!(char, '\n' | '\r' | '\t') {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_is_shown_with_the_words_that_changed() {
        let old =
            json!({ "description": "Reads a file.", "inputSchema": { "required": ["a"] }, "title": "x" });
        let new = json!({ "description": "Reads a\u{200b} file quickly.", "inputSchema": { "required": ["a", "b"] } });
        let found: Vec<String> =
            differences(&old, &new).iter().map(|one| format!("{}: {}", one.place, one.change)).collect();
        assert_eq!(
            found,
            [
                r"/description: Reads [-a-]{+a\u{200b} file+} [-file.-]{+quickly.+}",
                r#"/inputSchema/required: [-["a"]-]{+["a","b"]+}"#,
                "/title: [-x-]",
            ]
        );
    }

    #[test]
    fn a_large_difference_is_bounded() {
        let old: Value = (0..100).map(|n| (format!("k{n}"), json!("a".repeat(5_000)))).collect();
        let found = differences(&old, &json!({}));
        assert_eq!(found.len(), PLACES + 1);
        assert!(found.iter().all(|one| one.change.chars().count() <= LENGTH + 1));
    }
}
