//! Runs programs: in the foreground, for their output, or in the background under a guard.
//!
//! Whatever is started here ends with us: a guard stops it when it goes out of scope, and a signal to
//! us stops everything that is still running. A background program gets its own process group, so
//! that its children go with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a program may take to say that it listens.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a program may take to end after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// What a server prints on stderr once it accepts.
const LISTENING: &str = "listening on ";

/// Leaders of the process groups in the background.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// Programs in the foreground.
static FOREGROUND: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// From now on, a signal that ends us ends our children first.
pub(crate) fn stop_children_on_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listen for signals")?;
    spawn(move || {
        if let Some(signal) = signals.forever().next() {
            for leader in lock(&GROUPS).iter() {
                let _ = killpg(Pid::from_raw(*leader), Signal::SIGKILL);
            }
            for program in lock(&FOREGROUND).iter() {
                let _ = kill(Pid::from_raw(*program), Signal::SIGTERM);
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs a program with its output shown; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = status(command)?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a program to its end, whatever that is.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    let shown = show(command);
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("start `{shown}`"))?;
    let _entry = Registered::new(&FOREGROUND, &child);
    child.wait().with_context(|| format!("wait for `{shown}`"))
}

/// Runs a program and returns what it wrote on stdout; stderr is shown only if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    let shown = show(command);
    if !output.status.success() {
        let text = [output.stderr, output.stdout].concat();
        bail!("`{shown}` failed ({}): {}", output.status, String::from_utf8_lossy(&text).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of `{shown}`"))
}

/// Runs a program to its end, whatever that is, and returns all it wrote.
pub(crate) fn capture(command: &mut Command) -> Result<Output> {
    let shown = show(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("start `{shown}`"))?;
    let _entry = Registered::new(&FOREGROUND, &child);
    child.wait_with_output().with_context(|| format!("wait for `{shown}`"))
}

/// Whether a program of that name can be started.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // nginx and the like live where only root's PATH leads.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// A program in the background. It ends when this is dropped.
pub(crate) struct Background {
    name: String,
    child: Child,
    log: PathBuf,
    lines: Receiver<String>,
    _entry: Registered,
}

impl Background {
    /// Starts a program whose stdout and stderr go to a log file.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let shown = show(command);
        let file = File::create(log).with_context(|| format!("write the log `{}`", log.display()))?;
        let stdout = file.try_clone().context("share the log file")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}: `{shown}`"))?;
        let entry = Registered::new(&GROUPS, &child);
        let stderr = child.stderr.take().context("take the stderr of a child")?;
        let (sender, lines) = channel();
        spawn(move || {
            let mut file = file;
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // The log is for people; a full disk shows elsewhere. It is not read after the start.
                let _ = writeln!(file, "{line}");
                let _ = sender.send(line);
            }
        });
        let name = name.to_owned();
        Ok(Self { name, child, log: log.to_owned(), lines, _entry: entry })
    }

    /// Starts a server and waits until it prints where it listens: `listening on http://ADDR`, or `tcp://ADDR`,
    /// or `unix://PATH`.
    pub(crate) fn serve(name: &str, command: &mut Command, log: &Path) -> Result<(Self, String)> {
        let server = Self::start(name, command, log)?;
        let address = server.wait_for_address()?;
        Ok((server, address))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the program has ended on its own.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("look after {}", self.name))? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}); {}", self.name, self.end_of_log()),
        }
    }

    /// Stops the program and gives it that long to finish what it does at its end.
    pub(crate) fn stop_within(mut self, limit: Duration) {
        self.end(limit);
    }

    /// Asks first, so that a program can stop children in groups of their own, then insists.
    fn end(&mut self, limit: Duration) {
        let Ok(group) = i32::try_from(self.child.id()).map(Pid::from_raw) else { return };
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(group, Signal::SIGTERM);
        }
        let deadline = Instant::now() + limit;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// The origin that the server printed, without a path: `http://ADDR`.
    fn wait_for_address(&self) -> Result<String> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(address) = address_in(&line) {
                        return Ok(address);
                    }
                }
                Err(RecvTimeoutError::Timeout) => bail!(
                    "{} did not print `{LISTENING}http://ADDR` on stderr within {} s; {}",
                    self.name,
                    START_LIMIT.as_secs(),
                    self.end_of_log()
                ),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("{} ended before it listened; {}", self.name, self.end_of_log())
                }
            }
        }
    }

    fn end_of_log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        if tail.is_empty() {
            return "it printed nothing".to_owned();
        }
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("the end of its stderr (all in `{}`):\n{}", self.log.display(), tail.join("\n"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end(STOP_LIMIT);
    }
}

/// A child in one of the registers above, for as long as this lives.
struct Registered {
    register: &'static Mutex<BTreeSet<i32>>,
    id: i32,
}

impl Registered {
    fn new(register: &'static Mutex<BTreeSet<i32>>, child: &Child) -> Self {
        let id = i32::try_from(child.id()).unwrap_or(i32::MAX);
        lock(register).insert(id);
        Self { register, id }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(self.register).remove(&self.id);
    }
}

fn lock(register: &Mutex<BTreeSet<i32>>) -> parking_lot::MutexGuard<'_, BTreeSet<i32>> {
    register.lock()
}

fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(LISTENING)?;
    let url = rest.split_whitespace().next()?;
    if url.starts_with("tcp://") || url.starts_with("unix://") {
        return Some(url.to_owned());
    }
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    Some(format!("http://{authority}"))
}

/// The command line as a person would type it, roughly.
fn show(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut shown = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_a_server_prints() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(address_in(line).as_deref(), expected);
        check("listening on http://127.0.0.1:4000", Some("http://127.0.0.1:4000"));
        check("INFO listening on http://127.0.0.1:4000/mcp with 5 tools", Some("http://127.0.0.1:4000"));
        check("listening on tcp://127.0.0.1:4000", Some("tcp://127.0.0.1:4000"));
        check("listening on unix:///tmp/a.sock", Some("unix:///tmp/a.sock"));
        check("listening on mcp.sock", None);
        check("starting", None);
    }

    #[test]
    fn a_background_program_and_its_children_end_with_the_guard() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; echo listening on http://127.0.0.1:1 >&2; wait"]);
        let (server, address) = Background::serve("a shell", &mut shell, log.path()).unwrap();
        assert_eq!(address, "http://127.0.0.1:1");
        let child = std::fs::read_to_string(log.path()).unwrap().lines().next().unwrap().to_owned();
        assert!(runs(&child));
        drop(server);
        let deadline = Instant::now() + Duration::from_secs(5);
        while runs(&child) {
            assert!(Instant::now() < deadline, "process {child} is still there");
            std::thread::yield_now();
        }
    }

    /// A killed process may stay listed until its new parent looks after it.
    fn runs(id: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_server_that_ends_early_is_named_with_its_stderr_output() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such thing >&2"]);
        let error = Background::serve("the shell", &mut shell, log.path()).map(drop).unwrap_err().to_string();
        assert!(error.contains("the shell ended before it listened"), "{error}");
        assert!(error.contains("no such thing"), "{error}");
    }
}
