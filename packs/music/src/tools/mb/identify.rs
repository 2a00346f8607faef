//! `mb_identify_record`: which recording a file is, by how it sounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Context, Told, ToolError, clamp, tool};

use super::{lines, list, text, text_or_empty};
use crate::fingerprint;
use crate::library::Library;
use crate::trouble::Told as _;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct IdentifyRecord {
    /// The audio file.
    file_path: String,
    /// How many candidates to answer with.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10), transform = clamp)]
    limit: u32,
    /// How much to tell of each: ids only, with titles and artists, or with release groups as well.
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
    /// As AcoustID calls it.
    fn meta(self) -> &'static str {
        match self {
            Self::Minimal => "recordingids",
            Self::Basic => "recordings",
            Self::Full => "recordings releasegroups compress",
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Identified {
    file: String,
    metadata_level: Level,
    /// The surest first.
    matches: Vec<Match>,
    status: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artists: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    release_groups: Vec<ReleaseGroup>,
}

#[derive(Serialize, JsonSchema)]
struct ReleaseGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// Identifies a recording by its sound: takes a fingerprint of the file and asks AcoustID. Needs `acoustid_key` in
/// [packs.music].
#[tool(read_only, open_world)]
pub(crate) async fn mb_identify_record(
    library: &Library,
    context: &Context,
    args: IdentifyRecord,
) -> Result<Told<Identified>, ToolError> {
    library.services.acoustid.key()?;
    let path = library.path(&args.file_path)?;
    let (jail, config, at, call) =
        (library.jail.clone(), library.config.clone(), path.clone(), context.clone());
    let taken = tokio::task::spawn_blocking(move || {
        let file = jail.open(&at).told()?;
        let name = at.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        fingerprint::take(&config, file, &name, &|| call.is_cancelled())
    });
    let fingerprint = taken.await??;
    let answer = library.services.acoustid.lookup(&fingerprint, args.metadata_level.meta()).await?;
    let mut results: Vec<&Value> = list(&answer, "results").iter().collect();
    let score = |result: &Value| result["score"].as_f64().unwrap_or_default();
    results.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let matches: Vec<Match> = results
        .into_iter()
        .take(usize::try_from(args.limit)?)
        .zip(1..)
        .map(|(result, rank)| Match {
            rank,
            confidence: score(result),
            acoustid: text_or_empty(result, "id"),
            recordings: list(result, "recordings").iter().map(recording).collect(),
        })
        .collect();
    let status = if matches.is_empty() { "no_match" } else { "ok" };
    let said = lines(&format!("{path}: {} candidates", matches.len()), matches.iter().flat_map(said));
    let answer = Identified {
        file: path.to_string(),
        metadata_level: args.metadata_level,
        matches,
        status: status.into(),
    };
    Ok(Told::new(answer, said))
}

fn said(one: &Match) -> Vec<String> {
    let recordings = one.recordings.iter().map(|recording| {
        let title = recording.title.as_deref().unwrap_or("?");
        format!("{:.2} {} – {title} [{}]", one.confidence, recording.artists.join(", "), recording.id)
    });
    recordings.collect()
}

fn recording(value: &Value) -> Recording {
    let groups = list(value, "releasegroups").iter().map(|group| ReleaseGroup {
        id: text(group, "id"),
        name: text_or_empty(group, "title"),
        kind: text(group, "type"),
    });
    Recording {
        id: text_or_empty(value, "id"),
        title: text(value, "title"),
        duration: value["duration"].as_f64(),
        artists: list(value, "artists").iter().filter_map(|artist| text(artist, "name")).collect(),
        release_groups: groups.collect(),
    }
}
