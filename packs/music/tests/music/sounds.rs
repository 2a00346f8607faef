//! By sound: identifying a recording, and finding copies in other formats.

use std::time::Duration;

use serde_json::{Value, json};

use crate::audio;
use crate::client::Music;
use crate::mock::{Answer, Mock};

fn result() -> Value {
    json!({ "status": "ok", "results": [
        { "id": "low", "score": 0.2, "recordings": [] },
        { "id": "high", "score": 0.98, "recordings": [{ "id": "r1", "title": "Tone", "duration": 30, "artists": [{ "name": "Sine" }],
            "releasegroups": [{ "id": "g1", "title": "Tones", "type": "Album" }] }] },
    ] })
}

async fn music(mock: &Mock, key: &str) -> Music {
    let music = Music::with(json!({ "acoustid_url": mock.url, "acoustid_key": key })).await;
    std::fs::write(music.root().join("a.wav"), audio::tune("wav")).unwrap();
    music
}

#[tokio::test]
async fn a_recording_is_identified_by_its_fingerprint() {
    for (level, meta) in
        [("minimal", "recordingids"), ("basic", "recordings"), ("full", "recordings+releasegroups+compress")]
    {
        let mock = Mock::new([Answer::json(&result())]).await;
        let mut music = music(&mock, "secret-key").await;
        let found = music
            .call("mb_identify_record", json!({ "file_path": "a.wav", "limit": 1, "metadata_level": level }))
            .await;
        assert_eq!(found["matches"].as_array().unwrap().len(), 1);
        assert_eq!((&found["matches"][0]["acoustid"], &found["status"]), (&json!("high"), &json!("ok")));
        assert_eq!(found["matches"][0]["recordings"][0]["release_groups"][0]["name"], "Tones");
        let asked = &mock.asked()[0];
        assert_eq!(asked.line, "POST /lookup");
        assert!(asked.headers.contains("content-type: application/x-www-form-urlencoded"));
        let fields: Vec<(&str, &str)> =
            asked.body.split('&').map(|field| field.split_once('=').unwrap()).collect();
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["client", "duration", "fingerprint", "meta", "format"]);
        assert_eq!((fields[0].1, fields[1].1, fields[3].1), ("secret-key", "30", meta));
        assert!(fields[2].1.starts_with("AQAA"), "{}", fields[2].1);
    }
}

const RECORDING: &str = "a74b1b7f-71a5-4011-9441-d0b5e4122711";
const MERGED_INTO: &str = "b74b1b7f-71a5-4011-9441-d0b5e4122711";

/// AcoustID's answer with that many recordings.
fn recordings(count: usize) -> Value {
    let recordings = vec![json!({ "id": RECORDING }); count];
    json!({ "status": "ok", "results": [{ "id": "high", "score": 0.98, "recordings": recordings }] })
}

fn from_musicbrainz() -> Value {
    json!({ "id": MERGED_INTO, "title": "Tone", "length": 30_500, "artist-credit": [{ "name": "Sine" }, { "artist": { "name": "Cosine" } }],
        "releases": [{ "id": "d1", "title": "Tones", "date": "1997-05-21", "country": "GB",
            "release-group": { "id": "g1", "title": "Tones", "primary-type": "Album" } }],
        "genres": [{ "name": "drone" }] })
}

async fn with_musicbrainz(mock: &Mock) -> Music {
    let cache = tempfile::tempdir().unwrap().keep().join("cache.sqlite");
    let services = json!({ "acoustid_url": mock.url, "musicbrainz_url": mock.url, "acoustid_key": "key", "cache": cache });
    let music = Music::with(services).await;
    std::fs::write(music.root().join("a.wav"), audio::tune("wav")).unwrap();
    music
}

