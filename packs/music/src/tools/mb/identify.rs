//! `mb_identify_record`: identifies a recording by its sound. AcoustID returns candidates; MusicBrainz completes
//! them as far as `metadata_level` asks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::{ReleaseAbout, counted, lines, list, names, text, text_or_empty};
use crate::fingerprint;
use crate::library::Library;
use crate::services::musicbrainz::{MusicBrainz, is_mbid};
use crate::trouble::JailResult as _;

/// MusicBrainz allows one request per second, so this also bounds how long a call takes.
const MOST_LOOKUPS: usize = 10;
const MOST_RELEASES: usize = 25;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct IdentifyRecord {
    /// The audio file.
    file_path: String,
    /// The maximum number of candidates.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10), transform = clamp)]
    limit: u32,
    /// `minimal`: ids only, without a request to MusicBrainz. `basic`: title, length and artists. `full`: also
    /// release groups, releases and genres.
    #[serde(default)]
    metadata_level: Level,
}

fn three() -> u32 {
    3
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    Minimal,
    #[default]
    Basic,
    Full,
}

impl Level {
    /// The `meta` parameter of AcoustID.
    fn meta(self) -> &'static str {
        match self {
            Self::Minimal => "recordingids",
            Self::Basic => "recordings",
            Self::Full => "recordings releasegroups compress",
        }
    }

    /// The parts to look up in MusicBrainz for each recording; `None` for no lookup.
    fn lookup(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Minimal => None,
            Self::Basic => Some(&["artist-credits"]),
            Self::Full => Some(&["artist-credits", "releases", "release-groups", "genres"]),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Identified {
    file: String,
    metadata_level: Level,
    /// The best match first.
    matches: Vec<Match>,
    status: String,
    /// Why some recordings have only what AcoustID knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    rank: usize,
    /// From 0 to 1.
    confidence: f64,
    acoustid: String,
    recordings: Vec<Recording>,
}

#[derive(Serialize, JsonSchema)]
struct Recording {
    /// The MusicBrainz id.
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artists: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    release_groups: Vec<ReleaseGroup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    releases: Vec<ReleaseAbout>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    genres: Vec<String>,
    /// Whether MusicBrainz completed it.
    enriched: bool,
}

#[derive(Serialize, JsonSchema)]
struct ReleaseGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// Identifies a recording by its sound: takes a fingerprint of the file, looks it up in AcoustID, and completes the
/// recordings from MusicBrainz by `metadata_level`. Needs `acoustid_key` in [packs.music].
#[tool(read_only, open_world)]
pub(crate) async fn mb_identify_record(
    library: &Library,
    context: &Context,
    args: IdentifyRecord,
) -> Result<WithText<Identified>, ToolError> {
    library.services.acoustid.key()?;
    let path = library.path(&args.file_path)?;
    let jail = library.jail.clone();
    let config = library.config.clone();
    let at = path.clone();
    let call = context.clone();
    let taken = tokio::task::spawn_blocking(move || {
        let file = jail.open(&at).tool_error()?;
        let name = at.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        fingerprint::take(&config, file, &name, &|| call.is_cancelled())
    });
    let fingerprint = taken.await??;
    let answer = library.services.acoustid.lookup(&fingerprint, args.metadata_level.meta()).await?;
    let mut matches = matches(&answer, usize::try_from(args.limit)?);
    let warnings = match args.metadata_level.lookup() {
        None => Vec::new(),
        Some(inc) => enrich(&library.services.musicbrainz, context, inc, &mut matches).await,
    };
    let status = if matches.is_empty() { "no_match" } else { "ok" };
    let found = matches.iter().flat_map(summary).chain(warnings.iter().cloned());
    let text = lines(&format!("{path}: {}", counted(matches.len() as u64, "candidate")), found);
    let answer = Identified {
        file: path.to_string(),
        metadata_level: args.metadata_level,
        matches,
        status: status.into(),
        warnings,
    };
    Ok(WithText::new(answer, text))
}

fn matches(answer: &Value, limit: usize) -> Vec<Match> {
    let mut results: Vec<&Value> = list(answer, "results").iter().collect();
    let score = |result: &Value| result["score"].as_f64().unwrap_or_default();
    results.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let ranked = results.into_iter().take(limit).zip(1..).map(|(result, rank)| Match {
        rank,
        confidence: score(result),
        acoustid: text_or_empty(result, "id"),
        recordings: list(result, "recordings").iter().map(recording).collect(),
    });
    ranked.collect()
}

/// Completes recordings from MusicBrainz, the best matches first. A failed lookup leaves a recording as AcoustID
/// returned it; the returned warnings say so.
async fn enrich(
    service: &MusicBrainz,
    context: &Context,
    inc: &[&str],
    matches: &mut [Match],
) -> Vec<String> {
    let mut recordings: Vec<&mut Recording> =
        matches.iter_mut().flat_map(|one| &mut one.recordings).filter(|one| is_mbid(&one.id)).collect();
    let wanted = recordings.len();
    let total = wanted.min(MOST_LOOKUPS);
    for (done, recording) in recordings.iter_mut().take(total).enumerate() {
        context.progress_with(done, total, format!("looking up {}", recording.id));
        match service.lookup("recording", &recording.id, inc).await {
            Ok(found) => recording.complete(&found),
            // The service is busy or unreachable: the remaining lookups would fail the same way, slowly.
            Err(error) => return vec![format!("not completed from MusicBrainz: {error}")],
        }
    }
    if wanted > total {
        return vec![format!("the first {total} of {wanted} recordings were completed from MusicBrainz")];
    }
    Vec::new()
}

fn summary(one: &Match) -> Vec<String> {
    let recordings = one.recordings.iter().map(|recording| {
        let title = recording.title.as_deref().unwrap_or("?");
        format!("{:.2} {} – {title} [{}]", one.confidence, recording.artists.join(", "), recording.id)
    });
    recordings.collect()
}

fn recording(value: &Value) -> Recording {
    Recording {
        id: text_or_empty(value, "id"),
        title: text(value, "title"),
        duration: value["duration"].as_f64(),
        artists: names(value, "artists"),
        release_groups: list(value, "releasegroups").iter().map(release_group).collect(),
        releases: Vec::new(),
        genres: Vec::new(),
        enriched: false,
    }
}

/// A release group of either service; only the key of its kind differs.
fn release_group(value: &Value) -> ReleaseGroup {
    ReleaseGroup {
        id: text(value, "id"),
        name: text_or_empty(value, "title"),
        kind: text(value, "primary-type").or_else(|| text(value, "type")),
    }
}

impl Recording {
    /// Takes over what MusicBrainz returned. The id can differ: MusicBrainz answers for a merged recording with
    /// the one that it was merged into.
    fn complete(&mut self, found: &Value) {
        self.enriched = true;
        self.id = text(found, "id").unwrap_or_else(|| std::mem::take(&mut self.id));
        self.title = text(found, "title").or(self.title.take());
        self.duration = found["length"].as_f64().map(|length| length / 1000.0).or(self.duration);
        let credited = list(found, "artist-credit").iter();
        let artists: Vec<String> =
            credited.filter_map(|one| text(one, "name").or_else(|| text(&one["artist"], "name"))).collect();
        if !artists.is_empty() {
            self.artists = artists;
        }
        let releases = list(found, "releases");
        for group in
            releases.iter().map(|release| &release["release-group"]).filter(|group| group.is_object())
        {
            let id = text(group, "id");
            if !self.release_groups.iter().any(|known| known.id == id) {
                self.release_groups.push(release_group(group));
            }
        }
        self.releases = releases.iter().take(MOST_RELEASES).map(ReleaseAbout::read).collect();
        self.genres = names(found, "genres");
    }
}
