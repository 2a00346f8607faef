//! Checks the arguments of a call against the tool's input schema before the call is sent and, where that is asked
//! for, the structured result against the output schema. References to other documents are not followed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;
use toolyard_model::{Answer, AnswerBody, BoxFuture};
use toolyard_proto::{CallError, Method, Raw};

use super::{Call, Next, Step};
use crate::catalog::Entry;
use crate::upstream::task_reviews::Review;

/// The parts of a call that are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Validate {
    #[default]
    Off,
    Input,
    /// The result, too.
    Both,
}

impl Validate {
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("input", Self::Input), ("both", Self::Both)];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// A larger schema is not compiled.
const LARGEST_SCHEMA: usize = 256 * 1024;
/// How many problems are reported.
const MOST_PROBLEMS: usize = 10;
/// How much of a value is shown.
const LONGEST_PROBLEM: usize = 300;
/// For a value with more parts than this, only the first problem is reported.
const MOST_VALUES: usize = 10_000;
/// A schema that expands to more subschemas is not checked against: it could take hours.
const MOST_SUBSCHEMAS: u64 = 100_000;

/// The step, unless nothing is checked.
pub(super) fn step(validate: Validate) -> Option<Arc<dyn Step>> {
    (validate != Validate::Off)
        .then(|| Arc::new(Validated { output: validate == Validate::Both }) as Arc<dyn Step>)
}

struct Validated {
    output: bool,
}

impl Step for Validated {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        let Some(entry) = call.entry.clone().filter(|_| call.method == Method::TOOLS_CALL) else {
            return next.run(call);
        };
        if let Some(error) = input_error(&entry, &call) {
            return Box::pin(async move { Err(error) });
        }
        if !self.output || entry.schemas().output.is_none() {
            return next.run(call);
        }
        Box::pin(async move {
            let after = call.clone();
            let answer = next.run(call).await?;
            let AnswerBody::Whole(result, _) = &answer else { return Ok(answer) };
            if let Some(error) = output_error(&entry, result) {
                return Err(error);
            }
            after.upstream.links.task_reviews.leave(&after, result, || later(entry));
            Ok(answer)
        })
    }

    fn needs_whole(&self) -> bool {
        self.output
    }
}

/// The check of a task's result, when it is fetched.
fn later(entry: Arc<Entry>) -> Review {
    Arc::new(move |result| {
        let checked = output_error(&entry, &result).map_or(Ok(result), Err);
        Box::pin(async move { checked })
    })
}

fn input_error(entry: &Entry, call: &Call) -> Option<CallError> {
    let validator = entry.schemas().input.as_ref()?;
    let arguments = call.params.member("arguments").unwrap_or_else(Raw::empty_object);
    let problems = problems(validator, &arguments.read().ok()?, "arguments")?;
    let message = format!("the arguments of {} do not fit its schema: {problems}", entry.canonical);
    let hint = "correct these and call the tool again";
    Some(CallError::invalid_arguments(message).with_hint(hint).at(entry.upstream.name()))
}

/// A result that reports a failure, or that is not there yet, need not match the schema.
fn output_error(entry: &Entry, result: &Raw) -> Option<CallError> {
    let validator = entry.schemas().output.as_ref()?;
    let is_flag = |key: &str| result.member(key).is_some_and(|flag| flag.as_str() == "true");
    if is_flag("isError") || result.member("content").is_none() {
        return None;
    }
    let structured =
        result.member("structuredContent").and_then(|value| value.read().ok()).unwrap_or_default();
    let problems = problems(validator, &structured, "structuredContent")?;
    let message = format!("the result of {} does not fit its schema: {problems}", entry.canonical);
    Some(CallError::bad_answer(message).with_hint("report it to the tool's author").at(entry.upstream.name()))
}

/// Every problem with its path, as text.
pub fn problems(validator: &Validator, value: &Value, root: &str) -> Option<String> {
    let Err(first) = validator.validate(value) else { return None };
    let mut text = String::new();
    if count(value, MOST_VALUES) > MOST_VALUES {
        // All problems of a large value would take more memory than the value itself.
        describe(&mut text, &first, root);
        return Some(text);
    }
    let mut errors = validator.iter_errors(value);
    for error in errors.by_ref().take(MOST_PROBLEMS) {
        if !text.is_empty() {
            text.push_str("; ");
        }
        describe(&mut text, &error, root);
    }
    let more = errors.take(1000).count();
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    Some(text)
}

