//! Tools that ask MusicBrainz and its sisters, and what they share.

#![expect(clippy::struct_field_names, reason = "fields are called as in the answers")]

pub(crate) mod advanced;
pub(crate) mod artist;
pub(crate) mod cover;
pub(crate) mod identify;
pub(crate) mod matching;
pub(crate) mod recording;
pub(crate) mod relations;
pub(crate) mod release;
pub(crate) mod works;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolyard_tool::ToolError;

use crate::services::musicbrainz::lucene;

pub(crate) fn ten() -> u32 {
    10
}

/// The query that was given raw, or the plain words for that field.
fn query_of(field: &str, words: &str, raw: Option<&str>) -> Result<String, ToolError> {
    match raw.filter(|raw| !raw.trim().is_empty()) {
        Some(raw) => Ok(raw.to_owned()),
        None if words.trim().is_empty() => {
            Err(ToolError::new("there is nothing to search for").hint("give `query` or `raw_lucene_query`"))
        }
        None => Ok(lucene(field, words)),
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

fn text_or_empty(value: &Value, key: &str) -> String {
    text(value, key).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn names(value: &Value, key: &str) -> Vec<String> {
    list(value, key).iter().filter_map(|one| text(one, "name")).collect()
}

/// The year of a date such as `1997-05-21`.
fn year(value: &Value, key: &str) -> Option<u32> {
    value[key].as_str()?.get(..4)?.parse().ok()
}

/// All artists of an artist credit, as it is shown.
fn credit(value: &Value) -> Option<String> {
    let credit: String = list(value, "artist-credit")
        .iter()
        .map(|one| {
            let name = text(one, "name").or_else(|| text(&one["artist"], "name")).unwrap_or_default();
            name + one["joinphrase"].as_str().unwrap_or_default()
        })
        .collect();
    (!credit.is_empty()).then_some(credit)
}

/// The total number of results, as the service reports it.
fn total(answer: &Value, key: &str, found: usize) -> u64 {
    answer[key].as_u64().unwrap_or(found as u64)
}

/// An empty search is an error, so that a model notices it.
fn nothing(what: &str, query: &str) -> ToolError {
    ToolError::not_found(format!("no {what} found for `{query}`"))
        .hint("use fewer or other words, or `raw_lucene_query` with fields such as `artist:` and `release:`")
}

/// A release, shortly.
#[derive(Serialize, JsonSchema)]
struct ReleaseAbout {
    title: String,
    mbid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    artist: Option<String>,
    year: Option<u32>,
    country: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

impl ReleaseAbout {
    fn read(value: &Value) -> Self {
        Self {
            title: text_or_empty(value, "title"),
            mbid: text_or_empty(value, "id"),
            artist: credit(value),
            year: year(value, "date"),
            country: text(value, "country"),
            status: text(value, "status"),
            tags: Vec::new(),
        }
    }

    fn line(&self) -> String {
        let year = self.year.map(|year| format!(" ({year})")).unwrap_or_default();
        let by = self.artist.as_ref().map(|artist| format!(", {artist}")).unwrap_or_default();
        format!("{}{year}{by} [{}]", self.title, self.mbid)
    }
}

/// A number of things: `1 artist`, `2 artists`.
fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn lines(head: &str, lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().fold(head.to_owned(), |text, line| format!("{text}\n{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_named_in_the_singular() {
        let texts = [0, 1, 2].map(|count| counted(count, "artist"));
        assert_eq!(texts, ["0 artists", "1 artist", "2 artists"]);
    }
}
