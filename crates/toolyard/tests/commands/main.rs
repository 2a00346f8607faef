//! Every command as its user meets it, word by word.
//!
//! Each `.md` file here is played in a home of its own: a block after a line `NAME:` is a file there, a block
//! `console` holds commands and their output. `UPDATE=1 cargo test -p toolyard --test commands` writes the
//! output again; look at the difference before you keep it. `TRANSCRIPT=tools` plays only `tools.md`.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stderr, reason = "shows the output of a program that a test has started")]

#[expect(dead_code, reason = "of what tests share, only some is needed here")]
#[path = "../support/fixture.rs"]
mod fixture;
#[expect(dead_code, reason = "of what tests share, only some is needed here")]
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/program.rs"]
mod program;

mod asking;
mod transcript;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use transcript::play;

/// How many are played at once.
const AT_ONCE: usize = 3;

#[test]
fn every_transcript_is_played_as_it_is_written() {
    let transcripts = transcripts();
    assert!(!transcripts.is_empty(), "the transcripts are not where they should be");
    let next = AtomicUsize::new(0);
    let players = || {
        let mine = std::iter::from_fn(|| transcripts.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.filter_map(|path| difference(path)).collect::<Vec<String>>()
    };
    // Some wait most of the time, so several are played at once.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(players)).collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    let is_update = std::env::var_os("UPDATE").is_some();
    assert!(wrong.is_empty() || is_update, "{}", wrong.join("\n"));
}

/// The difference between the recorded and the actual output.
fn difference(path: &Path) -> Option<String> {
    let written = std::fs::read_to_string(path).unwrap();
    let played = play(&written);
    if played == written {
        return None;
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &played).unwrap();
    }
    Some(format!("{}:\n{}", path.display(), first_difference(&written, &played)))
}

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    // One alone, while it is being written.
    let only = std::env::var("TRANSCRIPT").ok();
    found
        .retain(|path| only.as_ref().is_none_or(|only| path.file_stem().is_some_and(|stem| stem == &**only)));
    found.sort();
    found
}

fn first_difference(written: &str, played: &str) -> String {
    let pairs = written.lines().chain(["(end)"]).zip(played.lines().chain(["(end)"]));
    let at = pairs.take_while(|(a, b)| a == b).count();
    let rest = |text: &str| {
        text.lines().skip(at).take(8).collect::<Vec<_>>().join(
            "
    ",
        )
    };
    format!("  from line {}, expected:\n    {}\n  got:\n    {}", at + 1, rest(written), rest(played))
}
