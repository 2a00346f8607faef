//! A child's stderr: into our log under the upstream's name, bounded in length and rate, with
//! the last lines kept to explain its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

/// A longer line is cut.
const MAX_LINE: usize = 2000;
/// How many lines of one window go into the log.
const PER_WINDOW: u32 = 200;
const WINDOW: Duration = Duration::from_secs(5);
/// How many lines are kept to explain the end.
const KEPT_LINES: usize = 5;
const KEPT_LENGTH: usize = 300;

/// How many lines an operator can look back.
const LOG_LINES: usize = 1_000;

/// Numbers the lines of all children, so that a reader can ask for what is new.
static NEXT_LINE: AtomicU64 = AtomicU64::new(1);

/// One line that a child wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StderrLine {
    /// Grows from line to line, over all children.
    pub number: u64,
    /// The number of the previous line of the same upstream, which may have been dropped already.
    pub before: u64,
    pub at: SystemTime,
    pub text: String,
}

/// The latest stderr lines of one upstream's processes, across restarts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StderrLog(Arc<Mutex<VecDeque<StderrLine>>>);

impl StderrLog {
    fn push(&self, line: &str) {
        let mut lines = self.0.lock();
        let before = lines.back().map_or(0, |last| last.number);
        if lines.len() == LOG_LINES {
            lines.pop_front();
        }
        let number = NEXT_LINE.fetch_add(1, Ordering::Relaxed);
        lines.push_back(StderrLine { number, before, at: SystemTime::now(), text: line.to_owned() });
    }

    /// The newest last.
    pub fn lines(&self) -> Vec<StderrLine> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Two specs are equal wherever their stderr is kept.
impl PartialEq for StderrLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for StderrLog {}

/// The last lines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    log: StderrLog,
    lines: Arc<Mutex<VecDeque<String>>>,
    ended: CancellationToken,
}

impl Tail {
    pub(super) fn new(log: StderrLog) -> Self {
        Self { log, ..Self::default() }
    }

    fn push(&self, line: &str) {
        self.log.push(line);
        let mut lines = self.lines.lock();
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.chars().take(KEPT_LENGTH).collect());
    }

    /// The last lines of stderr, if there are any. Waits a little for what is still in the pipe.
    pub(crate) async fn text(&self, wait: Duration) -> Option<String> {
        let _ = tokio::time::timeout(wait, self.ended.cancelled()).await;
        let lines = self.lines.lock();
        let text = lines.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
        Some(text).filter(|text| !text.is_empty())
    }
}

pub(crate) async fn read(name: Arc<str>, mut stderr: impl AsyncRead + Unpin, tail: Tail) {
    let _ended = tail.ended.clone().drop_guard();
    let mut lines = LineCutter::default();
    let mut gate = Gate::new(Instant::now());
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        lines.feed(&chunk[..read], |line| log(&name, line, &tail, gate.pass(Instant::now())));
    }
    lines.finish(|line| log(&name, line, &tail, gate.pass(Instant::now())));
}

fn log(name: &str, line: &str, tail: &Tail, pass: Pass) {
    tail.push(line);
    match pass {
        Pass::Through => tracing::info!(target: "upstream", upstream = %name, "{line}"),
        Pass::After(left_out) => {
            tracing::info!(target: "upstream", upstream = %name, left_out, "it writes too much to stderr");
            tracing::info!(target: "upstream", upstream = %name, "{line}");
        }
        Pass::LeftOut => {}
    }
}

/// Cuts bytes into lines of bounded length.
#[derive(Default)]
struct LineCutter {
    line: Vec<u8>,
}

impl LineCutter {
    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.finish(&mut each);
            }
        }
    }

    fn finish(&mut self, mut each: impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end();
        if !text.is_empty() {
            each(text);
        }
        self.line.clear();
    }
}

/// Passes on a limited number of lines per window, and counts the others.
struct Gate {
    since: Instant,
    passed: u32,
    left_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pass {
    Through,
    /// Passed on; this number of lines before it was dropped.
    After(u64),
    LeftOut,
}

impl Gate {
    fn new(now: Instant) -> Self {
        Self { since: now, passed: 0, left_out: 0 }
    }

    fn pass(&mut self, now: Instant) -> Pass {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.passed) = (now, 0);
        }
        if self.passed == PER_WINDOW {
            self.left_out += 1;
            return Pass::LeftOut;
        }
        self.passed += 1;
        match std::mem::take(&mut self.left_out) {
            0 => Pass::Through,
            left_out => Pass::After(left_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_a_bound_however_they_come() {
        let mut lines = LineCutter::default();
        let mut got = Vec::new();
        for piece in [&b"one\ntw"[..], b"o\r\n\n", &[b'x'; 5000], b"yz\nlast"] {
            lines.feed(piece, |line| got.push(line.to_owned()));
        }
        lines.finish(|line| got.push(line.to_owned()));
        let lengths: Vec<usize> = got.iter().map(String::len).collect();
        assert_eq!(lengths, [3, 3, MAX_LINE, 4]);
    }

    #[test]
    fn a_flood_is_left_out_and_counted() {
        let start = Instant::now();
        let mut gate = Gate::new(start);
        for _ in 0..PER_WINDOW {
            assert_eq!(gate.pass(start), Pass::Through);
        }
        assert_eq!((gate.pass(start), gate.pass(start)), (Pass::LeftOut, Pass::LeftOut));
        assert_eq!(gate.pass(start + WINDOW), Pass::After(2));
        assert_eq!(gate.pass(start + WINDOW), Pass::Through);
    }
}
