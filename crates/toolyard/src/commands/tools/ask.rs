//! Asks the user at a terminal what a tool asks in the middle of a call: a form, field by field, or a page to open.
//!
//! The text of a question comes from a server, so control characters in it are shown and not obeyed.

use std::io::BufRead;

use serde_json::{Map, Value, json};

use super::get::kind;
use super::schema::parameters;
use crate::say;

/// How often a value may be wrong before the question is cancelled.
const MOST_TRIES: usize = 5;

/// The result of `elicitation/create`.
pub(super) fn at_terminal(tool: &str, params: &Value) -> Value {
    let mut read = || {
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(1..) => Some(line.trim().to_owned()),
            _ => None,
        }
    };
    Dialogue { say: &mut |text| say::line(text), read: &mut read }.answer(tool, params)
}

struct Dialogue<'a> {
    say: &'a mut dyn FnMut(&str),
    /// A line, or nothing at the end of the input.
    read: &'a mut dyn FnMut() -> Option<String>,
}

impl Dialogue<'_> {
    fn answer(&mut self, tool: &str, params: &Value) -> Value {
        let message = params["message"].as_str().unwrap_or_default();
        (self.say)(&format!("{tool} asks: {message}"));
        if params["mode"] == "url" {
            return self.page(params["url"].as_str().unwrap_or_default());
        }
        let schema = &params["requestedSchema"];
        let fields = parameters(schema);
        if fields.is_empty() {
            return self.agreement("agree", Value::Null);
        }
        (self.say)("an empty line takes the default or leaves an optional value out; Ctrl-D cancels");
        let mut content = Map::new();
        for (name, about) in fields {
            let is_required =
                schema["required"].as_array().is_some_and(|all| all.iter().any(|own| *own == *name));
            match self.field(&name, &about, is_required) {
                Filled::Value(value) => drop(content.insert(name, value)),
                Filled::LeftOut => {}
                Filled::Cancelled => return json!({ "action": "cancel" }),
            }
        }
        json!({ "action": "accept", "content": content })
    }

    fn page(&mut self, url: &str) -> Value {
        (self.say)(&format!("open this page in a browser: {url}"));
        self.agreement("have you opened it", Value::Null)
    }

    fn agreement(&mut self, question: &str, content: Value) -> Value {
        (self.say)(&format!("{question}? [y/N]"));
        let Some(line) = (self.read)() else { return json!({ "action": "cancel" }) };
        if !matches!(line.to_lowercase().as_str(), "y" | "yes") {
            return json!({ "action": "decline" });
        }
        let mut answer = json!({ "action": "accept" });
        if !content.is_null() {
            answer["content"] = content;
        }
        answer
    }

    fn field(&mut self, name: &str, about: &Value, is_required: bool) -> Filled {
        for _ in 0..MOST_TRIES {
            (self.say)(&heading(name, about, is_required));
            let Some(line) = (self.read)() else { return Filled::Cancelled };
            let default = about.get("default").filter(|default| !default.is_null());
            match (line.is_empty(), default, is_required) {
                (true, Some(default), _) => return Filled::Value(default.clone()),
                (true, None, false) => return Filled::LeftOut,
                (true, None, true) => (self.say)(&format!("`{name}` is required")),
                (false, ..) => match value(&line, about) {
                    Ok(value) => return Filled::Value(value),
                    Err(why) => (self.say)(&format!("`{name}` {why}")),
                },
            }
        }
        Filled::Cancelled
    }
}

/// The answer for one field.
enum Filled {
    Value(Value),
    LeftOut,
    Cancelled,
}

/// `  size (integer, default 3): How large it is`
fn heading(name: &str, about: &Value, is_required: bool) -> String {
    let kind = match choices(&about["items"]) {
        Some(choices) if about["type"] == "array" => format!("several of {}", listed(&choices)),
        _ => choices(about).map_or_else(|| kind(about), |choices| listed(&choices)),
    };
    let default = about.get("default").filter(|default| !default.is_null());
    let need = match default {
        Some(default) => format!(", default {default}"),
        None if is_required => String::new(),
        None => ", optional".to_owned(),
    };
    let words = [&about["title"], &about["description"]].into_iter().filter_map(Value::as_str);
    let words = words.collect::<Vec<_>>().join(": ");
    let colon = if words.is_empty() { "" } else { ": " };
    format!("  {name} ({kind}{need}){colon}{words}")
}

