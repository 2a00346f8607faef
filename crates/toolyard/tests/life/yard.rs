//! A gateway with a mark of its own in the environment, so that every process of a test can be found and
//! nothing else is.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolyard_model::processes::{self, Process};

use crate::http;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder and a mark. Whatever carries the mark is ended when it is dropped.
/// The token of an operator, for configs that have one.
pub(crate) const OPERATOR: &str = "operator-of-this-yard";

pub(crate) struct Yard {
    folder: TempDir,
    mark: String,
    cache: Option<PathBuf>,
}

impl Yard {
    /// With a config of upstreams that all run `upstream.sh`, each misbehaving in the way of its name.
    pub(crate) fn new(upstreams: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let mark = format!("TOOLYARD_TEST_{}_{number}", std::process::id());
        let script = folder.path().join("upstream.sh");
        std::fs::write(&script, include_str!("upstream.sh")).unwrap();
        let config: Vec<String> = upstreams.iter().map(|how| section(how)).collect();
        std::fs::write(folder.path().join("config.toml"), config.concat()).unwrap();
        Self { folder, mark, cache: None }
    }

    /// A config set of its own, whose gateways have the cache folder of this one.
    pub(crate) fn sharing_cache(&self) -> Self {
        let mut yard = Self::new(&[]);
        yard.cache = Some(self.folder.path().join(".cache"));
        yard
    }

    /// The variable that every process of this yard has.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// More config.
    pub(crate) fn also(&self, text: &str) {
        let path = self.folder.path().join("config.toml");
        let config = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, config + text).unwrap();
    }

    /// The program with nothing of the environment but the mark and where programs are.
    /// Where the gateways and clients of this test work.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn toolyard(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.env_clear().env(&self.mark, "1").current_dir(self.folder.path());
        command.env("HOME", self.folder.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        if let Some(cache) = &self.cache {
            command.env("XDG_CACHE_HOME", cache);
        }
        command
    }

    pub(crate) fn start(&self) -> Gateway {
        self.start_with(&[])
    }

    /// The same with more flags.
    pub(crate) fn start_with(&self, flags: &[&str]) -> Gateway {
        let mut command = self.toolyard();
        command.args(flags).args([
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            "state",
            "--config",
            "config.toml",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let url = address(&mut stderr);
        let log = std::thread::spawn(move || rest(stderr));
        Gateway { child, url, log: Some(log) }
    }

    /// `toolyard stdio`, as the config of a client runs it.
    pub(crate) fn stdio(&self) -> Command {
        let mut command = self.toolyard();
        command.args(["stdio", "--state-dir", "state", "--config", "config.toml"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// All live processes that carry the mark.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let is_marked = |process: &Process| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.id)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(self.mark.as_bytes()))
        };
        processes::all().into_iter().filter(|process| !process.is_dead && is_marked(process)).collect()
    }

    /// How many are still there of those that were.
    pub(crate) fn left_of(&self, before: &[Process]) -> Vec<String> {
        let is_same = |now: &Process| before.iter().any(|then| (then.id, then.start) == (now.id, now.start));
        self.processes().iter().filter(|now| is_same(now)).map(|process| command_line(process.id)).collect()
    }
}

fn section(how: &str) -> String {
    let run = format!("command = \"sh\"\nargs = [\"upstream.sh\", \"{how}\"]\n");
    format!("[upstreams.{how}]\n{run}era = \"legacy\"\ntimeout = 1\n")
}

impl Drop for Yard {
    fn drop(&mut self) {
        // More than once: a process may just be starting another.
        processes::end_all(Duration::ZERO, Duration::from_secs(5), || self.processes());
    }
}

fn address(stderr: &mut BufReader<ChildStderr>) -> String {
    let mut words = String::new();
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it does not listen: {words}");
        if let Some(url) = line.trim_end().strip_prefix("listening on ") {
            return url.to_owned();
        }
        words.push_str(&line);
    }
}

fn rest(stderr: BufReader<ChildStderr>) -> String {
    stderr.lines().map_while(Result::ok).fold(String::new(), |words, line| words + &line + "\n")
}

/// A running gateway. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    url: String,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Gateway {
    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.id()), signal);
    }

    /// Waits for the end; returns its log.
    pub(crate) fn wait(mut self) -> String {
        self.child.wait().unwrap();
        self.log.take().unwrap().join().unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn tools(&self) -> Vec<String> {
        http::read(http::modern(&self.url, "tools/list", json!({}))).tool_names()
    }

    /// Calls the one tool of an upstream: whether it failed, and the text it gave.
    pub(crate) fn go(&self, upstream: &str) -> (bool, String) {
        let call = json!({ "name": format!("{upstream}__go"), "arguments": {} });
        let message = http::read(http::modern(&self.url, "tools/call", call)).message();
        let result = &message["result"];
        let text = [&result["content"][0]["text"], &message["error"]["message"]];
        let text = text.iter().find_map(|text| text.as_str()).unwrap_or_default();
        (result["isError"] == true || message.get("error").is_some(), text.to_owned())
    }

    /// The result of a call.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let call = json!({ "name": tool, "arguments": arguments });
        http::read(http::modern(&self.url, "tools/call", call)).message()["result"].clone()
    }

    /// Begins a call as an operator, whose token proves the user.
    pub(crate) fn begin_as_operator(&self, tool: &str, arguments: &Value) -> std::net::TcpStream {
        let call = json!({ "name": tool, "arguments": arguments });
        let token = format!("Bearer {OPERATOR}");
        http::modern_with(&self.url, &[("authorization", &token)], "tools/call", call)
    }

    pub(crate) fn upstream(&self, id: &str) -> Value {
        let call = json!({ "name": "yard__upstreams", "arguments": {} });
        let message = http::read(http::modern(&self.url, "tools/call", call)).message();
        let all = message["result"]["structuredContent"]["upstreams"].as_array().unwrap().clone();
        all.into_iter().find(|upstream| upstream["id"] == id).unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command_line(process: i32) -> String {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// Waits until something holds, at most so long; returns how long it took.
pub(crate) fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < deadline, "not within {limit:?}: {what}: {why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// So long that only something broken takes longer.
pub(crate) fn soon<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    within(Duration::from_secs(20), what, look)
}

/// `Ok` when the list is empty.
pub(crate) fn none(left: &[String]) -> Result<(), String> {
    if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
}
