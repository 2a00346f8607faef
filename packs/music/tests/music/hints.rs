//! Every error explains what to do about it: one line for every kind of failure.

use std::fs;

use serde_json::{Value, json};

use crate::audio;
use crate::client::Music;
use crate::mock::{Answer, Mock};

const ID: &str = "a74b1b7f-71a5-4011-9441-d0b5e4122711";

/// A tool, its arguments, what the services answer, the expected message and the expected hint.
type Line = (&'static str, Value, Vec<Answer>, &'static str, &'static str);

fn here() -> Vec<Line> {
    let name = |template: &str, metadata: Value| json!({ "template": template, "metadata": metadata });
    let embed = |bytes: &str| json!({ "path": "a.mp3", "image_bytes_base64": bytes });
    let none = Vec::new;
    vec![
        (
            "read_metadata",
            json!({ "path": "text.txt" }),
            none(),
            "cannot be read as audio",
            "the formats are MP3",
        ),
        ("fs_move", json!({ "from": "d", "to": "d/e" }), none(), "into itself", "a place outside of it"),
        (
            "fs_move",
            json!({ "from": "a.mp3", "to": "a.mp3" }),
            none(),
            "already exists",
            "leave this move out",
        ),
        (
            "fs_move",
            json!({ "from": "a.mp3", "to": "x/y" }),
            none(),
            "does not exist",
            "`mkdir_parents: true`",
        ),
        (
            "fs_move",
            json!({ "from": "a.mp3", "to": "d" }),
            none(),
            "only files replace files",
            "another name",
        ),
        (
            "fs_mkdir",
            json!({ "path": "x/y", "recursive": false }),
            none(),
            "does not exist",
            "`recursive: true`",
        ),
        ("fs_delete", json!({ "path": ".toolyard" }), none(), "what undoing needs", "`manifest_…`"),
        ("fs_hash", json!({ "path": "large" }), none(), "larger than 500 MiB", "compare their sizes"),
        (
            "fs_scan_audio",
            json!({ "root": ".", "cursor": "x" }),
            none(),
            "cursor is not one",
            "`next_cursor`",
        ),
        ("embed_cover", embed("R0lGODlh"), none(), "neither JPEG nor PNG", "convert it first"),
        (
            "extract_picture",
            json!({ "path": "a.mp3", "to": "x" }),
            none(),
            "has no picture 0",
            "`read_metadata`",
        ),
        ("apply_naming_scheme", name("{a", json!({})), none(), "is not closed", "an example: "),
        ("apply_naming_scheme", name("{a}", json!({})), none(), "no value for `a`", "write a fallback"),
        (
            "apply_naming_scheme",
            name("{a:02d}", json!({ "a": "x" })),
            none(),
            "must be a number",
            "leave out the `:02d`",
        ),
        ("apply_naming_scheme", name("{a}", json!({ "a": -1 })), none(), "not be negative", "leave it out"),
        (
            "apply_naming_scheme",
            name("{a}", json!({ "a": [] })),
            none(),
            "a text or a number",
            "join several",
        ),
        ("undo_plan", json!({}), none(), "no such plan", "`plan_list`"),
        ("manifest_read", json!({ "id": "broken" }), none(), "is not JSON", "write it again"),
        (
            "mb_identify_record",
            json!({ "file_path": "text.txt" }),
            none(),
            "cannot be fingerprinted",
            "`fpcalc`",
        ),
        (
            "mb_artist_search",
            json!({ "search_type": "artist" }),
            none(),
            "nothing to search for",
            "give `query`",
        ),
    ]
}

fn there() -> Vec<Line> {
    let search = |query: &str| json!({ "search_type": "artist", "query": query });
    let cover = || json!({ "mbid": ID, "path": "." });
    let identify = || json!({ "file_path": "tune.wav" });
    let body = |status: u16, body: &str| vec![Answer(status, String::new(), body.as_bytes().to_vec())];
    let busy = || vec![Answer::status(503, "retry-after: 3600\r\n")];
    let refused = |code: u32| body(400, &format!(r#"{{"error":{{"code":{code},"message":"no"}}}}"#));
    vec![
        ("mb_artist_search", search(ID), body(404, ""), "has no entry with that id", "search for it by name"),
        ("mb_artist_search", search("b"), body(400, "{}"), "does not understand", "check the Lucene syntax"),
        ("mb_artist_search", search("c"), busy(), "HTTP status 503", "try again in"),
        ("mb_artist_search", search("d"), body(200, "<html>"), "not JSON", "check `musicbrainz_url`"),
        ("mb_artist_search", search("e"), body(200, "{}"), "no artists found", "fewer or other words"),
        ("mb_identify_record", identify(), refused(4), "AcoustID refused", "check `acoustid_key`"),
        ("mb_identify_record", identify(), refused(3), "AcoustID refused", "may be damaged or too short"),
        ("mb_identify_record", identify(), busy(), "HTTP status 503", "the service is busy"),
        ("mb_cover_download", cover(), body(404, ""), "has no pictures", "try another release"),
        ("mb_cover_download", cover(), body(200, "{}"), "has no pictures", "try another release"),
        ("mb_cover_download", cover(), busy(), "HTTP status 503", "try again later"),
        ("mb_cover_download", cover(), body(418, ""), "HTTP status 418", "try again later"),
    ]
}

async fn check(music: &mut Music, mock: &Mock, line: Line) {
    let (tool, arguments, answers, what, then) = line;
    for answer in answers {
        mock.answer(answer);
    }
    let text = music.failure(tool, arguments.clone()).await;
    let (message, hint) =
        text.split_once("\nHint: ").unwrap_or_else(|| panic!("{tool} {arguments}: no hint: {text}"));
    assert!(message.contains(what) && hint.contains(then), "{tool} {arguments}: {text}");
}

#[tokio::test]
async fn every_failure_has_a_hint() {
    let mock = Mock::new([]).await;
    let keys = json!({ "musicbrainz_url": mock.url, "coverart_url": mock.url, "acoustid_url": mock.url,
        "acoustid_key": "key", "fpcalc": "", "cache": "/dev/null/none" });
    let mut music = Music::with(keys).await;
    let root = music.root();
    audio::put(&root.join("a.mp3"));
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::create_dir_all(root.join(".toolyard/manifests")).unwrap();
    fs::write(root.join(".toolyard/manifests/broken.json"), "{").unwrap();
    fs::write(root.join("text.txt"), "text").unwrap();
    fs::write(root.join("tune.wav"), audio::tune("wav")).unwrap();
    fs::File::create(root.join("large")).unwrap().set_len(501 * 1024 * 1024).unwrap();
    for line in here().into_iter().chain(there()) {
        check(&mut music, &mock, line).await;
    }
}

#[tokio::test]
async fn unreachable_services_and_missing_keys_have_a_hint() {
    let mock = Mock::new([]).await;
    let nowhere = "http://127.0.0.1:1";
    let keys = json!({ "musicbrainz_url": nowhere, "coverart_url": nowhere, "cache": "/dev/null/none" });
    let mut music = Music::with(keys).await;
    for line in [
        ("mb_work_search", json!({ "query": "x" }), Vec::new(), "cannot be reached", "check the connection"),
        (
            "mb_cover_download",
            json!({ "mbid": ID, "path": "." }),
            Vec::new(),
            "cannot be reached",
            "check the connection",
        ),
        (
            "mb_identify_record",
            json!({ "file_path": "x" }),
            Vec::new(),
            "needs a key",
            "register an application",
        ),
    ] {
        check(&mut music, &mock, line).await;
    }
}
