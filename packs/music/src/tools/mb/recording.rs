//! `mb_recording_search`: recordings, and where they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::{
    ReleaseAbout, counted, credit, lines, list, names, nothing, query_of, ten, text, text_or_empty, total,
};
use crate::library::Library;
use crate::services::musicbrainz::is_mbid;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct RecordingSearch {
    /// Recordings, or one with the releases it is on.
    search_type: Kind,
    /// Words of a title, or a MusicBrainz id.
    #[serde(default)]
    query: String,
    /// How many to answer with.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    limit: u32,
    /// A query in Lucene's syntax, instead of `query`.
    raw_lucene_query: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Recording,
    RecordingReleases,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Recordings {
    recordings: Vec<Recording>,
    /// How many there are in all.
    total_count: u64,
    query: String,
}

/// A recording; its releases and genres where they were asked for.
#[derive(Serialize, JsonSchema)]
pub(super) struct Recording {
    pub(super) title: String,
    pub(super) mbid: String,
    pub(super) artist: Option<String>,
    artist_mbids: Vec<String>,
    /// In seconds.
    pub(super) duration: Option<f64>,
    disambiguation: Option<String>,
    releases: Vec<ReleaseAbout>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    genres: Vec<String>,
}

pub(super) fn recording(value: &Value, most_releases: usize) -> Recording {
    let credits = list(value, "artist-credit");
    Recording {
        title: text_or_empty(value, "title"),
        mbid: text_or_empty(value, "id"),
        artist: credit(value),
        artist_mbids: credits.iter().filter_map(|one| text(&one["artist"], "id")).collect(),
        duration: value["length"].as_f64().map(|length| length / 1000.0),
        disambiguation: text(value, "disambiguation"),
        releases: list(value, "releases").iter().take(most_releases).map(ReleaseAbout::read).collect(),
        genres: names(value, "genres"),
    }
}

/// Searches MusicBrainz for recordings, or lists the releases of one recording.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_recording_search(
    library: &Library,
    args: RecordingSearch,
) -> Result<WithText<Recordings>, ToolError> {
    let service = &library.services.musicbrainz;
    let words = args.query.trim();
    let details = ["artist-credits", "releases", "genres"];
    let limit = usize::try_from(args.limit)?;
    let (recordings, total_count, query) = if args.raw_lucene_query.is_none() && is_mbid(words) {
        let one = service.lookup("recording", words, &details).await?;
        (vec![recording(&one, limit)], 1, words.to_owned())
    } else {
        let query = query_of("recording", words, args.raw_lucene_query.as_deref())?;
        let wanted = if args.search_type == Kind::Recording { args.limit } else { 1 };
        let answer = service.search("recording", &query, wanted).await?;
        let found = list(&answer, "recordings");
        let first = found.first().ok_or_else(|| nothing("recordings", &query))?;
        match args.search_type {
            Kind::Recording => {
                let all = found.iter().map(|one| recording(one, limit)).collect();
                (all, total(&answer, "count", found.len()), query)
            }
            Kind::RecordingReleases => {
                let one = service.lookup("recording", &text_or_empty(first, "id"), &details).await?;
                (vec![recording(&one, limit)], 1, query)
            }
        }
    };
    let text = lines(&counted(total_count, "recording"), recordings.iter().map(line));
    Ok(WithText::new(Recordings { recordings, total_count, query }, text))
}

fn line(one: &Recording) -> String {
    let artist = one.artist.as_deref().unwrap_or("?");
    format!("{artist} – {} [{}], on {}", one.title, one.mbid, counted(one.releases.len() as u64, "release"))
}
