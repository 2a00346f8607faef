//! `[profiles.NAME]`: a named slice of the catalog, served at `/mcp/p/NAME`.

use toolyard_core::ProfilePlan;
use toolyard_core::plan::Exposure;
use toolyard_core::settings::Pattern;
use toolyard_proto::name::UpstreamId;

use super::packs::KnownPacks;
use super::reader::{Field, Reader, Section};
use super::suggest::nearest;

const EXPOSURES: [(&str, Exposure); 2] = [("full", Exposure::Full), ("search", Exposure::Search)];

/// The ids that a profile may name. Built-in packs need no section of their own.
fn known<'a>(packs: &'a KnownPacks, ids: &'a [String]) -> impl Iterator<Item = &'a str> {
    ids.iter().map(String::as_str).chain(packs.names().map(|name| -> &str { name })).chain(["yard"])
}

/// Reads all of them. `ids` are those of the configured upstreams: a slip in a `deny` must not go unnoticed.
/// `tools` reads the settings of tools in one of them.
pub(crate) fn read(
    root: &mut Section,
    reader: &mut Reader<'_>,
    ids: &[String],
    mut tools: impl FnMut(&mut Section, &mut Reader<'_>, &str),
) -> Vec<ProfilePlan> {
    let sections = root.named_sections(reader, "profiles");
    let one = |(field, mut section): (Field, Section)| {
        tools(&mut section, reader, &field.key);
        read_one(reader, &field, section, ids)
    };
    sections.into_iter().filter_map(one).collect()
}

fn read_one(
    reader: &mut Reader<'_>,
    field: &Field,
    mut section: Section,
    ids: &[String],
) -> Option<ProfilePlan> {
    let upstreams = section.take("upstreams").map(|field| {
        let items = field.items(reader);
        items.iter().filter_map(|item| known_upstream(reader, item, ids)).collect::<Vec<_>>()
    });
    let apps = section.take("apps").map(|field| apps(reader, &field));
    let instances = section.take("instances").map(|field| instances(reader, &field));
    // Those who come and go are known where the profile names them.
    let named = apps.iter().flatten().chain(instances.iter().flatten()).cloned();
    let named: Vec<String> = ids.iter().cloned().chain(named).collect();
    let compiled = |patterns: Vec<String>| patterns.iter().map(|one| Pattern::new(one)).collect::<Vec<_>>();
    let allow = section.take("allow").map(|field| compiled(patterns(reader, &field, &named)));
    let deny = section.take("deny").map(|field| compiled(patterns(reader, &field, &named)));
    let deny = deny.unwrap_or_default();
    let transparent = section.take("transparent").and_then(|field| Some((field.flag(reader)?, field)));
    let exposure = section.take("exposure").and_then(|field| field.choice(reader, &EXPOSURES));
    let exposure = exposure.unwrap_or_default();
    let listed = section.take("listed");
    if let Some(field) = listed.as_ref().filter(|_| exposure == Exposure::Full) {
        field.warn(
            reader,
            "has no effect: this profile lists all its tools",
            "write exposure = \"search\" to list only these",
        );
    }
    let listed = listed.map(|field| compiled(patterns(reader, &field, &named))).unwrap_or_default();
    let bare =
        section.take("names").and_then(|field| field.choice(reader, &[("shown", false), ("bare", true)]));
    let bare = bare.unwrap_or_default();
    section.finish(reader);
    let all = if apps.is_some() || instances.is_some() { 0 } else { ids.len() };
    let inside = upstreams.as_ref().map_or(all, |named| named.iter().filter(|id| ids.contains(id)).count());
    if let Some((true, field)) = &transparent {
        warn_unless_alone(reader, field, inside);
    }
    if !is_path_segment(&field.key) {
        let help = "use letters, digits, `_`, `-` and `.`: the name is part of the URL /mcp/p/NAME";
        field.error(reader, "is not a name for a profile", help);
        return None;
    }
    let transparent = transparent.is_some_and(|(flag, _)| flag);
    let name = field.key.clone();
    Some(ProfilePlan { name, upstreams, apps, instances, allow, deny, transparent, bare, exposure, listed })
}

/// `[lean]`: which tools the lean view lists beside search and call.
pub(crate) fn read_lean(reader: &mut Reader<'_>, field: Field, ids: &[String]) -> Vec<Pattern> {
    let Some(mut section) = field.section(reader) else { return Vec::new() };
    let listed = section.take("listed").map(|field| patterns(reader, &field, ids)).unwrap_or_default();
    section.finish(reader);
    listed.iter().map(|one| Pattern::new(one)).collect()
}

/// `transparent` shows one upstream under its own names; of several it cannot.
pub(crate) fn warn_unless_alone(reader: &mut Reader<'_>, field: &Field, upstreams: usize) {
    if upstreams != 1 {
        let message = format!("has no effect: it needs exactly one upstream, and there are {upstreams}");
        field.warn(reader, message, "remove it, or look at one upstream at /mcp/NAME");
    }
}

fn is_path_segment(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Ids of apps, which may register at any time.
fn apps(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let items = field.items(reader);
    let id = |item: &Field| {
        let text = item.text(reader)?;
        if let Err(error) = UpstreamId::parse(&text) {
            item.error(reader, error.to_string(), "write the id that the app registers under");
            return None;
        }
        Some(text)
    };
    items.iter().filter_map(id).collect()
}

/// Whatever is found under one of these ids or names.
fn instances(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let items = field.items(reader);
    items.iter().filter_map(|item| item.text(reader)).collect()
}

/// The id as the upstream spells it.
fn known_upstream(reader: &mut Reader<'_>, item: &Field, ids: &[String]) -> Option<String> {
    let text = item.text(reader)?;
    let id = find(reader.packs, &text, ids);
    if id.is_none() {
        report_unknown(reader, item, &text, ids);
    }
    id
}

fn find(packs: &KnownPacks, text: &str, ids: &[String]) -> Option<String> {
    known(packs, ids).find(|id| id.eq_ignore_ascii_case(text)).map(ToOwned::to_owned)
}

fn report_unknown(reader: &mut Reader<'_>, item: &Field, text: &str, ids: &[String]) {
    let help = match nearest(text, known(reader.packs, ids)) {
        Some(id) => format!("did you mean `{id}`?"),
        None => format!(
            "add a section [upstreams.{text}], name an app in `apps` and an instance in `instances`, or remove it here"
        ),
    };
    item.error(reader, format!("there is no upstream `{text}`"), help);
}

fn patterns(reader: &mut Reader<'_>, field: &Field, ids: &[String]) -> Vec<String> {
    let items = field.items(reader);
    items.iter().filter_map(|item| pattern(reader, item, ids)).collect()
}

/// A pattern over canonical ids, with the id in front spelt as the upstream spells it.
fn pattern(reader: &mut Reader<'_>, item: &Field, ids: &[String]) -> Option<String> {
    let text = item.text(reader)?;
    if text == "*" {
        return Some(text);
    }
    let Some((upstream, tool)) = text.split_once(':').filter(|(id, tool)| !id.is_empty() && !tool.is_empty())
    else {
        let message = "expected a pattern `upstream:tool`, in which `*` matches any characters";
        item.error(reader, message, format!("write \"*:{}\" to mean every upstream", text.trim_matches(':')));
        return None;
    };
    if upstream.contains('*') {
        return Some(text);
    }
    let id = find(reader.packs, upstream, ids);
    if id.is_none() {
        report_unknown(reader, item, upstream, ids);
    }
    Some(format!("{}:{tool}", id?))
}
