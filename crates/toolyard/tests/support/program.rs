//! A program that a test has started: it prints its address, its output is kept, and it ends with its
//! guard, together with everything it has started itself.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;

/// How long a program may take to print its address. Several may be starting at the same time.
const START: Duration = Duration::from_mins(1);
/// How long it may take to end after it was asked to.
const STOP: Duration = Duration::from_secs(5);

pub(crate) struct Program {
    child: Child,
    printed: Arc<Mutex<String>>,
}

impl Program {
    /// Starts a server with nothing in its environment but `PATH`, and waits for its line
    /// `listening on http://ADDRESS`, or `tcp://` or `unix://`; gives that origin.
    pub(crate) fn serve(command: &mut Command) -> (Self, String) {
        let mut child = command
            .env_clear()
            .env("PATH", path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let printed = Arc::new(Mutex::new(String::new()));
        let (sender, origins) = channel();
        let kept = printed.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut kept = kept.lock();
                kept.extend([line.as_str(), "\n"]);
                drop(kept);
                if let Some(origin) = origin_in(&line) {
                    let _ = sender.send(origin);
                }
            }
        });
        let program = Self { child, printed };
        let origin = program.wait_for(&origins);
        (program, origin)
    }

    fn wait_for(&self, origins: &Receiver<String>) -> String {
        origins
            .recv_timeout(START)
            .unwrap_or_else(|error| panic!("it does not listen ({error}): {}", self.stderr()))
    }

    /// Everything it has printed on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.printed.lock().clone()
    }
}

/// The `PATH`. Nothing else of our environment is passed on: some servers return it.
pub(crate) fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn origin_in(line: &str) -> Option<String> {
    let (_, url) = line.split_once("listening on ")?;
    let (scheme, rest) = url.split_once("://")?;
    let end = if scheme == "unix" { &[' '][..] } else { &['/', ' '] };
    Some(format!("{scheme}://{}", rest.split(end).next()?))
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.child);
        if std::thread::panicking() {
            eprintln!("--- stderr of {}:\n{}", self.child.id(), self.stderr());
        }
    }
}

/// Asks a process group to end, so that it can stop its children, and then kills it.
fn end(leader: &mut Child) {
    let Ok(group) = i32::try_from(leader.id()).map(Pid::from_raw) else { return };
    if matches!(leader.try_wait(), Ok(None)) {
        let _ = killpg(group, Signal::SIGTERM);
    }
    let deadline = Instant::now() + STOP;
    while matches!(leader.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = leader.wait();
}
