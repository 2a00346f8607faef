//! Queries, ids, and how long answers are kept.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

#[test]
fn lucene_syntax_in_plain_words_is_escaped() {
    let check = |words: &str, expected: &str| assert_eq!(lucene("artist", words), expected);
    check("Sigur Rós", "artist:(Sigur Rós)");
    check("AC/DC", r"artist:(AC\/DC)");
    check("(What's) AND: \"x\"", r#"artist:(\(What's\) AND\: \"x\")"#);
    check("this OR that", "artist:(this or that)");
}

#[test]
fn ids_are_distinguished_from_words() {
    assert!(is_mbid("a74b1b7f-71a5-4011-9441-d0b5e4122711"));
    for text in ["", "Radiohead", "a74b1b7f71a540119441d0b5e4122711", "g74b1b7f-71a5-4011-9441-d0b5e4122711"]
    {
        assert!(!is_mbid(text), "{text}");
    }
}

static CLOCK: AtomicU64 = AtomicU64::new(1_000_000);
static ASKED: AtomicU64 = AtomicU64::new(0);

/// A service that knows everything and counts how often it is asked, until its task is dropped.
async fn service() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            ASKED.fetch_add(1, Ordering::SeqCst);
            let reply = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            let _ = stream.write_all(reply).await;
        }
    });
    (url, task)
}

#[tokio::test]
async fn answers_are_kept_for_a_day_and_those_about_labels_and_works_for_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let (url, _task) = service().await;
    let config = json!({ "root": ".", "musicbrainz_url": url, "cache": folder.path().join("c.sqlite") });
    let config: Config = serde_json::from_value(config).unwrap();
    let mut service = MusicBrainz::new(Web::new(None), &config);
    (service.pace, service.clock) = (Pace::new(Duration::ZERO), || CLOCK.load(Ordering::SeqCst));
    let (hour, day) = (3600, 24 * 3600);
    for (entity, kept) in [
        ("artist", day),
        ("release", day),
        ("release-group", day),
        ("recording", day),
        ("label", 7 * day),
        ("work", 7 * day),
    ] {
        let start = CLOCK.load(Ordering::SeqCst);
        let check = async |after: u64, expected: u64| {
            CLOCK.store(start + after, Ordering::SeqCst);
            let before = ASKED.load(Ordering::SeqCst);
            service.search(entity, "x", 1).await.unwrap();
            assert_eq!(ASKED.load(Ordering::SeqCst) - before, expected, "{entity} after {after} s");
        };
        check(0, 1).await;
        check(hour, 0).await;
        check(kept - 1, 0).await;
        check(kept, 1).await;
        check(kept + hour, 0).await;
    }
}
