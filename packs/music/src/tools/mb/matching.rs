//! `mb_match_from_tags`: the recordings that the tags of a file may mean, each with how sure that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{ToolError, WithText, clamp, tool};

use super::recording::{Recording, recording};
use super::{lines, list};
use crate::library::Library;
use crate::services::musicbrainz::lucene;

const MOST: u32 = 25;
const MOST_RELEASES: usize = 5;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct MatchFromTags {
    /// What the track is called.
    #[schemars(length(min = 1))]
    title: String,
    /// Who plays it.
    artist: Option<String>,
    /// How long it is.
    duration_seconds: Option<f64>,
    /// What it is on.
    album: Option<String>,
    /// How many to answer with.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 25), transform = clamp)]
    limit: u32,
    /// Leave out what is less sure than this.
    #[serde(default = "floor")]
    #[schemars(range(min = 0.0, max = 1.0), transform = clamp)]
    confidence_floor: f64,
}

fn five() -> u32 {
    5
}

fn floor() -> f64 {
    0.6
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Matched {
    query: String,
    /// The surest first.
    matches: Vec<Match>,
    total_candidates: usize,
    returned: usize,
    confidence_floor: f64,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    confidence: f64,
    score_breakdown: Scores,
    recording: Recording,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
struct Scores {
    title: f64,
    artist: f64,
    duration: f64,
}

/// Finds the recordings on MusicBrainz that some tags probably mean: half by title, three tenths by artist, two
/// tenths by length.
#[tool(read_only, idempotent, open_world)]
pub(crate) async fn mb_match_from_tags(
    library: &Library,
    args: MatchFromTags,
) -> Result<WithText<Matched>, ToolError> {
    let mut parts = vec![lucene("recording", &args.title)];
    parts.extend(args.artist.as_ref().map(|artist| lucene("artist", artist)));
    parts.extend(args.album.as_ref().map(|album| lucene("release", album)));
    let query = parts.join(" AND ");
    let answer = library.services.musicbrainz.search("recording", &query, MOST).await?;
    let candidates = list(&answer, "recordings");
    let mut matches: Vec<Match> = candidates
        .iter()
        .map(|candidate| {
            let recording = recording(candidate, MOST_RELEASES);
            let scores = score(&args, &recording);
            let confidence = 0.5 * scores.title + 0.3 * scores.artist + 0.2 * scores.duration;
            Match { confidence: (confidence * 1000.0).round() / 1000.0, score_breakdown: scores, recording }
        })
        .filter(|one| one.confidence >= args.confidence_floor)
        .collect();
    matches.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    matches.truncate(usize::try_from(args.limit)?);
    let text = lines(
        &format!("{} of {} candidates", matches.len(), candidates.len()),
        matches.iter().map(|one| {
            let artist = one.recording.artist.as_deref().unwrap_or("?");
            format!("{:.2} {artist} – {} [{}]", one.confidence, one.recording.title, one.recording.mbid)
        }),
    );
    let answer = Matched {
        query,
        returned: matches.len(),
        matches,
        total_candidates: candidates.len(),
        confidence_floor: args.confidence_floor,
    };
    Ok(WithText::new(answer, text))
}

fn score(args: &MatchFromTags, found: &Recording) -> Scores {
    let artist = match (&args.artist, &found.artist) {
        (Some(wanted), Some(found)) => similar(wanted, found),
        (None, _) => 0.5,
        (Some(_), None) => 0.3,
    };
    let duration = match (args.duration_seconds, found.duration) {
        (Some(wanted), Some(found)) => near((wanted - found).abs()),
        (None, _) => 0.5,
        (Some(_), None) => 0.3,
    };
    Scores { title: similar(&args.title, &found.title), artist, duration }
}

fn similar(one: &str, other: &str) -> f64 {
    let (one, other) = (normal(one), normal(other));
    match () {
        () if one.is_empty() || other.is_empty() => 0.0,
        () if one == other => 1.0,
        () if one.starts_with(&other) || other.starts_with(&one) => 0.85,
        () if one.contains(&other) || other.contains(&one) => 0.7,
        () => 0.0,
    }
}

/// Without case and punctuation.
fn normal(text: &str) -> String {
    let letters: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    letters.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn near(seconds: f64) -> f64 {
    match seconds {
        s if s <= 2.0 => 1.0,
        s if s <= 5.0 => 0.85,
        s if s <= 10.0 => 0.6,
        s if s <= 30.0 => 0.3,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_compared_without_case_and_punctuation() {
        let check = |one: &str, other: &str, expected: f64| {
            assert!((similar(one, other) - expected).abs() < 1e-9, "{one} / {other}");
        };
        check("Don't Panic!", "dont  panic", 0.0);
        check("Karma Police", "KARMA-POLICE", 1.0);
        check("Karma Police (live)", "Karma Police", 0.85);
        check("The Karma Police", "Karma Police", 0.7);
        check("", "x", 0.0);
    }

    #[test]
    fn lengths_are_compared_in_steps() {
        for (seconds, expected) in
            [(0.0, 1.0), (2.0, 1.0), (4.9, 0.85), (10.0, 0.6), (29.0, 0.3), (31.0, 0.0)]
        {
            assert!((near(seconds) - expected).abs() < 1e-9, "{seconds}");
        }
    }
}
