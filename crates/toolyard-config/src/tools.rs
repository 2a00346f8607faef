//! `[tools."UPSTREAM:TOOL"]` and `[profiles.NAME.tools."UPSTREAM:TOOL"]`: settings of single tools of any upstream:
//! servers, apps, instances, packs.

use std::time::Duration;

use toolyard_core::{RetryPlan, ToolRule, ToolSettings, Validate};

use super::problem::Place;
use super::reader::{Field, Reader, Section};
use super::tree::Value;

/// More attempts would only hide that something is broken.
const MOST_ATTEMPTS: i64 = 10;
/// No call may take longer than this.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);

/// One section, with the place of each key that it sets.
#[derive(Clone, Debug)]
pub struct ToolSection {
    pub rule: ToolRule,
    pub places: Vec<(&'static str, Place)>,
}

/// The limits and hooks that the sections can refer to.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) limits: &'a [String],
}

/// The sections of a file, or of one profile in it.
pub(crate) fn read(
    root: &mut Section,
    reader: &mut Reader<'_>,
    profile: Option<&str>,
    known: Known<'_>,
) -> Vec<ToolSection> {
    let sections = root.named_sections(reader, "tools");
    let one = |(field, section): (Field, Section)| read_one(reader, &field, section, profile, known);
    sections.into_iter().map(one).collect()
}

fn read_one(
    reader: &mut Reader<'_>,
    field: &Field,
    section: Section,
    profile: Option<&str>,
    known: Known<'_>,
) -> ToolSection {
    let mut keys = Keys { section, places: Vec::new() };
    let timeout = keys.take(reader, "timeout").and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    let limits = keys.take(reader, "limits").map(|field| read_limits(reader, &field, known.limits));
    let hooks = keys.take(reader, "hooks").and_then(|field| field.flag(reader));
    let validate = keys.take(reader, "validate").and_then(|field| field.choice(reader, &Validate::ALL));
    let retry = keys.take(reader, "retry").and_then(|field| read_retry(reader, field));
    let idempotent = keys.take(reader, "idempotent").and_then(|field| field.flag(reader));
    let trust_annotations = keys.take(reader, "trust_annotations").and_then(|field| field.flag(reader));
    let fallback = keys.take(reader, "fallback").and_then(|field| read_fallback(reader, &field));
    let cool_down = keys.take(reader, "cool_down").and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    let Keys { section, places } = keys;
    let is_empty = places.is_empty() && section.is_empty();
    section.finish(reader);
    if !field.key.contains(':') && field.key != "*" {
        let help =
            format!("write [tools.\"UPSTREAM:{}\"], or \"*:{}\" for every upstream", field.key, field.key);
        field.error(reader, "expected the id of a tool, UPSTREAM:TOOL", help);
    }
    if is_empty {
        field.error(reader, "sets no key", "write timeout = \"30s\", or remove the section");
    }
    let settings = ToolSettings {
        timeout,
        limits,
        hooks,
        validate,
        retry,
        idempotent,
        trust_annotations,
        fallback,
        cool_down,
    };
    let rule = ToolRule { profile: profile.map(str::to_owned), pattern: field.key.clone(), settings };
    ToolSection { rule, places }
}

/// Takes keys and notes where they are.
struct Keys {
    section: Section,
    places: Vec<(&'static str, Place)>,
}

impl Keys {
    fn take(&mut self, reader: &Reader<'_>, key: &'static str) -> Option<Field> {
        let field = self.section.take(key)?;
        self.places.push((key, reader.place(field.at)));
        Some(field)
    }
}

/// `retry = 3`, or a table.
fn read_retry(reader: &mut Reader<'_>, field: Field) -> Option<RetryPlan> {
    let usual = RetryPlan::default();
    if matches!(field.value(), Value::Integer(_)) {
        return Some(RetryPlan { attempts: read_attempts(reader, &field)?, ..usual });
    }
    let mut section = field.section(reader)?;
    let attempts = section.take("attempts").and_then(|field| read_attempts(reader, &field));
    let mut time = |key| {
        let field = section.take(key);
        field.and_then(|field| field.duration_within(reader, Duration::from_millis(10), LONGEST_TIMEOUT))
    };
    let (wait, max_wait) = (time("wait"), time("max_wait"));
    section.finish(reader);
    let wait = wait.unwrap_or(usual.wait);
    Some(RetryPlan {
        attempts: attempts.unwrap_or(usual.attempts),
        wait,
        max_wait: max_wait.unwrap_or(usual.max_wait).max(wait),
    })
}

fn read_attempts(reader: &mut Reader<'_>, field: &Field) -> Option<u32> {
    let number = field.integer(reader)?;
    let attempts = u32::try_from(number).ok().filter(|_| (1..=MOST_ATTEMPTS).contains(&number));
    if attempts.is_none() {
        let message = format!("expected a number from 1 to {MOST_ATTEMPTS}, found {number}");
        field.error(reader, message, "the first attempt counts; 1 never repeats a call");
    }
    attempts
}

fn read_fallback(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = field.text(reader)?;
    let is_id = text.split_once(':').is_some_and(|(upstream, tool)| !upstream.is_empty() && !tool.is_empty());
    if !is_id {
        let help = format!("write {}, for instance", field.example(reader, "\"wiki:search\""));
        field.error(reader, "expected the id of a tool, UPSTREAM:TOOL", help);
        return None;
    }
    Some(text)
}

fn read_limits(reader: &mut Reader<'_>, field: &Field, known: &[String]) -> Vec<String> {
    let items = field.items(reader);
    let known_limit = |item: &Field| {
        let name = item.text(reader)?;
        if known.contains(&name) {
            return Some(name);
        }
        let help = match super::nearest(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("add a section [limits.{name}], or remove it here"),
        };
        item.error(reader, format!("there is no limit `{name}`"), help);
        None
    };
    items.iter().filter_map(known_limit).collect()
}
