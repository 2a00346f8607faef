//! `mb_get_relations`: how something is related to other things.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::advanced::Entity;
use super::{counted, lines, list, text};
use crate::library::Library;

/// Everything in one request.
const ALL: [&str; 13] = [
    "area-rels",
    "artist-rels",
    "event-rels",
    "genre-rels",
    "instrument-rels",
    "label-rels",
    "place-rels",
    "recording-rels",
    "release-rels",
    "release-group-rels",
    "series-rels",
    "url-rels",
    "work-rels",
];

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetRelations {
    /// What kind of thing it is.
    entity_type: Entity,
    /// Its MusicBrainz id.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    mbid: String,
    /// Only relations of these kinds, such as `member of band`; by default all.
    #[serde(default)]
    kinds: Vec<String>,
    /// Also relations that point at it.
    #[serde(default = "yes")]
    include_reverse: bool,
    /// How many to answer with.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 200), transform = clamp)]
    limit: u32,
}

fn yes() -> bool {
    true
}

fn hundred() -> u32 {
    100
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Relations {
    entity_type: Entity,
    mbid: String,
    entity_name: String,
    relations: Vec<Relation>,
    /// How many there are.
    raw_count: usize,
    /// How many of them are of the wanted kinds and directions.
    matched_count: usize,
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Relation {
    kind: String,
    direction: String,
    target_type: String,
    target_mbid: Option<String>,
    target_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
}

/// Lists how an artist, release, recording, work or label is related to others: members, covers, composers, links
/// and more.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_get_relations(
    library: &Library,
    args: GetRelations,
) -> Result<WithText<Relations>, ToolError> {
    let entity = library.services.musicbrainz.lookup(args.entity_type.path(), &args.mbid, &ALL).await?;
    let raw = list(&entity, "relations");
    let wanted = |one: &&Value| {
        let kind = one["type"].as_str().unwrap_or_default();
        let is_kind =
            args.kinds.is_empty() || args.kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind));
        is_kind && (args.include_reverse || one["direction"] != "backward")
    };
    let matched: Vec<Relation> = raw.iter().filter(wanted).map(relation).collect();
    let matched_count = matched.len();
    let relations: Vec<Relation> = matched.into_iter().take(usize::try_from(args.limit)?).collect();
    let entity_name = text(&entity, "name").or_else(|| text(&entity, "title")).unwrap_or_default();
    let text = lines(
        &format!("{} of {entity_name}", counted(matched_count as u64, "relation")),
        relations.iter().map(|one| format!("{}: {}", one.kind, one.target_name.as_deref().unwrap_or("?"))),
    );
    let answer = Relations {
        entity_type: args.entity_type,
        mbid: args.mbid,
        entity_name,
        truncated: matched_count > relations.len(),
        relations,
        raw_count: raw.len(),
        matched_count,
    };
    Ok(WithText::new(answer, text))
}

fn relation(value: &Value) -> Relation {
    let target_type = value["target-type"].as_str().unwrap_or_default();
    // `release_group` in `target-type` is `release_group` as a key, too.
    let target = &value[target_type];
    Relation {
        kind: text(value, "type").unwrap_or_default(),
        direction: text(value, "direction").unwrap_or_else(|| "forward".into()),
        target_type: target_type.to_owned(),
        target_mbid: text(target, "id"),
        target_name: ["name", "title", "resource"].iter().find_map(|key| text(target, key)),
        attributes: list(value, "attributes")
            .iter()
            .filter_map(|one| one.as_str().map(ToOwned::to_owned))
            .collect(),
        begin: text(value, "begin"),
        end: text(value, "end"),
    }
}
