//! `MusicBrainz` and the Cover Art Archive, played by a server here: what is asked, how often, and what becomes
//! of the answers.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Music;
use crate::mock::{Answer, Mock};

const ID: &str = "a74b1b7f-71a5-4011-9441-d0b5e4122711";

async fn music(mock: &Mock) -> Music {
    let mut keys = json!({ "musicbrainz_url": mock.url, "coverart_url": mock.url, "acoustid_url": mock.url, "contact": "ann@example.org" });
    let folder = tempfile::tempdir().unwrap().keep();
    keys["cache"] = folder.join("cache.sqlite").display().to_string().into();
    Music::with(keys).await
}

fn artist() -> Value {
    json!({ "id": ID, "name": "Radiohead", "country": "GB", "area": { "name": "United Kingdom" },
            "disambiguation": "", "aliases": [{ "name": "On a Friday" }], "tags": [{ "name": "rock" }] })
}

fn recording() -> Value {
    json!({ "id": ID, "title": "Karma Police", "length": 264_000, "artist-credit": [{ "name": "Radiohead", "artist": { "id": ID, "name": "Radiohead" } }],
            "releases": [{ "id": ID, "title": "OK Computer", "date": "1997-05-21", "country": "GB" }], "genres": [{ "name": "rock" }] })
}

