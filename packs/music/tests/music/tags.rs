//! Tags and pictures of every format, written and read back.

use std::fs;
use std::process::Command;

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::audio::{self, FORMATS};
use crate::client::Music;

/// One red dot.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, b'I', b'D', b'A', b'T', 8, 0xd7, 0x63, 0xf8,
    0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42,
    0x60, 0x82,
];

fn common() -> Value {
    json!({
        "title": "Tïtle", "artist": "Artist", "album": "Album", "album_artist": "Various", "track": 3,
        "track_total": 12, "disc": 1, "disc_total": 2, "genre": "Jazz", "comment": "fine", "date": "1997-05-21",
    })
}

/// What only some formats hold.
fn further() -> Value {
    json!({
        "composer": "Composer", "isrc": "GBAYE9700001", "mb_recording_id": "b9ad642e-b012-41c7-b72a-42cf4911f9ff",
        "mb_release_id": "a4864e94-6d75-4ade-bc93-0dabf3521453", "mb_artist_id": "a74b1b7f-71a5-4011-9441-d0b5e4122711",
        "mb_release_group_id": "b1392450-e666-3926-a536-22c65f834433", "replaygain_track_gain": "-6.48 dB",
        "replaygain_track_peak": "0.988", "label": "Parlophone", "catalog_number": "CDP 7", "barcode": "724385522925",
        "artist_sort": "Artist, The", "conductor": "Conductor", "lyrics": "la la", "compilation": "1",
    })
}

#[tokio::test]
async fn every_format_keeps_what_is_written() {
    let mut music = Music::new().await;
    for (format, _) in FORMATS {
        audio::put(&music.root().join(format!("a.{format}")));
        let before = samples(&music.root().join(format!("a.{format}")));
        let mut wish = common();
        wish["path"] = format!("a.{format}").into();
        for (key, value) in further().as_object().unwrap() {
            wish[key] = value.clone();
        }
        let written = music.call("write_metadata", wish.clone()).await;
        assert_eq!(written["fields_updated"], wish.as_object().unwrap().len() - 1, "{format}");
        let read =
            music.call("read_metadata", json!({ "path": wish["path"], "include_properties": true })).await;
        for (key, value) in wish.as_object().unwrap().iter().filter(|(key, _)| *key != "path") {
            assert_eq!(read["metadata"][key], *value, "{format}: {key}");
        }
        assert_eq!(read["metadata"]["year"], 1997, "{format}");
        let seconds = read["properties"]["duration_seconds"].as_f64().unwrap();
        assert!((1.9..2.2).contains(&seconds), "{format}: {seconds}");
        assert_eq!(read["properties"]["channels"], 2, "{format}");
        assert_eq!(
            samples(&music.root().join(format!("a.{format}"))),
            before,
            "{format}: the sound has changed"
        );
    }
}

/// A hash of the decoded audio, by an independent decoder.
fn samples(path: &std::path::Path) -> String {
    let hashed = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(path)
        .args(["-map", "0:a", "-f", "md5", "-"])
        .output()
        .unwrap();
    assert!(hashed.status.success(), "{hashed:?}");
    String::from_utf8(hashed.stdout).unwrap()
}

#[tokio::test]
async fn other_programs_read_the_tags_we_write() {
    let mut music = Music::new().await;
    for format in ["mp3", "flac", "ogg", "opus", "m4a"] {
        let name = format!("a.{format}");
        audio::put(&music.root().join(&name));
        let mut wish = common();
        wish["path"] = name.clone().into();
        music.call("write_metadata", wish).await;
        let probe = Command::new("ffprobe")
            .args(["-v", "error", "-of", "json", "-show_entries", "format_tags:stream_tags"])
            .arg(music.root().join(&name))
            .output()
            .unwrap();
        let text = String::from_utf8(probe.stdout).unwrap();
        for value in ["Tïtle", "Artist", "Album", "Various", "Jazz", "1997-05-21", "3"] {
            assert!(text.contains(value), "{format}: {value} is not in {text}");
        }
    }
}

#[tokio::test]
async fn single_fields_are_deleted_and_the_rest_stays() {
    let mut music = Music::new().await;
    for format in ["mp3", "flac", "m4a", "wav"] {
        let name = format!("a.{format}");
        audio::put(&music.root().join(&name));
        music
            .call(
                "write_metadata",
                json!({ "path": name, "title": "T", "artist": "A", "year": 1999, "isrc": "X" }),
            )
            .await;
        let written =
            music.call("write_metadata", json!({ "path": name, "remove": ["artist", "year"] })).await;
        assert_eq!(written["updated_fields"], json!({ "artist": null, "year": null }));
        let read = music.call("read_metadata", json!({ "path": name })).await;
        let metadata = &read["metadata"];
        assert_eq!((&metadata["title"], &metadata["isrc"]), (&json!("T"), &json!("X")), "{format}");
        assert!(
            metadata["artist"].is_null() && metadata["year"].is_null() && metadata["date"].is_null(),
            "{format}"
        );
        music.call("write_metadata", json!({ "path": name, "clear_existing": true, "album": "B" })).await;
        let read = music.call("read_metadata", json!({ "path": name })).await;
        assert!(read["metadata"]["title"].is_null(), "{format}");
        assert_eq!(read["metadata"]["album"], "B", "{format}");
    }
    let wrong = music.failure("write_metadata", json!({ "path": "a.mp3", "remove": ["titel"] })).await;
    assert!(wrong.contains("`titel`, which is not a field"), "{wrong}");
    let both =
        music.failure("write_metadata", json!({ "path": "a.mp3", "year": 1999, "date": "1999" })).await;
    assert!(both.contains("`year` and `date` must not be given together"), "{both}");
    let operation = json!({ "op": "write_metadata", "path": "a.mp3", "year": 1999, "date": "1999" });
    let both = music.failure("apply_plan", json!({ "operations": [operation], "dry_run": true })).await;
    assert!(both.contains("`operations[0]` must not have `year` and `date` together"), "{both}");
    music.call("write_metadata", json!({ "path": "a.mp3", "year": 1999, "date": null })).await;
    let nothing = music.failure("write_metadata", json!({ "path": "a.mp3" })).await;
    assert!(nothing.contains("nothing to write"), "{nothing}");
}

