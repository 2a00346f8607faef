//! `[hooks.NAME]`: what runs before and after calls, and when sessions begin or idle: a program, a URL, or a hook that
//! comes with Toolyard.

use std::time::Duration;

use serde_json::{Map, Value as Json};
use toolyard_hooks::{CommandHook, HookKind, HookPlan, OnFailure, Point, WebHook, shipped};

use super::problem::Place;
use super::reach::{Program, Reach, Server};
use super::reader::{Field, Reader, Section};
use super::tree::{Node, Value};

const LONGEST_TIMEOUT: Duration = Duration::from_mins(10);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// One section, with its place.
#[derive(Clone, Debug)]
pub struct HookSection {
    pub plan: HookPlan,
    pub is_on: bool,
    pub place: Place,
}

/// A project must not have its programs run around every call of its user.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Vec<HookSection> {
    if let Some(field) = root.take("hooks") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot add hooks", help);
    }
    Vec::new()
}

pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<HookSection> {
    let sections = root.named_sections(reader, "hooks");
    sections.into_iter().filter_map(|(field, section)| read_one(reader, &field, section)).collect()
}

fn read_one(reader: &mut Reader<'_>, field: &Field, mut section: Section) -> Option<HookSection> {
    let is_on = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    let on = section.take("on").map(|field| points(reader, &field));
    let matches = section.take("matches").map(|field| strings(reader, &field));
    let order = section.take("order").and_then(|field| read_order(reader, &field)).unwrap_or_default();
    let timeout = section.take("timeout");
    let timeout = timeout.and_then(|field| field.duration_within(reader, SHORTEST_TIMEOUT, LONGEST_TIMEOUT));
    let choices = [("pass", OnFailure::Pass), ("block", OnFailure::Block)];
    let on_failure = section.take("on_failure").and_then(|field| field.choice(reader, &choices));
    let built_in = section.take("use");
    let with = section.take("with");
    let kind = match &built_in {
        Some(name) => shipped_kind(reader, name, with.as_ref()),
        None => own_kind(reader, &mut section),
    };
    section.finish(reader);
    let known = built_in.and_then(|name| shipped::find(&name.text(reader)?));
    if on.is_none() && known.is_none() && kind.is_some() {
        let help = format!("write {}, for instance", reader.example("on", "\"pre_tool_call\""));
        field.error(reader, "`on` is missing; it sets when the hook runs", help);
    }
    let usual = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
    Some(HookSection {
        plan: HookPlan {
            name: field.key.clone(),
            points: on.or_else(|| Some(known?.points.to_vec())).unwrap_or_default(),
            matches: matches.or_else(|| Some(usual(known?.matches))).unwrap_or_default(),
            order,
            timeout: timeout.unwrap_or(HookPlan::TIMEOUT),
            on_failure: on_failure.unwrap_or_default(),
            kind: kind?,
        },
        is_on,
        place: reader.place(field.at),
    })
}

/// One text, or a list of them.
fn strings(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    each(reader, field).iter().filter_map(|item| item.text(reader)).collect()
}

fn each(reader: &mut Reader<'_>, field: &Field) -> Vec<Field> {
    if matches!(field.value(), Value::Text(_)) { vec![field.clone()] } else { field.items(reader) }
}

fn points(reader: &mut Reader<'_>, field: &Field) -> Vec<Point> {
    each(reader, field).iter().filter_map(|item| item.choice(reader, &Point::ALL)).collect()
}

fn read_order(reader: &mut Reader<'_>, field: &Field) -> Option<i32> {
    let number = field.integer(reader)?;
    let order = i32::try_from(number).ok();
    if order.is_none() {
        field.error(
            reader,
            format!("{number} is out of range"),
            "smaller numbers run earlier; use small ones",
        );
    }
    order
}

fn own_kind(reader: &mut Reader<'_>, section: &mut Section) -> Option<HookKind> {
    let at = section.at;
    let path = section.path.clone();
    Some(match Reach::take(section, reader)? {
        Reach::Program(Program { command, args, env, cwd, sandbox }) => HookKind::Command(CommandHook {
            program: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: Some(cwd),
            sandbox,
        }),
        Reach::Server(Server { url, headers, .. }) => HookKind::Web(WebHook { url, headers }),
        Reach::Socket(_) => {
            reader.error(at, &path, "a hook cannot be a socket", "write an http or https URL as `url`");
            return None;
        }
    })
}

fn shipped_kind(reader: &mut Reader<'_>, field: &Field, with: Option<&Field>) -> Option<HookKind> {
    let name = field.text(reader)?;
    if shipped::find(&name).is_none() {
        let help = match super::nearest(&name, shipped::ALL.iter().map(|one| one.name)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!(
                "choose one of {}",
                shipped::ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ")
            ),
        };
        field.error(reader, format!("Toolyard has no built-in hook `{name}`"), help);
        return None;
    }
    let settings = with.map_or(Json::Null, |field| json(field.value()));
    if let Err(wrong) = shipped::check(&name, &settings) {
        let field = with.unwrap_or(field);
        field.error(reader, wrong, "docs/guide/hooks.md lists the settings of each hook");
        return None;
    }
    Some(HookKind::Shipped { name, settings })
}

fn json(value: &Value) -> Json {
    let node = |node: &Node| json(&node.value);
    match value {
        Value::Text(text) => Json::from(text.as_str()),
        Value::Integer(number) => Json::from(*number),
        Value::Fraction(number) => Json::from(*number),
        Value::Flag(flag) => Json::from(*flag),
        Value::List(items) => items.iter().map(node).collect(),
        Value::Table(entries) => Json::Object(
            entries.iter().map(|entry| (entry.key.clone(), node(&entry.node))).collect::<Map<_, _>>(),
        ),
        Value::Other(name) => Json::from(*name),
    }
}
