//! `mb_artist_search`: artists, and the releases of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::{ReleaseAbout, counted, lines, list, names, nothing, query_of, text, text_or_empty, total};
use crate::library::Library;
use crate::services::musicbrainz::is_mbid;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ArtistSearch {
    /// Search for artists, or list the releases of one.
    #[serde(default)]
    search_type: Kind,
    /// The name of an artist, or a MusicBrainz id.
    #[serde(default)]
    artist: String,
    /// Another name of `artist`, as in the other searches.
    #[serde(default)]
    query: String,
    /// The maximum number of results.
    #[serde(default = "twenty_five")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    limit: u32,
    /// Include aliases.
    #[serde(default)]
    include_aliases: bool,
    /// Include tags.
    #[serde(default)]
    include_tags: bool,
    /// A query in Lucene's syntax, instead of `artist`.
    raw_lucene_query: Option<String>,
}

fn twenty_five() -> u32 {
    25
}

impl ArtistSearch {
    /// The search words, without the spaces around them.
    fn words(&self) -> &str {
        let artist = self.artist.trim();
        if artist.is_empty() { self.query.trim() } else { artist }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Artist,
    ArtistReleases,
}

/// `artists`, or one artist with `releases`.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Artists {
    #[serde(skip_serializing_if = "Option::is_none")]
    artists: Option<Vec<Artist>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artist_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artist_mbid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    releases: Option<Vec<ReleaseAbout>>,
    /// The number of results in MusicBrainz.
    total_count: u64,
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Artist {
    name: String,
    mbid: String,
    country: Option<String>,
    area: Option<String>,
    disambiguation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aliases: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
}

/// Searches MusicBrainz for artists, or lists the releases of one.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_artist_search(
    library: &Library,
    args: ArtistSearch,
) -> Result<WithText<Artists>, ToolError> {
    match args.search_type {
        Kind::Artist => artists(library, &args).await,
        Kind::ArtistReleases => releases(library, &args).await,
    }
}

async fn artists(library: &Library, args: &ArtistSearch) -> Result<WithText<Artists>, ToolError> {
    let (found, total_count, query) = find(library, args, args.limit).await?;
    let found: Vec<Artist> = found.iter().map(|one| artist(one, args)).collect();
    let text = lines(
        &counted(total_count, "artist"),
        found.iter().map(|one| {
            let about = one.disambiguation.as_ref().map(|about| format!(" ({about})")).unwrap_or_default();
            format!("{}{about} [{}]", one.name, one.mbid)
        }),
    );
    Ok(WithText::new(Artists { artists: Some(found), total_count, query, ..Artists::default() }, text))
}

async fn find(
    library: &Library,
    args: &ArtistSearch,
    limit: u32,
) -> Result<(Vec<Value>, u64, String), ToolError> {
    let service = &library.services.musicbrainz;
    let words = args.words();
    if args.raw_lucene_query.is_none() && is_mbid(words) {
        let one = service.lookup("artist", words, &["aliases", "tags"]).await?;
        return Ok((vec![one], 1, words.to_owned()));
    }
    let query = query_of("artist", words, args.raw_lucene_query.as_deref())?;
    let answer = service.search("artist", &query, limit).await?;
    let found = list(&answer, "artists").to_vec();
    if found.is_empty() {
        return Err(nothing("artists", &query));
    }
    let total = total(&answer, "count", found.len());
    Ok((found, total, query))
}

fn artist(value: &Value, args: &ArtistSearch) -> Artist {
    Artist {
        name: text_or_empty(value, "name"),
        mbid: text_or_empty(value, "id"),
        country: text(value, "country"),
        area: text(&value["area"], "name"),
        disambiguation: text(value, "disambiguation"),
        aliases: args.include_aliases.then(|| names(value, "aliases")),
        tags: args.include_tags.then(|| names(value, "tags")),
    }
}

async fn releases(library: &Library, args: &ArtistSearch) -> Result<WithText<Artists>, ToolError> {
    let (found, _, query) = find(library, args, 1).await?;
    let artist = &found[0];
    let (name, mbid) = (text_or_empty(artist, "name"), text_or_empty(artist, "id"));
    let answer = library.services.musicbrainz.browse("release", ("artist", &mbid), args.limit).await?;
    let releases: Vec<ReleaseAbout> = list(&answer, "releases").iter().map(ReleaseAbout::read).collect();
    let total_count = total(&answer, "release-count", releases.len());
    let text = lines(
        &format!("{} of {name}", counted(total_count, "release")),
        releases.iter().map(ReleaseAbout::line),
    );
    let answer = Artists {
        artist_name: Some(name),
        artist_mbid: Some(mbid),
        releases: Some(releases),
        total_count,
        query,
        artists: None,
    };
    Ok(WithText::new(answer, text))
}
