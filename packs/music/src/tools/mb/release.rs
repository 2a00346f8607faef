//! `mb_release_search`: releases and their groups, with tracks or versions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::{
    ReleaseAbout, counted, credit, lines, list, names, nothing, query_of, ten, text, text_or_empty, total,
    year,
};
use crate::library::Library;
use crate::services::musicbrainz::is_mbid;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReleaseSearch {
    /// Releases, release groups, the tracks of a release, or the releases of a group.
    search_type: Kind,
    /// Words of a title, or a MusicBrainz id.
    #[serde(default)]
    query: String,
    /// How many to answer with.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    limit: u32,
    /// Say how people tag them.
    #[serde(default)]
    include_tags: bool,
    /// Only releases in this country: two letters, such as GB. Only for `release`.
    #[schemars(regex(pattern = "^[A-Za-z]{2}$"))]
    country: Option<String>,
    /// A query in Lucene's syntax, instead of `query`.
    raw_lucene_query: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Release,
    ReleaseGroup,
    ReleaseRecordings,
    ReleaseGroupReleases,
}

/// `releases`, `release_groups`, or one of these with its tracks (`media`) or releases (`versions`).
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Releases {
    #[serde(skip_serializing_if = "Option::is_none")]
    releases: Option<Vec<ReleaseAbout>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_groups: Option<Vec<ReleaseGroup>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_mbid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_artist: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<Vec<Medium>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tracks: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_group_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    release_group_mbid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<ReleaseAbout>>,
    /// How many there are in all.
    total_count: u64,
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct ReleaseGroup {
    title: String,
    mbid: String,
    artist: Option<String>,
    primary_type: Option<String>,
    first_release_year: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
struct Medium {
    disc_number: Option<u64>,
    disc_title: Option<String>,
    tracks: Vec<Track>,
}

#[derive(Serialize, JsonSchema)]
struct Track {
    position: Option<u64>,
    title: String,
    /// In seconds.
    duration: Option<f64>,
    recording_mbid: Option<String>,
    artist: Option<String>,
}

/// Searches MusicBrainz for releases or release groups, lists the tracks of a release, or the releases of a
/// group.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_release_search(
    library: &Library,
    args: ReleaseSearch,
) -> Result<WithText<Releases>, ToolError> {
    match args.search_type {
        Kind::Release => releases(library, &args).await,
        Kind::ReleaseGroup => groups(library, &args).await,
        Kind::ReleaseRecordings => recordings(library, &args).await,
        Kind::ReleaseGroupReleases => versions(library, &args).await,
    }
}

/// What fits the query: one by its id, or those that a search finds.
async fn find(
    library: &Library,
    args: &ReleaseSearch,
    entity: &str,
    limit: u32,
) -> Result<(Vec<Value>, u64, String), ToolError> {
    let service = &library.services.musicbrainz;
    let words = args.query.trim();
    if args.raw_lucene_query.is_none() && is_mbid(words) {
        let one = service.lookup(entity, words, &["artist-credits", "tags"]).await?;
        return Ok((vec![one], 1, words.to_owned()));
    }
    let (field, key) =
        if entity == "release" { ("release", "releases") } else { ("releasegroup", "release-groups") };
    let mut query = query_of(field, words, args.raw_lucene_query.as_deref())?;
    if let Some(country) = args.country.as_ref().filter(|_| args.search_type == Kind::Release) {
        query = format!("{query} AND country:{}", country.to_uppercase());
    }
    let answer = service.search(entity, &query, limit).await?;
    let found = list(&answer, key).to_vec();
    if found.is_empty() {
        return Err(nothing(key, &query));
    }
    let total = total(&answer, "count", found.len());
    Ok((found, total, query))
}

async fn releases(library: &Library, args: &ReleaseSearch) -> Result<WithText<Releases>, ToolError> {
    let (found, total_count, query) = find(library, args, "release", args.limit).await?;
    let found: Vec<ReleaseAbout> = found
        .iter()
        .map(|one| ReleaseAbout {
            tags: if args.include_tags { names(one, "tags") } else { Vec::new() },
            ..ReleaseAbout::read(one)
        })
        .collect();
    let text = lines(&counted(total_count, "release"), found.iter().map(ReleaseAbout::line));
    Ok(WithText::new(Releases { releases: Some(found), total_count, query, ..Releases::default() }, text))
}

async fn groups(library: &Library, args: &ReleaseSearch) -> Result<WithText<Releases>, ToolError> {
    let (found, total_count, query) = find(library, args, "release-group", args.limit).await?;
    let found: Vec<ReleaseGroup> = found
        .iter()
        .map(|one| ReleaseGroup {
            title: text_or_empty(one, "title"),
            mbid: text_or_empty(one, "id"),
            artist: credit(one),
            primary_type: text(one, "primary-type"),
            first_release_year: year(one, "first-release-date"),
            tags: args.include_tags.then(|| names(one, "tags")),
        })
        .collect();
    let text = lines(
        &counted(total_count, "release group"),
        found.iter().map(|one| format!("{} [{}]", one.title, one.mbid)),
    );
    Ok(WithText::new(
        Releases { release_groups: Some(found), total_count, query, ..Releases::default() },
        text,
    ))
}

async fn recordings(library: &Library, args: &ReleaseSearch) -> Result<WithText<Releases>, ToolError> {
    let (mbid, query) = one_id(library, args, "release").await?;
    let release = library
        .services
        .musicbrainz
        .lookup("release", &mbid, &["recordings", "artist-credits", "media"])
        .await?;
    let media: Vec<Medium> = list(&release, "media").iter().map(medium).collect();
    let total_tracks: usize = media.iter().map(|medium| medium.tracks.len()).sum();
    let title = text_or_empty(&release, "title");
    let tracks = media.iter().flat_map(|medium| &medium.tracks);
    let text = lines(
        &format!("{title}: {}", counted(total_tracks as u64, "track")),
        tracks.map(|track| format!("{}. {}", track.position.unwrap_or_default(), track.title)),
    );
    let answer = Releases {
        release_title: Some(title),
        release_mbid: Some(mbid),
        release_artist: credit(&release),
        media: Some(media),
        total_tracks: Some(total_tracks),
        total_count: total_tracks as u64,
        query,
        ..Releases::default()
    };
    Ok(WithText::new(answer, text))
}

fn medium(value: &Value) -> Medium {
    Medium {
        disc_number: value["position"].as_u64(),
        disc_title: text(value, "title"),
        tracks: list(value, "tracks")
            .iter()
            .map(|track| Track {
                position: track["position"].as_u64(),
                title: text_or_empty(track, "title"),
                duration: track["length"].as_f64().map(|length| length / 1000.0),
                recording_mbid: text(&track["recording"], "id"),
                artist: credit(track).or_else(|| credit(&track["recording"])),
            })
            .collect(),
    }
}

async fn versions(library: &Library, args: &ReleaseSearch) -> Result<WithText<Releases>, ToolError> {
    let (found, _, query) = find(library, args, "release-group", 1).await?;
    let (title, mbid) = (text_or_empty(&found[0], "title"), text_or_empty(&found[0], "id"));
    let answer = library.services.musicbrainz.browse("release", ("release-group", &mbid), args.limit).await?;
    let versions: Vec<ReleaseAbout> = list(&answer, "releases").iter().map(ReleaseAbout::read).collect();
    let total_count = total(&answer, "release-count", versions.len());
    let text = lines(
        &format!("{} of {title}", counted(total_count, "release")),
        versions.iter().map(ReleaseAbout::line),
    );
    let answer = Releases {
        release_group_title: Some(title),
        release_group_mbid: Some(mbid),
        versions: Some(versions),
        total_count,
        query,
        ..Releases::default()
    };
    Ok(WithText::new(answer, text))
}

async fn one_id(
    library: &Library,
    args: &ReleaseSearch,
    entity: &str,
) -> Result<(String, String), ToolError> {
    let words = args.query.trim();
    if args.raw_lucene_query.is_none() && is_mbid(words) {
        return Ok((words.to_owned(), words.to_owned()));
    }
    let (found, _, query) = find(library, args, entity, 1).await?;
    Ok((text_or_empty(&found[0], "id"), query))
}
