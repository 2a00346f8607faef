//! `mb_advanced_search`: any kind of thing, by a query in Lucene's syntax.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::{counted, credit, lines, list, nothing, ten, text, total};
use crate::library::Library;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AdvancedSearch {
    /// What to search for.
    entity: Entity,
    /// In Lucene's syntax, such as `artist:radiohead AND date:[1997 TO 2003]`.
    #[schemars(length(min = 1))]
    query: String,
    /// How many to answer with.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entity {
    Artist,
    Release,
    ReleaseGroup,
    Recording,
    Work,
    Label,
}

impl Entity {
    /// As MusicBrainz writes it.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Artist => "artist",
            Self::Release => "release",
            Self::ReleaseGroup => "release-group",
            Self::Recording => "recording",
            Self::Work => "work",
            Self::Label => "label",
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    entity: Entity,
    query: String,
    results: Vec<Hit>,
    /// How many there are in all.
    total_count: u64,
}

#[derive(Serialize, JsonSchema)]
struct Hit {
    mbid: String,
    name: String,
    /// 100 for the best.
    score: Option<u64>,
    artist: Option<String>,
    disambiguation: Option<String>,
}

/// Searches MusicBrainz with a query in Lucene's syntax.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_advanced_search(
    library: &Library,
    args: AdvancedSearch,
) -> Result<WithText<Found>, ToolError> {
    let path = args.entity.path();
    let answer = library.services.musicbrainz.search(path, &args.query, args.limit).await?;
    let key = format!("{path}s");
    let results: Vec<Hit> = list(&answer, &key)
        .iter()
        .map(|one| Hit {
            mbid: text(one, "id").unwrap_or_default(),
            name: text(one, "title").or_else(|| text(one, "name")).unwrap_or_default(),
            score: one["score"].as_u64(),
            artist: credit(one),
            disambiguation: text(one, "disambiguation"),
        })
        .collect();
    if results.is_empty() {
        return Err(nothing(&key, &args.query));
    }
    let total_count = total(&answer, "count", results.len());
    let text =
        lines(&counted(total_count, path), results.iter().map(|one| format!("{} [{}]", one.name, one.mbid)));
    Ok(WithText::new(Found { entity: args.entity, query: args.query, results, total_count }, text))
}
