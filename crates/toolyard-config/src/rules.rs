//! `[[rules]]` and `[policy]`: who may call which tool, get which prompt and read which resource. References such as
//! `${VAR}` are expanded, except in `when`: a value that is pasted into a condition could change its meaning.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolyard_policy::rules::{Annotations, Approval, By, Condition, Do, Names, Policy, Rule, Test};

use super::reader::{Field, Reader, Section};
use super::tree::Value;

const LONGEST_APPROVAL: Duration = Duration::from_hours(24);
const LONGEST_WAIT: Duration = Duration::from_mins(30);

/// Reads the rules. Where there are none nothing changes; where there are some and no default is given, a gateway that
/// other machines can reach denies the rest.
pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>, own: SocketAddr) -> Option<Arc<Policy>> {
    let rules = root.take("rules");
    let default = root.take("policy").and_then(|field| read_default(reader, field));
    let rules = rules?;
    let items = rules.items(reader);
    let all: Vec<Rule> = items.into_iter().filter_map(|item| read_one(reader, item)).collect();
    let usual = if own.ip().is_loopback() { Do::Allow } else { Do::Deny };
    (!all.is_empty()).then(|| Arc::new(Policy::new(all, default.unwrap_or(usual))))
}

pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<Arc<Policy>> {
    for field in ["rules", "policy"].into_iter().filter_map(|key| root.take(key)) {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot decide who may call tools", help);
    }
    None
}

fn read_default(reader: &mut Reader<'_>, field: Field) -> Option<Do> {
    let mut section = field.section(reader)?;
    let default = section.take("default");
    let default = default.and_then(|field| field.choice(reader, &[("allow", Do::Allow), ("deny", Do::Deny)]));
    section.finish(reader);
    default
}

fn read_one(reader: &mut Reader<'_>, field: Field) -> Option<Rule> {
    let (at, path) = (field.at, field.path.clone());
    let mut section = field.section(reader)?;
    let place = format!("{}:{}", reader.file.path.display(), reader.place(at).line);
    let mut patterns = |key| section.take(key).map(|field| texts(reader, &field)).unwrap_or_default();
    let who = patterns("who");
    let names =
        Names { tools: patterns("tools"), prompts: patterns("prompts"), resources: patterns("resources") };
    let annotations = section.take("annotations");
    let annotations = annotations.map(|field| read_annotations(reader, field)).unwrap_or_default();
    let args = section.take("args").map(|field| read_args(reader, field)).unwrap_or_default();
    let when = section.take("when").and_then(|field| read_when(reader, &field));
    let action = section.take("do");
    if action.is_none() {
        reader.error(at, &path, "`do` is missing", "write do = \"allow\", \"deny\", \"hide\" or \"approve\"");
    }
    let action = action.and_then(|field| field.choice(reader, &Do::ALL));
    let approval = read_approval(&mut section, reader);
    section.finish(reader);
    Some(Rule { who, names, annotations, args, when, action: action?, approval, place })
}

/// One text, or a list of them.
fn texts(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    match field.value() {
        Value::Text(_) => text(reader, field).into_iter().collect(),
        _ => field.items(reader).iter().filter_map(|item| text(reader, item)).collect(),
    }
}

/// A text with its references expanded. One without a value stays as it is, besides being an error: a rule without the
/// pattern would match more. For the same reason, references must not leave it empty.
fn text(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let written = field.text(reader)?;
    let text = field.expanded(reader).unwrap_or_else(|| written.clone());
    if text.is_empty() && !written.is_empty() && reader.needs_values() {
        let help = "a rule with an empty text could allow too much; give the reference a value";
        field.error(reader, "is empty, because its references have empty values", help);
    }
    Some(text)
}

fn read_annotations(reader: &mut Reader<'_>, field: Field) -> Annotations {
    let Some(mut section) = field.section(reader) else { return Annotations::default() };
    let mut hint = |key, reader: &mut Reader<'_>| section.take(key).and_then(|field| field.flag(reader));
    let annotations = Annotations {
        read_only: hint("read_only", reader),
        destructive: hint("destructive", reader),
        idempotent: hint("idempotent", reader),
        open_world: hint("open_world", reader),
    };
    section.finish(reader);
    annotations
}

