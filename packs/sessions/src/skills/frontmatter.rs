//! The YAML between two lines `---` at the beginning of a file, as JSON.

use serde_json::{Map, Value};
use yaml_rust2::Yaml;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

/// More than that is not a description of a skill.
const MOST_BYTES: usize = 64 << 10;
const MOST_DEPTH: usize = 16;

/// The frontmatter of a file; nothing if it has none, or if it is not a plain mapping. References within it are not
/// followed, because a few of them can expand to gigabytes.
pub(crate) fn read(text: &str) -> Option<Map<String, Value>> {
    let block = block(text).filter(|block| block.len() <= MOST_BYTES)?;
    let mut parser = Parser::new_from_str(block);
    loop {
        match parser.next_token().ok()?.0 {
            Event::StreamStart | Event::DocumentStart => {}
            event => {
                return match value(event, &mut parser, MOST_DEPTH)? {
                    Value::Object(front) => Some(front),
                    _ => None,
                };
            }
        }
    }
}

fn block(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return rest.get(..at);
        }
        at += line.len();
    }
    None
}

fn value(event: Event, parser: &mut Parser<std::str::Chars<'_>>, depth: usize) -> Option<Value> {
    let inner = depth.checked_sub(1)?;
    match event {
        Event::Scalar(text, TScalarStyle::Plain, _, None) => Some(plain(text)),
        Event::Scalar(text, ..) => Some(text.into()),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match parser.next_token().ok()?.0 {
                    Event::SequenceEnd => return Some(items.into()),
                    event => items.push(value(event, parser, inner)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut members = Map::new();
            loop {
                let key = match parser.next_token().ok()?.0 {
                    Event::MappingEnd => return Some(members.into()),
                    Event::Scalar(key, ..) => key,
                    _ => return None,
                };
                let event = parser.next_token().ok()?.0;
                members.insert(key, value(event, parser, inner)?);
            }
        }
        _ => None,
    }
}

fn plain(text: String) -> Value {
    match Yaml::from_str(&text) {
        Yaml::Null => Value::Null,
        Yaml::Boolean(flag) => flag.into(),
        Yaml::Integer(number) => number.into(),
        Yaml::Real(number) => number.parse::<f64>().ok().map_or_else(|| text.into(), Value::from),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frontmatter_is_read_as_yaml() {
        let text = "---\nname: pdf\ndescription: >-\n  Reads\n  papers: all\nversion: 1.5\nallowed-tools:\n  - Read\n  - \"7\"\nmetadata: { public: true, count: 3, none: }\n---\nBody\n---\n";
        let expected = json!({
            "name": "pdf", "description": "Reads papers: all", "version": 1.5, "allowed-tools": ["Read", "7"],
            "metadata": { "public": true, "count": 3, "none": null },
        });
        assert_eq!(read(text).map(Value::Object), Some(expected.clone()));
        assert_eq!(read(&text.replace('\n', "\r\n")).map(Value::Object), Some(expected));
    }

    #[test]
    fn frontmatter_that_is_not_a_plain_mapping_is_none() {
        let deep = format!("---\na: {}{}\n---\n", "[".repeat(40), "]".repeat(40));
        for text in [
            "",
            "Body",
            "---\nname: x\n",
            "---\n- a\n---\n",
            "---\na: &x [1]\nb: *x\n---\n",
            "---\na: [\n---\n",
            &deep,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