/// A call, the answers it gets, what must be asked, and some of what it must answer.
struct Case {
    tool: &'static str,
    arguments: Value,
    answers: Vec<Value>,
    asked: &'static [&'static str],
    found: (&'static str, Value),
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let release = json!({ "id": ID, "title": "OK Computer", "date": "1997-05-21", "country": "GB", "status": "Official", "artist-credit": [{ "name": "Radiohead" }],
        "media": [{ "position": 1, "title": "", "tracks": [{ "position": 1, "title": "Airbag", "length": 284_000, "recording": { "id": ID } }] }] });
    let group = json!({ "id": ID, "title": "OK Computer", "primary-type": "Album", "first-release-date": "1997-05-21" });
    vec![
        Case {
            tool: "mb_artist_search",
            arguments: json!({ "search_type": "artist", "query": "AC/DC", "limit": 500, "include_aliases": true }),
            answers: vec![json!({ "count": 7, "artists": [artist()] })],
            asked: &["GET /artist?query=artist%3A%28AC%5C%2FDC%29&limit=100&fmt=json"],
            found: ("/artists/0/aliases", json!(["On a Friday"])),
        },
        Case {
            tool: "mb_artist_search",
            arguments: json!({ "artist": "Radiohead" }),
            answers: vec![json!({ "count": 7, "artists": [artist()] })],
            asked: &["GET /artist?query=artist%3A%28Radiohead%29&limit=25&fmt=json"],
            found: ("/artists/0/name", json!("Radiohead")),
        },
        Case {
            tool: "mb_artist_search",
            arguments: json!({ "search_type": "artist", "query": ID, "include_tags": true }),
            answers: vec![artist()],
            asked: &["GET /artist/a74b1b7f-71a5-4011-9441-d0b5e4122711?inc=aliases+tags&fmt=json"],
            found: ("/artists/0/tags", json!(["rock"])),
        },
        Case {
            tool: "mb_artist_search",
            arguments: json!({ "search_type": "artist_releases", "query": "Radiohead", "limit": 40 }),
            answers: vec![
                json!({ "artists": [artist()] }),
                json!({ "release-count": 900, "releases": [release] }),
            ],
            asked: &[
                "GET /artist?query=artist%3A%28Radiohead%29&limit=1&fmt=json",
                "GET /release?artist=a74b1b7f-71a5-4011-9441-d0b5e4122711&limit=40&fmt=json",
            ],
            found: ("/total_count", json!(900)),
        },
        Case {
            tool: "mb_release_search",
            arguments: json!({ "search_type": "release", "query": "ok", "country": "gb" }),
            answers: vec![json!({ "count": 1, "releases": [release] })],
            asked: &["GET /release?query=release%3A%28ok%29+AND+country%3AGB&limit=10&fmt=json"],
            found: ("/releases/0/year", json!(1997)),
        },
        Case {
            tool: "mb_release_search",
            arguments: json!({ "search_type": "release_group", "raw_lucene_query": "tag:rock" }),
            answers: vec![json!({ "count": 1, "release-groups": [group] })],
            asked: &["GET /release-group?query=tag%3Arock&limit=10&fmt=json"],
            found: ("/release_groups/0/primary_type", json!("Album")),
        },
        Case {
            tool: "mb_release_search",
            arguments: json!({ "search_type": "release_recordings", "query": ID }),
            answers: vec![release.clone()],
            asked: &[
                "GET /release/a74b1b7f-71a5-4011-9441-d0b5e4122711?inc=recordings+artist-credits+media&fmt=json",
            ],
            found: ("/media/0/tracks/0/duration", json!(284.0)),
        },
        Case {
            tool: "mb_release_search",
            arguments: json!({ "search_type": "release_group_releases", "query": ID }),
            answers: vec![group, json!({ "release-count": 1, "releases": [release] })],
            asked: &[
                "GET /release-group/a74b1b7f-71a5-4011-9441-d0b5e4122711?inc=artist-credits+tags&fmt=json",
                "GET /release?release-group=a74b1b7f-71a5-4011-9441-d0b5e4122711&limit=10&fmt=json",
            ],
            found: ("/versions/0/title", json!("OK Computer")),
        },
        Case {
            tool: "mb_recording_search",
            arguments: json!({ "search_type": "recording", "query": "karma police" }),
            answers: vec![json!({ "count": 3, "recordings": [recording()] })],
            asked: &["GET /recording?query=recording%3A%28karma+police%29&limit=10&fmt=json"],
            found: ("/recordings/0/duration", json!(264.0)),
        },
        Case {
            tool: "mb_recording_search",
            arguments: json!({ "search_type": "recording_releases", "query": ID }),
            answers: vec![recording()],
            asked: &[
                "GET /recording/a74b1b7f-71a5-4011-9441-d0b5e4122711?inc=artist-credits+releases+genres&fmt=json",
            ],
            found: ("/recordings/0/releases/0/title", json!("OK Computer")),
        },
        Case {
            tool: "mb_work_search",
            arguments: json!({ "query": "yesterday" }),
            answers: vec![
                json!({ "count": 1, "works": [{ "id": ID, "title": "Yesterday", "type": "Song", "language": "eng" }] }),
            ],
            asked: &["GET /work?query=work%3A%28yesterday%29&limit=10&fmt=json"],
            found: ("/works/0/work_type", json!("Song")),
        },
        Case {
            tool: "mb_label_search",
            arguments: json!({ "query": "parlophone" }),
            answers: vec![
                json!({ "count": 1, "labels": [{ "id": ID, "name": "Parlophone", "label-code": 299 }] }),
            ],
            asked: &["GET /label?query=label%3A%28parlophone%29&limit=10&fmt=json"],
            found: ("/labels/0/label_code", json!(299)),
        },
        Case {
            tool: "mb_advanced_search",
            arguments: json!({ "entity": "release_group", "query": "artist:radiohead AND NOT tag:live", "limit": 3 }),
            answers: vec![
                json!({ "count": 1, "release-groups": [{ "id": ID, "title": "OK Computer", "score": 100 }] }),
            ],
            asked: &["GET /release-group?query=artist%3Aradiohead+AND+NOT+tag%3Alive&limit=3&fmt=json"],
            found: ("/results/0/score", json!(100)),
        },
        Case {
            tool: "mb_match_from_tags",
            arguments: json!({ "title": "Karma Police", "artist": "Radiohead", "duration_seconds": 268 }),
            answers: vec![json!({ "recordings": [recording(), { "id": ID, "title": "Other" }] })],
            asked: &[
                "GET /recording?query=recording%3A%28Karma+Police%29+AND+artist%3A%28Radiohead%29&limit=25&fmt=json",
            ],
            found: ("/matches/0/confidence", json!(0.97)),
        },
        Case {
            tool: "mb_get_relations",
            arguments: json!({ "entity_type": "artist", "mbid": ID, "kinds": ["Member of Band"], "include_reverse": true }),
            answers: vec![json!({ "name": "Radiohead", "relations": [
                { "type": "member of band", "direction": "backward", "target-type": "artist", "artist": { "id": ID, "name": "Thom Yorke" }, "attributes": ["lead vocals"], "begin": "1985" },
                { "type": "official homepage", "direction": "forward", "target-type": "url", "url": { "id": ID, "resource": "https://example.org" } },
            ] })],
            asked: &[
                "GET /artist/a74b1b7f-71a5-4011-9441-d0b5e4122711?inc=area-rels+artist-rels+event-rels+genre-rels+instrument-rels+label-rels+place-rels+recording-rels+release-rels+release-group-rels+series-rels+url-rels+work-rels&fmt=json",
            ],
            found: ("/relations/0/target_name", json!("Thom Yorke")),
        },
    ]
}

