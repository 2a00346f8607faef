//! Many files in one call: what fails is named and stops the others only if that is wished.

use serde_json::{Value, json};

use crate::audio;
use crate::client::Music;

#[tokio::test]
async fn a_batch_names_what_failed_and_goes_on() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("a.mp3"));
    audio::put(&music.root().join("b.flac"));
    let writes = json!([{ "path": "a.mp3", "title": "A" }, { "path": "x.mp3", "title": "X" }, { "path": "b.flac", "title": "B" }]);
    let written = music.call("write_metadata_batch", json!({ "writes": writes })).await;
    assert_eq!(
        (&written["ok_count"], &written["error_count"], &written["skipped"]),
        (&json!(2), &json!(1), &json!(0))
    );
    let stopped =
        music.call("write_metadata_batch", json!({ "writes": writes, "stop_on_error": true })).await;
    assert_eq!(
        (&stopped["ok_count"], &stopped["skipped"], &stopped["stopped_early"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let read = music.call("read_metadata_batch", json!({ "paths": ["a.mp3", "../x", "b.flac"] })).await;
    assert_eq!(read["results"][0]["metadata"]["metadata"]["title"], "A");
    assert!(read["results"][1]["error"].as_str().unwrap().contains("outside of the root folder"));
    assert_eq!(read["ok_count"], 2);
}

#[tokio::test]
async fn a_batch_has_at_most_500_files_and_reports_progress() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("a.mp3"));
    let many = music.failure("read_metadata_batch", json!({ "paths": vec!["a.mp3"; 501] })).await;
    assert!(many.contains("`paths` must have at most 500 items, not 501"), "{many}");
    let none = music.failure("read_metadata_batch", json!({ "paths": [] })).await;
    assert!(none.contains("`paths`"), "{none}");
    let writes: Vec<Value> = vec![json!({ "path": "a.mp3", "title": "A" }); 501];
    let many = music.failure("write_metadata_batch", json!({ "writes": writes })).await;
    assert!(many.contains("at most 500"), "{many}");
    let read = music.call("read_metadata_batch", json!({ "paths": vec!["a.mp3"; 500] })).await;
    assert_eq!(read["ok_count"], 500);
    let steps: Vec<i64> = music
        .notifications
        .iter()
        .filter_map(|notification| notification["params"]["progress"].as_i64())
        .collect();
    assert!(steps.is_sorted() && steps.last() == Some(&500), "{steps:?}");
}