fn listed(choices: &[Value]) -> String {
    choices.iter().map(plain).collect::<Vec<_>>().join("|")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The values that a field may have, if they are listed.
fn choices(about: &Value) -> Option<Vec<Value>> {
    if let Some(choices) = about["enum"].as_array() {
        return Some(choices.clone());
    }
    let alternatives = about["anyOf"].as_array().or_else(|| about["oneOf"].as_array())?;
    alternatives.iter().map(|one| one.get("const").cloned()).collect()
}

/// The line as a value of the field, or what is wrong with it.
fn value(line: &str, about: &Value) -> Result<Value, String> {
    if about["type"] == "array" {
        let items = line.split(',').map(|item| value(item.trim(), &about["items"]));
        return items.collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    if let Some(choices) = choices(about) {
        let found = choices.iter().find(|choice| plain(choice) == line);
        return found.cloned().ok_or_else(|| format!("must be one of {}", listed(&choices)));
    }
    match about["type"].as_str() {
        Some("boolean") => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(true.into()),
            "n" | "no" | "false" => Ok(false.into()),
            _ => Err("must be yes or no".to_owned()),
        },
        Some(kind @ ("integer" | "number")) => number(line, kind, about),
        _ => text(line, about),
    }
}

fn number(line: &str, kind: &str, about: &Value) -> Result<Value, String> {
    let value: Option<Value> = serde_json::from_str(line).ok();
    let fits =
        |value: &Value| if kind == "integer" { value.is_i64() || value.is_u64() } else { value.is_number() };
    let value = value.filter(fits).ok_or_else(|| format!("must be of type {kind}"))?;
    let size = value.as_f64().unwrap_or_default();
    match (about["minimum"].as_f64(), about["maximum"].as_f64()) {
        (Some(least), _) if size < least => Err(format!("must be at least {least}")),
        (_, Some(most)) if size > most => Err(format!("must be at most {most}")),
        _ => Ok(value),
    }
}

fn text(line: &str, about: &Value) -> Result<Value, String> {
    let length = line.chars().count() as u64;
    match (about["minLength"].as_u64(), about["maxLength"].as_u64()) {
        (Some(least), _) if length < least => Err(format!("must have at least {least} characters")),
        (_, Some(most)) if length > most => Err(format!("must have at most {most} characters")),
        _ => Ok(line.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(params: &Value, lines: &[&str], expected: &Value, last_line: &str) {
        let (mut printed, mut lines) = (String::new(), lines.iter());
        let answer = Dialogue {
            say: &mut |text| text.clone_into(&mut printed),
            read: &mut || lines.next().map(|line| (*line).to_owned()),
        }
        .answer("files:delete", params);
        assert_eq!(answer, *expected);
        assert_eq!(printed, last_line);
        assert_eq!(lines.next(), None, "all was read");
    }

    fn form(properties: &Value, required: &Value) -> Value {
        json!({ "message": "How?", "requestedSchema": { "properties": properties, "required": required } })
    }

    #[test]
    fn a_form_is_asked_field_by_field() {
        let properties = json!({
            "name": { "type": "string", "maxLength": 3 }, "n": { "type": "integer", "default": 7 },
            "sure": { "type": "boolean", "title": "Sure?" }, "note": { "type": "string" },
        });
        let form = form(&properties, &json!(["name", "sure"]));
        let content = json!({ "name": "Ada", "n": 7, "sure": true });
        let lines = ["", "Grace", "Ada", "", "y", ""];
        check(&form, &lines, &json!({ "action": "accept", "content": content }), "  note (string, optional)");
        check(&form, &["Ada"], &json!({ "action": "cancel" }), "  n (integer, default 7)");
    }

    #[test]
    fn only_values_that_the_schema_lists_are_accepted() {
        let one = json!({ "way": { "type": "string", "oneOf": [{ "const": "up", "title": "Up" }, { "const": "down" }] } });
        let accepted = json!({ "action": "accept", "content": { "way": "down" } });
        check(&form(&one, &json!(["way"])), &["left", "down"], &accepted, "  way (up|down)");
        let several = json!({ "days": { "type": "array", "items": { "enum": ["mon", "tue", "wed"] } } });
        let accepted = json!({ "action": "accept", "content": { "days": ["mon", "wed"] } });
        check(
            &form(&several, &json!(["days"])),
            &["sun", "mon, wed"],
            &accepted,
            "  days (several of mon|tue|wed)",
        );
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let size = json!({ "size": { "type": "number", "minimum": 1, "maximum": 2 } });
        let accepted = json!({ "action": "accept", "content": { "size": 1.5 } });
        check(&form(&size, &json!(["size"])), &["0", "3", "x", "1.5"], &accepted, "  size (number)");
        let lines = ["0"; MOST_TRIES];
        let last = "`size` must be at least 1";
        check(&form(&size, &json!(["size"])), &lines, &json!({ "action": "cancel" }), last);
    }

    #[test]
    fn pages_and_plain_questions_need_a_yes() {
        let page = json!({ "mode": "url", "message": "Sign in", "url": "https://login.example/" });
        check(&page, &["y"], &json!({ "action": "accept" }), "have you opened it? [y/N]");
        check(&page, &[""], &json!({ "action": "decline" }), "have you opened it? [y/N]");
        check(&json!({ "message": "Delete?" }), &["yes"], &json!({ "action": "accept" }), "agree? [y/N]");
        check(&json!({ "message": "Delete?" }), &[], &json!({ "action": "cancel" }), "agree? [y/N]");
    }
}