#[tokio::test]
async fn every_search_sends_the_right_query_and_returns_the_results() {
    for case in cases() {
        let mock = Mock::new(case.answers.iter().map(Answer::json)).await;
        let mut music = music(&mock).await;
        let found = music.call(case.tool, case.arguments.clone()).await;
        assert_eq!(mock.lines(), case.asked, "{} {}", case.tool, case.arguments);
        assert_eq!(found.pointer(case.found.0), Some(&case.found.1), "{}: {found}", case.tool);
        for asked in mock.asked() {
            let agent =
                concat!("user-agent: toolyard-music/", env!("CARGO_PKG_VERSION"), " ( ann@example.org )");
            assert!(asked.headers.contains(agent), "{}", asked.headers);
        }
        // The second answer comes from the cache.
        let again = music.call(case.tool, case.arguments).await;
        assert_eq!(again, found);
        assert_eq!(mock.lines().len(), case.asked.len(), "{}", case.tool);
    }
}

#[tokio::test]
async fn requests_keep_a_second_apart_within_one_call_and_between_calls() {
    let list = json!({ "artists": [artist()] });
    let mock =
        Mock::new([Answer::json(&list), Answer::json(&json!({ "releases": [] })), Answer::json(&list)]).await;
    let mut music = music(&mock).await;
    music.call("mb_artist_search", json!({ "search_type": "artist_releases", "query": "a" })).await;
    music.call("mb_artist_search", json!({ "search_type": "artist", "query": "b" })).await;
    let asked = mock.asked();
    assert_eq!(asked.len(), 3);
    for two in asked.windows(2) {
        let gap = two[1].at - two[0].at;
        assert!(gap >= Duration::from_secs(1), "{gap:?}");
    }
}

#[tokio::test]
async fn a_busy_service_is_retried_after_the_time_it_names_and_failures_are_not_cached() {
    let mock = Mock::new([
        Answer::status(503, "retry-after: 2\r\n"),
        Answer::json(&json!({ "artists": [artist()] })),
        Answer::status(503, "retry-after: 3600\r\n"),
        Answer::status(404, ""),
        Answer(400, String::new(), br#"{"error":"bad query"}"#.to_vec()),
        Answer::json(&json!({ "artists": [] })),
    ])
    .await;
    let mut music = music(&mock).await;
    let search = |query: &str| json!({ "search_type": "artist", "query": query });
    music.call("mb_artist_search", search("a")).await;
    let asked = mock.asked();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(2), "it did not wait");
    let busy = music.failure("mb_artist_search", search("b")).await;
    assert!(busy.contains("503") && busy.contains("Hint: it is busy"), "{busy}");
    let unknown = music.failure("mb_artist_search", search(ID)).await;
    assert!(unknown.contains("has no entry with that id"), "{unknown}");
    let wrong = music
        .failure("mb_artist_search", json!({ "search_type": "artist", "raw_lucene_query": "a:(" }))
        .await;
    assert!(wrong.contains("bad query") && wrong.contains("Lucene"), "{wrong}");
    let none = music.failure("mb_artist_search", search("b")).await;
    assert!(none.contains("no artists found for `artist:(b)`"), "{none}");
    assert_eq!(mock.lines().len(), 6, "a failure was kept");
    let empty = music.failure("mb_artist_search", search(" ")).await;
    assert!(empty.contains("nothing to search for"), "{empty}");
}

