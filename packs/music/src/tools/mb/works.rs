//! `mb_work_search` and `mb_label_search`: compositions, and who publishes records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::{counted, lines, list, names, nothing, query_of, ten, text, text_or_empty, total};
use crate::library::Library;
use crate::services::musicbrainz::is_mbid;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Search {
    /// Words of a name, or a MusicBrainz id.
    #[serde(default)]
    query: String,
    /// How many to answer with.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    limit: u32,
    /// Say what else they are called.
    #[serde(default)]
    include_aliases: bool,
    /// A query in Lucene's syntax, instead of `query`.
    raw_lucene_query: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Works {
    works: Vec<Work>,
    /// How many there are in all.
    total_count: u64,
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Work {
    title: String,
    mbid: String,
    work_type: Option<String>,
    disambiguation: Option<String>,
    language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aliases: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Labels {
    labels: Vec<Label>,
    /// How many there are in all.
    total_count: u64,
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Label {
    name: String,
    mbid: String,
    label_type: Option<String>,
    country: Option<String>,
    disambiguation: Option<String>,
    label_code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aliases: Option<Vec<String>>,
}

/// Searches MusicBrainz for works: compositions, apart from any recording.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_work_search(library: &Library, args: Search) -> Result<WithText<Works>, ToolError> {
    let (found, total_count, query) = find(library, &args, "work", "works").await?;
    let works: Vec<Work> = found
        .iter()
        .map(|one| Work {
            title: text_or_empty(one, "title"),
            mbid: text_or_empty(one, "id"),
            work_type: text(one, "type"),
            disambiguation: text(one, "disambiguation"),
            language: text(one, "language"),
            aliases: args.include_aliases.then(|| names(one, "aliases")),
        })
        .collect();
    let text =
        lines(&counted(total_count, "work"), works.iter().map(|one| format!("{} [{}]", one.title, one.mbid)));
    Ok(WithText::new(Works { works, total_count, query }, text))
}

/// Searches MusicBrainz for labels.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_label_search(library: &Library, args: Search) -> Result<WithText<Labels>, ToolError> {
    let (found, total_count, query) = find(library, &args, "label", "labels").await?;
    let labels: Vec<Label> = found
        .iter()
        .map(|one| Label {
            name: text_or_empty(one, "name"),
            mbid: text_or_empty(one, "id"),
            label_type: text(one, "type"),
            country: text(one, "country"),
            disambiguation: text(one, "disambiguation"),
            label_code: one["label-code"].as_u64(),
            aliases: args.include_aliases.then(|| names(one, "aliases")),
        })
        .collect();
    let text = lines(
        &counted(total_count, "label"),
        labels.iter().map(|one| format!("{} [{}]", one.name, one.mbid)),
    );
    Ok(WithText::new(Labels { labels, total_count, query }, text))
}

async fn find(
    library: &Library,
    args: &Search,
    entity: &str,
    key: &str,
) -> Result<(Vec<Value>, u64, String), ToolError> {
    let service = &library.services.musicbrainz;
    let words = args.query.trim();
    if args.raw_lucene_query.is_none() && is_mbid(words) {
        return Ok((vec![service.lookup(entity, words, &["aliases"]).await?], 1, words.to_owned()));
    }
    let query = query_of(entity, words, args.raw_lucene_query.as_deref())?;
    let answer = service.search(entity, &query, args.limit).await?;
    let found = list(&answer, key).to_vec();
    if found.is_empty() {
        return Err(nothing(key, &query));
    }
    let total = total(&answer, "count", found.len());
    Ok((found, total, query))
}
