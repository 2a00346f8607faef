//! The output of a script: the last lines, each with its time, its stream and its level, and the filters that readers
//! use.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How many lines of a script are kept.
const KEPT: usize = 10_000;
/// A longer line is cut.
pub(crate) const LONGEST_LINE: usize = 4_000;

/// How serious a line is, as far as its words show it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// One line that a script printed.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Grows from line to line; the first is 1.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) stream: Stream,
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// Which lines a reader wants.
#[derive(Default)]
pub(crate) struct Filter {
    /// The number of the last line that the reader has: it reads on from there, the oldest lines first.
    pub(crate) after: Option<u64>,
    pub(crate) level: Option<Level>,
    pub(crate) stream: Option<Stream>,
    pub(crate) matching: Option<Regex>,
    pub(crate) not_older_than: Option<Duration>,
}

impl Filter {
    fn fits(&self, line: &Line, now: SystemTime) -> bool {
        let age = now.duration_since(line.at).unwrap_or_default();
        self.after.is_none_or(|after| line.number > after)
            && self.level.is_none_or(|level| line.level >= level)
            && self.stream.is_none_or(|stream| line.stream == stream)
            && self.matching.as_ref().is_none_or(|pattern| pattern.is_match(&line.text))
            && self.not_older_than.is_none_or(|most| age <= most)
    }
}

/// The matching lines, the oldest first.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) lines: Vec<Line>,
    /// How many matching lines are left out because of the limit.
    pub(crate) left_out: usize,
    /// The number to ask for what comes next: that of the last line here if later ones were left out, else that of the
    /// last line that was printed.
    pub(crate) last: u64,
    /// How many lines after the requested position have been dropped.
    pub(crate) lost: u64,
}

/// The last lines of one script.
pub(crate) struct Log {
    lines: Mutex<VecDeque<Line>>,
    last: watch::Sender<u64>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { lines: Mutex::default(), last: watch::Sender::new(0) }
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.lines.lock()
    }

    pub(crate) fn push(&self, stream: Stream, bytes: &[u8]) {
        let text = plain(&String::from_utf8_lossy(bytes));
        let mut lines = self.lines();
        let number = *self.last.borrow() + 1;
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(Line { number, at: SystemTime::now(), stream, level: level(&text), text });
        self.last.send_replace(number);
    }

    /// How many lines were printed.
    pub(crate) fn count(&self) -> u64 {
        *self.last.borrow()
    }

    /// At most `limit` lines that fit: with `after` the oldest, so that a reader gets all of them in turn, else the
    /// newest.
    pub(crate) fn read(&self, filter: &Filter, limit: usize) -> Found {
        let (lines, now) = (self.lines(), SystemTime::now());
        let mut fitting: Vec<&Line> = lines.iter().filter(|line| filter.fits(line, now)).collect();
        let left_out = fitting.len().saturating_sub(limit);
        let mut last = self.count();
        if filter.after.is_none() {
            fitting.drain(..left_out);
        } else if left_out > 0 {
            fitting.truncate(limit);
            last = fitting.last().map_or(last, |line| line.number);
        }
        let dropped = lines.front().map_or(0, |line| line.number - 1);
        Found {
            lines: fitting.into_iter().cloned().collect(),
            left_out,
            last,
            lost: dropped.saturating_sub(filter.after.unwrap_or_default()),
        }
    }

    /// Waits for lines until one that fits is there, or for as long as given, or until `ended`.
    pub(crate) async fn wait(&self, filter: &Filter, limit: Duration, ended: impl Future<Output = ()>) {
        let fitting = async {
            let mut last = self.last.subscribe();
            while self.read(filter, 1).lines.is_empty() && last.changed().await.is_ok() {}
        };
        tokio::select! {
            () = fitting => {}
            () = ended => {}
            () = tokio::time::sleep(limit) => {}
        }
    }
}

/// A line without the sequences that colour it and move the cursor, and without what follows a carriage return but the
/// last part, which is what a terminal would show.
fn plain(text: &str) -> String {
    let text = text.trim_end_matches(['\r', '\n']);
    let text = text.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let (mut out, mut letters) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_sequence(&mut letters),
            '\t' => out.push('\t'),
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// `ESC [ … letter`, `ESC ] … BEL`, or ESC and one more character.
fn skip_sequence(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {},
        Some(']') => while letters.next().is_some_and(|letter| letter != '\u{7}' && letter != '\u{1b}') {},
        _ => {}
    }
}

