//! Shows the URIs in what an upstream sent, and only those: a raw result goes in, and it comes out with text
//! inserted into its URIs and every other byte as it was.
//!
//! [`ValuePlace::member`] and [`ValuePlace::item`] are the list of where MCP puts the URI of a resource. Everything
//! else is passed over, above all `structuredContent`, schemas, arguments and the text of content, which may hold keys
//! of the same names. Left alone on purpose: the sampling messages inside an `input_required` result, even where a tool
//! result in them links a resource. They are a prompt that the upstream composed for a model, about its own tools; no
//! client reads resources for it.

use memchr::memmem;

use super::Insertion;
use super::walk::{JsonString, Walker};
use crate::name::UpstreamId;

/// The kind of the raw JSON, which determines where URIs are in it.
///
/// An `input_required` answer may be given as the kind of the final result; nothing in it is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultKind {
    /// The result of `tools/call`.
    ToolResult,
    /// The result of `prompts/get`.
    PromptResult,
    /// The result of `resources/read`.
    ReadResult,
    /// One resource of `resources/list`.
    ResourceEntry,
    /// One template of `resources/templates/list`.
    TemplateEntry,
    /// One tool of `tools/list`, which names its app in `_meta`.
    ToolEntry,
    /// The params of `notifications/resources/updated`.
    UpdatedParams,
    /// One skill of `skills/list`.
    SkillEntry,
    /// The result of `skills/get`.
    SkillResult,
    /// The result of `resources/directory/read`.
    DirectoryResult,
}

/// The JSON with its URIs shown under the upstream's id; `None` if it holds none, or is not JSON.
///
/// Most results have no URIs; a plain search recognizes them before anything is parsed or allocated.
pub fn map_result(kind: ResultKind, id: &UpstreamId, raw: &[u8]) -> Option<Vec<u8>> {
    if !may_hold_uris(kind, raw) {
        return None;
    }
    let found = find_uris(kind, std::str::from_utf8(raw).ok()?)?;
    (!found.is_empty()).then(|| splice(id, raw, &found))
}

/// A string that is a URI: where its text starts, and what to insert.
struct FoundUri {
    at: usize,
    insertion: Insertion,
}

/// The role of a value in MCP.
#[derive(Clone, Copy)]
enum ValuePlace {
    Root(ResultKind),
    Messages,
    Message,
    /// One block of content, or an array of them.
    Content,
    Block,
    /// A `resource_link`, which is a resource with a type.
    Link,
    /// A block of type `resource`.
    Embedded,
    /// An array of what `resources/read` returned, or of the files of a skill or a directory.
    Contents,
    /// A skill, which has a `uri` and files.
    Skill,
    /// Something with a `uri`: a resource, or what was read from one.
    Resource,
    ToolMeta,
    AppMeta,
    Uri,
    /// A URI only if it is `ui://`.
    AppUri,
    Other,
}

impl ValuePlace {
    fn member(self, key: &str) -> Self {
        use ResultKind::{
            DirectoryResult, PromptResult, ReadResult, ResourceEntry, SkillEntry, SkillResult, TemplateEntry,
            ToolEntry, ToolResult, UpdatedParams,
        };
        match (self, key) {
            (Self::Root(ToolResult) | Self::Message, "content") => Self::Content,
            (Self::Root(PromptResult), "messages") => Self::Messages,
            (Self::Root(ReadResult), "contents")
            | (Self::Root(DirectoryResult | SkillEntry) | Self::Skill, "resources") => Self::Contents,
            (Self::Root(SkillResult), "skill") => Self::Skill,
            (Self::Root(ToolEntry), "_meta") => Self::ToolMeta,
            (
                Self::Root(ResourceEntry | UpdatedParams | SkillEntry)
                | Self::Link
                | Self::Resource
                | Self::Skill,
                "uri",
            )
            | (Self::Root(TemplateEntry), "uriTemplate") => Self::Uri,
            (Self::Embedded, "resource") => Self::Resource,
            (Self::ToolMeta, "ui") => Self::AppMeta,
            // The flat key is the predecessor of the nested one; servers send both.
            (Self::ToolMeta, "ui/resourceUri") | (Self::AppMeta, "resourceUri") => Self::AppUri,
            _ => Self::Other,
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Messages => Self::Message,
            Self::Content => Self::Block,
            Self::Contents => Self::Resource,
            _ => Self::Other,
        }
    }
}