#[tokio::test]
async fn pictures_go_in_and_come_out() {
    let mut music = Music::new().await;
    fs::write(music.root().join("cover.png"), PNG).unwrap();
    for (format, _) in FORMATS {
        let name = format!("a.{format}");
        audio::put(&music.root().join(&name));
        let put = json!({ "path": name, "image_path": "cover.png", "description": "dot" });
        let embedded = music.call("embed_cover", put.clone()).await;
        assert_eq!(
            (&embedded["mime_type"], &embedded["pictures_after"]),
            (&json!("image/png"), &json!(1)),
            "{format}"
        );
        let mut again = put;
        again["replace_existing"] = true.into();
        again["image_path"] = Value::Null;
        again["image_bytes_base64"] = BASE64.encode(PNG).into();
        let replaced = music.call("embed_cover", again).await;
        assert_eq!(replaced["replaced_existing"], true, "{format}");
        let read = music.call("read_metadata", json!({ "path": name })).await;
        assert_eq!(read["pictures"].as_array().unwrap().len(), 1, "{format}: {read}");
        assert_eq!(read["pictures"][0]["picture_type"], "CoverFront", "{format}");
        let to = format!("out/{format}");
        fs::create_dir_all(music.root().join("out")).unwrap();
        let taken = music.call("extract_picture", json!({ "path": name, "to": to })).await;
        assert_eq!(taken["picture_path"], format!("out/{format}.png"));
        assert_eq!(fs::read(music.root().join(format!("out/{format}.png"))).unwrap(), PNG, "{format}");
        music.call("write_metadata", json!({ "path": name, "title": "T" })).await;
        let read = music.call("read_metadata", json!({ "path": name })).await;
        assert_eq!(read["pictures"][0]["bytes"], PNG.len(), "{format}: the picture survives other changes");
    }
}

#[tokio::test]
async fn a_picture_may_show_any_of_the_twenty_one_things() {
    let mut music = Music::new().await;
    let tools = music.request("tools/list", json!({})).await;
    let tool = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "embed_cover").unwrap();
    let shows = tool["inputSchema"].pointer("/$defs/Shows/enum").unwrap_or_else(|| panic!("{tool}"));
    let shows: Vec<String> = serde_json::from_value(shows.clone()).unwrap();
    assert_eq!(shows.len(), 21, "{shows:?}");
    for format in ["flac", "mp3", "wav"] {
        let name = format!("a.{format}");
        audio::put(&music.root().join(&name));
        for shown in &shows {
            let put =
                json!({ "path": name, "image_bytes_base64": BASE64.encode(PNG), "picture_type": shown });
            assert_eq!(music.call("embed_cover", put).await["picture_type"], **shown, "{format}");
        }
        let read = music.call("read_metadata", json!({ "path": name })).await;
        let found: Vec<&str> = read["pictures"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["picture_type"].as_str())
            .collect();
        assert_eq!(found, shows, "{format}");
    }
}

#[tokio::test]
async fn only_pictures_that_players_show_are_taken() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("a.flac"));
    fs::write(music.root().join("a.gif"), b"GIF89a...").unwrap();
    fs::write(music.root().join("big.png"), [PNG, &vec![0; 10 * 1024 * 1024]].concat()).unwrap();
    let mut check = async |arguments: Value, words: &str| {
        let before = fs::read(music.root().join("a.flac")).unwrap();
        let message = music.failure("embed_cover", arguments).await;
        assert!(message.contains(words), "{message}");
        assert_eq!(fs::read(music.root().join("a.flac")).unwrap(), before);
    };
    check(json!({ "path": "a.flac", "image_path": "a.gif" }), "neither JPEG nor PNG").await;
    check(json!({ "path": "a.flac", "image_path": "big.png" }), "the limit is 10 MiB").await;
    check(json!({ "path": "a.flac" }), "give one of `image_path` or `image_bytes_base64`").await;
    let both = json!({ "path": "a.flac", "image_path": "a.png", "image_bytes_base64": BASE64.encode(PNG) });
    check(both, "give only one of `image_path` or `image_bytes_base64`").await;
    check(json!({ "path": "a.flac", "image_bytes_base64": "%%" }), "is not base64").await;
    check(json!({ "path": "a.flac", "image_path": "a.gif", "picture_type": "Front" }), "picture_type").await;
    let none = music.failure("extract_picture", json!({ "path": "a.flac", "to": "x" })).await;
    assert!(none.contains("has no picture 0: it has 0"), "{none}");
}

#[tokio::test]
async fn a_file_that_is_not_audio_is_refused_and_unchanged() {
    let mut music = Music::new().await;
    fs::write(music.root().join("a.mp3"), "not music").unwrap();
    fs::write(music.root().join("a.txt"), "not music").unwrap();
    for name in ["a.mp3", "a.txt"] {
        let message = music.failure("write_metadata", json!({ "path": name, "title": "T" })).await;
        assert!(message.contains("cannot be read as audio") && message.contains("Hint: "), "{message}");
        assert_eq!(fs::read(music.root().join(name)).unwrap(), b"not music");
    }
}