/// How many values are in a value; stops above a limit.
fn count(value: &Value, limit: usize) -> usize {
    let mut waiting = vec![value];
    let mut total = 0;
    while let Some(value) = waiting.pop() {
        total += 1;
        if total > limit {
            break;
        }
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    total
}

/// How many subschemas a schema has once its local references are followed; a reference to something around it counts
/// as one. References to the same place are counted each time, as a check follows them each time.
fn expanded<'a>(schema: &'a Value, root: &'a Value, known: &mut HashMap<&'a str, u64>) -> u64 {
    match schema {
        Value::Array(items) => {
            items.iter().fold(1, |total, item| expanded(item, root, known).saturating_add(total))
        }
        Value::Object(members) => members.iter().fold(1, |total: u64, (key, value)| {
            let size = match value.as_str().filter(|_| key == "$ref" || key == "$dynamicRef") {
                Some(target) => expanded_target(target, root, known),
                // Definitions cost nothing until something refers to them.
                None if key == "$defs" || key == "definitions" => 0,
                None => expanded(value, root, known),
            };
            total.saturating_add(size)
        }),
        _ => 0,
    }
}

fn expanded_target<'a>(target: &'a str, root: &'a Value, known: &mut HashMap<&'a str, u64>) -> u64 {
    if let Some(size) = known.get(target) {
        return *size;
    }
    known.insert(target, 1);
    let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
    let size = found.map_or(1, |found| expanded(found, root, known));
    known.insert(target, size);
    size
}

fn describe(text: &mut String, error: &ValidationError<'_>, root: &str) {
    let path = error.instance_path().to_string().replace('/', ".");
    let problem = error.to_string();
    let short: String = problem.chars().take(LONGEST_PROBLEM).collect();
    let cut = if short.len() < problem.len() { "…" } else { "" };
    let _ = write!(text, "`{root}{path}`: {short}{cut}");
}

/// The schemas of a tool, ready to check with.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    pub(crate) input: Option<Box<Validator>>,
    pub(crate) output: Option<Box<Validator>>,
}

impl Schemas {
    pub(crate) fn of(entry: &Entry) -> Self {
        let compiled = |key: &str| {
            let schema = entry.own.member(key)?;
            let compiled = compile(&schema);
            if let Err(reason) = &compiled {
                let tool = &entry.canonical;
                tracing::warn!(tool = %tool, "skipped validation: the tool's `{key}` cannot be used: {reason}");
            }
            compiled.ok().map(Box::new)
        };
        Self { input: compiled("inputSchema"), output: compiled("outputSchema") }
    }
}

/// 2020-12 unless the schema declares another draft. Patterns are matched in linear time.
pub fn compile(schema: &Raw) -> Result<Validator, String> {
    if schema.len() > LARGEST_SCHEMA {
        return Err(format!("it has {} bytes, more than {LARGEST_SCHEMA}", schema.len()));
    }
    let schema: Value = schema.read().map_err(|error| error.to_string())?;
    let size = expanded(&schema, &schema, &mut HashMap::new());
    if size > MOST_SUBSCHEMAS {
        return Err("its references expand to too many subschemas".to_owned());
    }
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    let options =
        if schema.get("$schema").is_some() { options } else { options.with_draft(Draft::Draft202012) };
    options.build(&schema).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_whose_references_multiply_is_not_compiled() {
        let mut definitions = json!({ "d0": { "type": "string" } });
        for level in 1..=40 {
            let below = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            definitions[format!("d{level}")] = json!({ "anyOf": [below, below] });
        }
        let schema = |top: usize| json!({ "$ref": format!("#/$defs/d{top}"), "$defs": definitions });
        let error = compile(&Raw::from(schema(40))).unwrap_err();
        assert_eq!(error, "its references expand to too many subschemas");
        assert!(compile(&Raw::from(schema(8))).is_ok());
        let recursive = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
        let list = compile(&Raw::from(recursive)).unwrap();
        assert!(problems(&list, &json!({ "next": { "next": 1 } }), "arguments").is_some());
    }

    #[test]
    fn only_the_first_problem_of_a_large_value_is_reported() {
        let schema = compile(&Raw::from(json!({ "items": { "type": "string" } }))).unwrap();
        let numbers = |count: usize| Value::from((0..count).collect::<Vec<_>>());
        assert_eq!(count(&numbers(MOST_VALUES), MOST_VALUES), MOST_VALUES + 1, "the array counts, too");
        assert_eq!(count(&numbers(1_000_000), MOST_VALUES), MOST_VALUES + 1);
        let large = problems(&schema, &numbers(MOST_VALUES), "arguments").unwrap();
        assert!(!large.contains(';'), "{large}");
        let small = problems(&schema, &numbers(12), "arguments").unwrap();
        assert!(small.ends_with("; and 2 more"), "{small}");
    }
}