fn may_hold_uris(kind: ResultKind, raw: &[u8]) -> bool {
    let key: &[u8] = match kind {
        ResultKind::ToolEntry => b"resourceUri\"",
        ResultKind::TemplateEntry => b"\"uriTemplate\"",
        _ => b"\"uri\"",
    };
    memmem::find(raw, key).is_some() || holds_escaped_letter(raw)
}

/// Escaped letters are rare, but a key written so is the same key.
fn holds_escaped_letter(raw: &[u8]) -> bool {
    memmem::find_iter(raw, b"\\u00").any(|at| matches!(raw.get(at + 4), Some(b'4'..=b'7')))
}

fn find_uris(kind: ResultKind, json: &str) -> Option<Vec<FoundUri>> {
    let mut walker = Walker::new(json);
    let mut found = Vec::new();
    visit(&mut walker, ValuePlace::Root(kind), &mut found)?;
    walker.is_at_end().then_some(found)
}

fn visit(walker: &mut Walker<'_>, place: ValuePlace, found: &mut Vec<FoundUri>) -> Option<()> {
    match (place, walker.peek()?) {
        (ValuePlace::Other, _) => walker.skip(),
        (ValuePlace::Content | ValuePlace::Block, b'{') => {
            let place = block_place(walker.clone())?;
            visit_members(walker, place, found)
        }
        (_, b'{') => visit_members(walker, place, found),
        (_, b'[') => walker.items(|walker| visit(walker, place.item(), found)),
        (ValuePlace::Uri | ValuePlace::AppUri, b'"') => {
            let uri = walker.string()?;
            found.extend(found_at(place, uri));
            Some(())
        }
        _ => walker.skip(),
    }
}

fn visit_members(walker: &mut Walker<'_>, place: ValuePlace, found: &mut Vec<FoundUri>) -> Option<()> {
    walker.members(|walker, key| visit(walker, place.member(&key.decoded()), found))
}

/// Reads ahead to the type of a block, which may come after its URI; of several, the last counts, as in most parsers.
fn block_place(mut walker: Walker<'_>) -> Option<ValuePlace> {
    let mut place = ValuePlace::Other;
    walker.members(|walker, key| {
        if key.decoded() != "type" {
            return walker.skip();
        }
        place = ValuePlace::Other;
        if walker.peek()? != b'"' {
            return walker.skip();
        }
        place = match &*walker.string()?.decoded() {
            "resource_link" => ValuePlace::Link,
            "resource" => ValuePlace::Embedded,
            _ => ValuePlace::Other,
        };
        Some(())
    })?;
    Some(place)
}

fn found_at(place: ValuePlace, uri: JsonString<'_>) -> Option<FoundUri> {
    let insertion = Insertion::of_units(uri.units());
    let wanted = matches!(place, ValuePlace::Uri) || insertion.is_ui;
    wanted.then_some(FoundUri { at: uri.at, insertion })
}

fn splice(id: &UpstreamId, raw: &[u8], found: &[FoundUri]) -> Vec<u8> {
    let longest = super::WITH_SCHEME.len() + id.as_str().len() + 1;
    let mut shown = Vec::with_capacity(raw.len() + found.len() * longest);
    let mut done = 0;
    for FoundUri { at, insertion } in found {
        let id_at = at + insertion.id_at;
        shown.extend_from_slice(&raw[done..*at]);
        shown.extend_from_slice(insertion.start.as_bytes());
        shown.extend_from_slice(&raw[*at..id_at]);
        shown.extend_from_slice(id.as_str().as_bytes());
        shown.push(b'/');
        done = id_at;
    }
    shown.extend_from_slice(&raw[done..]);
    shown
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