const JPEG: &[u8] = &[0xff, 0xd8, 0xff, 0xe0, 1, 2, 3];

#[tokio::test]
async fn a_cover_is_downloaded_through_redirects_in_the_size_that_is_there() {
    let mock = Mock::new([]).await;
    let images = json!({ "images": [
        { "id": 1, "front": false, "image": format!("{}/back.jpg", mock.url), "thumbnails": {} },
        { "id": "2", "front": true, "image": format!("{}/front.jpg", mock.url), "thumbnails": { "large": format!("{}/front-500.jpg", mock.url) } },
    ] });
    mock.answer(Answer::status(307, "location: /elsewhere\r\n"));
    mock.answer(Answer::json(&images));
    mock.answer(Answer(302, format!("location: {}/moved\r\n", mock.url), Vec::new()));
    mock.answer(Answer(200, String::new(), JPEG.to_vec()));
    let mut music = music(&mock).await;
    fs::create_dir(music.root().join("album")).unwrap();
    let covered = music
        .call("mb_cover_download", json!({ "mbid": ID, "path": "album", "thumbnail_size": "500" }))
        .await;
    assert_eq!(
        mock.lines(),
        [&format!("GET /release/{ID}"), "GET /elsewhere", "GET /front-500.jpg", "GET /moved"]
    );
    assert!(mock.asked().iter().all(|asked| asked.headers.contains("user-agent: toolyard-music/")));
    assert_eq!(
        (&covered["file_path"], &covered["thumbnail_size"]),
        (&json!("album/cover.jpg"), &json!("500"))
    );
    assert_eq!(fs::read(music.root().join("album/cover.jpg")).unwrap(), JPEG);
    mock.answer(Answer::json(&images));
    mock.answer(Answer(200, String::new(), JPEG.to_vec()));
    let taken = music.failure("mb_cover_download", json!({ "mbid": ID, "path": "album" })).await;
    assert!(taken.contains("exists already"), "{taken}");
}

#[tokio::test]
async fn a_cover_that_cannot_be_had_leaves_nothing_behind() {
    let mock = Mock::new([Answer::status(404, "")]).await;
    let mut music = music(&mock).await;
    let download = json!({ "mbid": ID, "path": "." });
    let none = music.failure("mb_cover_download", download.clone()).await;
    assert!(none.contains("has no pictures of this release\nHint: try another release"), "{none}");
    let images =
        json!({ "images": [{ "front": true, "image": format!("{}/x", mock.url), "thumbnails": {} }] });
    mock.answer(Answer::json(&images));
    mock.answer(Answer(200, String::new(), vec![0; 50 * 1024 * 1024 + 1]));
    let large = music.failure("mb_cover_download", download.clone()).await;
    assert!(large.contains("52428800 bytes are not taken"), "{large}");
    mock.answer(Answer::json(&images));
    mock.answer(Answer(200, String::new(), b"<html>".to_vec()));
    let page = music.failure("mb_cover_download", download).await;
    assert!(page.contains("is not a picture"), "{page}");
    for name in ["../x", ".x", "a/b", ""] {
        let refused =
            music.failure("mb_cover_download", json!({ "mbid": ID, "path": ".", "filename": name })).await;
        assert!(refused.contains("`filename` must be a plain name"), "{refused}");
    }
    let outside = music.failure("mb_cover_download", json!({ "mbid": ID, "path": ".." })).await;
    assert!(outside.contains("outside of the root"), "{outside}");
    assert_eq!(fs::read_dir(music.root()).unwrap().count(), 0);
}