#[tokio::test]
async fn recordings_are_completed_from_musicbrainz_by_the_metadata_level() {
    let lookup = |inc: &str| format!("GET /recording/{RECORDING}?inc={inc}&fmt=json");
    for (level, asked) in [
        ("minimal", None),
        ("basic", Some(lookup("artist-credits"))),
        ("full", Some(lookup("artist-credits+releases+release-groups+genres"))),
    ] {
        let mock = Mock::new([Answer::json(&recordings(1)), Answer::json(&from_musicbrainz())]).await;
        let mut music = with_musicbrainz(&mock).await;
        let found =
            music.call("mb_identify_record", json!({ "file_path": "a.wav", "metadata_level": level })).await;
        let recording = &found["matches"][0]["recordings"][0];
        assert_eq!(mock.lines().get(1), asked.as_ref(), "{level}");
        assert_eq!(recording["enriched"], asked.is_some(), "{level}");
        if asked.is_none() {
            assert_eq!(recording["id"], RECORDING);
            continue;
        }
        assert_eq!((&recording["id"], &recording["title"]), (&json!(MERGED_INTO), &json!("Tone")));
        assert_eq!(
            (&recording["duration"], &recording["artists"]),
            (&json!(30.5), &json!(["Sine", "Cosine"]))
        );
        assert_eq!(recording["release_groups"], json!([{ "id": "g1", "name": "Tones", "type": "Album" }]));
        assert_eq!(
            (&recording["releases"][0]["year"], &recording["genres"][0]),
            (&json!(1997), &json!("drone"))
        );
    }
}

#[tokio::test]
async fn a_match_is_returned_even_if_musicbrainz_fails() {
    let mock = Mock::new([Answer::json(&recordings(2)), Answer::status(503, "retry-after: 3600\r\n")]).await;
    let mut music = with_musicbrainz(&mock).await;
    let found = music.call("mb_identify_record", json!({ "file_path": "a.wav" })).await;
    assert_eq!(
        (&found["status"], &found["matches"][0]["recordings"][1]["id"]),
        (&json!("ok"), &json!(RECORDING))
    );
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.contains("not completed from MusicBrainz") && warning.contains("503"), "{warning}");
    assert_eq!(mock.lines().len(), 2, "it went on asking a busy service");
}

#[tokio::test]
async fn a_busy_service_is_asked_three_times_and_a_wrong_key_once() {
    let error = |code: u32, message: &str| json!({ "status": "error", "error": { "code": code, "message": message } });
    let mock = Mock::new([
        Answer::status(503, ""),
        Answer::status(429, "retry-after: 1\r\n"),
        Answer::json(&result()),
    ])
    .await;
    let mut music = music(&mock, "key").await;
    let identify = json!({ "file_path": "a.wav" });
    music.call("mb_identify_record", identify.clone()).await;
    let asked = mock.asked();
    assert_eq!(asked.len(), 3);
    for two in asked.windows(2) {
        assert!(two[1].at - two[0].at >= Duration::from_secs(1));
    }
    mock.answer(Answer(400, String::new(), error(4, "invalid API key").to_string().into_bytes()));
    let refused = music.failure("mb_identify_record", identify.clone()).await;
    assert!(refused.contains("invalid API key\nHint: check `acoustid_key`"), "{refused}");
    mock.answer(Answer(400, String::new(), error(3, "invalid fingerprint").to_string().into_bytes()));
    let refused = music.failure("mb_identify_record", identify).await;
    assert!(refused.contains("invalid fingerprint") && !refused.contains("acoustid_key"), "{refused}");
    assert_eq!(mock.asked().len(), 5);
}

#[tokio::test]
async fn without_a_key_no_request_is_sent() {
    let mock = Mock::new([]).await;
    let mut music = music(&mock, "").await;
    let message = music.failure("mb_identify_record", json!({ "file_path": "a.wav" })).await;
    assert!(message.contains("none is configured\nHint: register an application"), "{message}");
    assert!(mock.asked().is_empty());
}

#[tokio::test]
async fn copies_in_other_formats_sound_the_same() {
    let mut music = Music::new().await;
    for format in ["wav", "flac", "mp3", "ogg", "m4a", "opus"] {
        std::fs::write(music.root().join(format!("tune.{format}")), audio::tune(format)).unwrap();
    }
    std::fs::write(music.root().join("other.flac"), audio::other_tune("flac")).unwrap();
    std::fs::write(music.root().join("broken.mp3"), "not music").unwrap();
    let found = music.call("find_duplicates", json!({ "root": ".", "acoustic": true })).await;
    assert_eq!(found["groups"], json!([]));
    let groups = found["acoustic_groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{found}");
    let paths = json!(["tune.flac", "tune.m4a", "tune.mp3", "tune.ogg", "tune.opus", "tune.wav"]);
    assert_eq!(groups[0]["paths"], paths);
    assert!(groups[0]["similarity"].as_f64().unwrap() > 0.85);
    assert!(found["warnings"][0].as_str().unwrap().starts_with("broken.mp3: "), "{found}");
}