/// The level that the words of a line show; without such a word it is information.
fn level(text: &str) -> Level {
    let start: String = text.chars().take(200).collect::<String>().to_lowercase();
    let mut words = start.split(|c: char| !c.is_alphanumeric());
    let has = |names: &[&str]| start.split(|c: char| !c.is_alphanumeric()).any(|word| names.contains(&word));
    let is_error = has(&["error", "err", "fatal", "panic", "panicked", "exception", "failed", "critical"]);
    if is_error || words.any(|word| word.len() > 5 && word.ends_with("error")) {
        return Level::Error;
    }
    if has(&["warn", "warning", "deprecated"]) {
        return Level::Warn;
    }
    if has(&["debug", "trace", "verbose"]) { Level::Debug } else { Level::Info }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        let log = Log::new();
        for line in lines {
            log.push(Stream::Stdout, line.as_bytes());
        }
        log
    }

    fn texts(found: &Found) -> Vec<&str> {
        found.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn each_filter_takes_what_it_names() {
        let log = log(&["listening on 3000", "WARN: slow", "TypeError: x", "[debug] y"]);
        log.push(Stream::Stderr, b"npm ERR! code");
        let read = |filter: Filter| texts(&log.read(&filter, 10)).join("|");
        assert_eq!(
            read(Filter { level: Some(Level::Warn), ..Filter::default() }),
            "WARN: slow|TypeError: x|npm ERR! code"
        );
        assert_eq!(read(Filter { stream: Some(Stream::Stderr), ..Filter::default() }), "npm ERR! code");
        let matching = Some(Regex::new(r"on \d+$").unwrap());
        assert_eq!(read(Filter { matching, ..Filter::default() }), "listening on 3000");
        assert_eq!(read(Filter { after: Some(4), ..Filter::default() }), "npm ERR! code");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(read(Filter { not_older_than: Some(Duration::ZERO), ..Filter::default() }), "");
        let newest = log.read(&Filter::default(), 2);
        assert_eq!(
            (texts(&newest), newest.left_out, newest.last),
            (vec!["[debug] y", "npm ERR! code"], 3, 5)
        );
    }

    #[test]
    fn only_so_many_lines_are_kept_and_the_loss_is_reported() {
        let log = Log::new();
        (0..KEPT + 5).for_each(|number| log.push(Stream::Stdout, number.to_string().as_bytes()));
        let found = log.read(&Filter::default(), 1);
        assert_eq!((texts(&found), found.lost, found.left_out), (vec!["10004"], 5, KEPT - 1));
    }

    #[test]
    fn a_reader_that_reads_on_gets_every_line_once() {
        let log = log(&["1", "2", "skipped", "3", "4", "5", "skipped"]);
        let matching = || Some(Regex::new(r"^\d$").unwrap());
        let mut after = 0;
        for (lines, left_out, last) in [(vec!["1", "2"], 3, 2), (vec!["3", "4"], 1, 5), (vec!["5"], 0, 7)] {
            let filter = Filter { after: Some(after), matching: matching(), ..Filter::default() };
            let found = log.read(&filter, 2);
            assert_eq!((texts(&found), found.left_out, found.last), (lines, left_out, last));
            after = found.last;
        }
    }

    #[test]
    fn a_reader_that_reads_on_learns_how_many_lines_were_dropped_before_it_read_them() {
        let log = Log::new();
        (0..KEPT + 5).for_each(|number| log.push(Stream::Stdout, number.to_string().as_bytes()));
        for (after, first, lost) in [(0, "5", 5), (3, "5", 2), (5, "5", 0), (7, "7", 0)] {
            let found = log.read(&Filter { after: Some(after), ..Filter::default() }, 1);
            assert_eq!((texts(&found), found.lost), (vec![first], lost), "after {after}");
        }
        let end = log.read(&Filter { after: Some(u64::MAX), ..Filter::default() }, 1);
        assert_eq!((end.lines.len(), end.lost), (0, 0));
    }

    #[test]
    fn a_line_is_what_a_terminal_would_show() {
        assert_eq!(
            plain("\u{1b}[32mready\u{1b}[0m in \u{1b}]8;;x\u{7}5\u{1b}]8;;\u{7} ms\r\n"),
            "ready in 5 ms"
        );
        assert_eq!(plain("10 %\r50 %\r100 %"), "100 %");
        assert_eq!(plain("a\tb\u{0}c"), "a\tbc");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_waits_is_woken_by_a_line_that_fits() {
        let log = log(&["one"]);
        let filter =
            Filter { after: Some(1), matching: Some(Regex::new("three").unwrap()), ..Filter::default() };
        let printing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            log.push(Stream::Stdout, b"two");
            tokio::time::sleep(Duration::from_secs(1)).await;
            log.push(Stream::Stdout, b"three");
        };
        let started = tokio::time::Instant::now();
        tokio::join!(log.wait(&filter, Duration::from_mins(1), std::future::pending()), printing);
        assert_eq!(started.elapsed(), Duration::from_secs(2));
        assert_eq!(texts(&log.read(&filter, 10)), ["three"]);
    }
}
