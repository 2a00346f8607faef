//! `[tools."UPSTREAM:TOOL"]` and `[profiles.NAME.tools."UPSTREAM:TOOL"]`: settings of single tools of any upstream:
//! servers, apps, instances, packs.

use std::time::Duration;

use toolyard_core::{ToolRule, ToolSettings, Validate};

use super::problem::Place;
use super::reader::{Field, Reader, Section};

/// No call may take longer than this.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);

/// One section, with the place of each key that it sets.
#[derive(Clone, Debug)]
pub struct ToolSection {
    pub rule: ToolRule,
    pub places: Vec<(&'static str, Place)>,
}

/// What the sections can name.
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
    let Keys { section, places } = keys;
    let is_empty = places.is_empty() && section.is_empty();
    section.finish(reader);
    if !field.key.contains(':') && field.key != "*" {
        let help =
            format!("write [tools.\"UPSTREAM:{}\"], or \"*:{}\" for every upstream", field.key, field.key);
        field.error(reader, "expected the id of a tool, UPSTREAM:TOOL", help);
    }
    if is_empty {
        field.error(reader, "sets nothing", "write timeout = \"30s\", or remove the section");
    }
    let settings = ToolSettings { timeout, limits, hooks, validate };
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