fn read_args(reader: &mut Reader<'_>, field: Field) -> Vec<(String, Test)> {
    let fields = field.section(reader).map(Section::take_all).unwrap_or_default();
    let mut args = Vec::new();
    for field in fields {
        if !field.key.starts_with('/') {
            let help = format!("write a JSON pointer, such as \"/{}\"", field.key);
            field.error(reader, "is not a place in the arguments", help);
            continue;
        }
        let key = field.key.clone();
        let Some(mut section) = field.section(reader) else { continue };
        let number = |field: &Field| match field.value() {
            #[expect(clippy::cast_precision_loss, reason = "a limit in a rule is far below 2^52")]
            Value::Integer(number) => Some(*number as f64),
            Value::Fraction(number) => Some(*number),
            _ => None,
        };
        let test = Test {
            equals: section.take("equals").and_then(|field| json_of(reader, &field)),
            one_of: section
                .take("one_of")
                .map(|field| field.items(reader).iter().filter_map(|item| json_of(reader, item)).collect()),
            starts_with: section.take("starts_with").and_then(|field| text(reader, &field)),
            matches: section.take("matches").and_then(|field| text(reader, &field)),
            below: section.take("below").and_then(|field| text(reader, &field)),
            min: section.take("min").and_then(|field| number(&field)),
            max: section.take("max").and_then(|field| number(&field)),
            exists: section.take("exists").and_then(|field| field.flag(reader)),
        };
        if test == Test::default() {
            let help = "write, for instance, { below = \"/srv\" }, { equals = 1 } or { exists = true }";
            reader.error(
                section.at,
                &section.path,
                "tests nothing; use `equals`, `below` or another test",
                help,
            );
        }
        section.finish(reader);
        args.push((key, test));
    }
    args
}

fn json_of(reader: &mut Reader<'_>, field: &Field) -> Option<serde_json::Value> {
    Some(match field.value() {
        Value::Text(_) => json!(text(reader, field)?),
        Value::Integer(number) => json!(number),
        Value::Fraction(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::List(_) => {
            field.items(reader).iter().map(|item| json_of(reader, item)).collect::<Option<_>>()?
        }
        Value::Table(_) | Value::Other(_) => return None,
    })
}

fn read_when(reader: &mut Reader<'_>, field: &Field) -> Option<Condition> {
    let text = field.text(reader)?;
    match Condition::compile(&text) {
        Ok(condition) => Some(condition),
        Err(error) => {
            let help =
                format!("write a condition in CEL, such as {}", field.example(reader, "\"args.n < 10\""));
            field.error(reader, format!("is not a valid condition: {error}"), help);
            None
        }
    }
}

fn read_approval(section: &mut Section, reader: &mut Reader<'_>) -> Approval {
    let usual = Approval::default();
    let by = section.take("by");
    let by = by.and_then(|field| field.choice(reader, &[("client", By::Client), ("operator", By::Operator)]));
    let lasting = section.take("remember");
    let lasting = lasting.and_then(|field| field.choice(reader, &[("once", false), ("session", true)]));
    let expires = section.take("expires").and_then(|field| field.duration(reader, LONGEST_APPROVAL));
    let wait = section.take("wait");
    let wait = wait.and_then(|field| field.duration_within(reader, Duration::ZERO, LONGEST_WAIT));
    Approval {
        by: by.unwrap_or(usual.by),
        is_for_session: lasting.unwrap_or(usual.is_for_session),
        expires: expires.unwrap_or(usual.expires),
        wait: wait.unwrap_or(usual.wait),
    }
}

#[cfg(test)]
mod tests {
    use crate::packs::KnownPacks;
    use crate::{Problem, ReadContext, load_text};

    /// The keys with problems, if `EMPTY` is a variable without text.
    fn problems(text: &str, is_for_running: bool) -> Vec<String> {
        let context = ReadContext {
            variables: &|name| (name == "EMPTY").then(String::new),
            secrets: &|_| Ok(None),
            commands: None,
            packs: &KnownPacks { packs: Vec::new(), missing: Vec::new() },
            is_for_running,
        };
        let problems = load_text(text.to_owned(), "/".as_ref(), &context).problems;
        let errors = problems.iter().filter(|problem| Problem::is_error(problem));
        errors.map(|error| format!("{} {}", error.key, error.message)).collect()
    }

    #[test]
    fn a_text_that_variables_leave_empty_is_an_error_where_the_gateway_starts() {
        let rule = "[[rules]]\nwho = \"${EMPTY}\"\ntools = [\"s:*\", \"${EMPTY}\"]\n\
            args = { \"/a\" = { below = \"${EMPTY}\" }, \"/b\" = { equals = \"\" } }\ndo = \"deny\"\n";
        let what = "is empty, because its references have empty values";
        let expected = ["who", "tools[1]", "args.\"/a\".below"].map(|key| format!("rules[0].{key} {what}"));
        assert_eq!(problems(rule, false), expected);
        assert_eq!(problems(rule, true), Vec::<String>::new(), "the running gateway has its own variables");
        assert_eq!(problems(&rule.replace("${EMPTY}", "a${EMPTY}"), false), Vec::<String>::new());
    }
}
