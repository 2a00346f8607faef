//! A cluster on this machine: a real nats-server and gateways, each with folders of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{modern, read};
use super::nats::Nats;

/// Every wait ends.
const PATIENCE: Duration = Duration::from_mins(2);
const KEY: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct World {
    nodes: BTreeMap<&'static str, Node>,
    pub(crate) nats: Nats,
    // The last to be dropped.
    folder: TempDir,
}

pub(crate) struct Node {
    child: Child,
    folder: PathBuf,
    pub(crate) url: String,
}

/// A node to be started.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup<'a> {
    /// Programs that it has as upstreams.
    pub(crate) upstreams: &'a [&'a str],
    /// More keys of `[cluster]`; one that is here replaces the usual one.
    pub(crate) cluster: &'a str,
    /// More sections of the config.
    pub(crate) config: &'a str,
    /// Where it accepts apps. Without it there are neither apps nor instances.
    pub(crate) apps: Option<u16>,
    /// Where it accepts clients; any port if not given.
    pub(crate) port: u16,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::over(|folder| Nats::one(folder, ""))
    }

    pub(crate) fn over(nats: impl FnOnce(&Path) -> Nats) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { nodes: BTreeMap::new(), nats: nats(folder.path()), folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a node with these programs as upstreams; `more` is appended to its section `[cluster]`.
    pub(crate) fn start(&mut self, name: &'static str, upstreams: &[&str], more: &str) {
        self.start_with(name, Setup { upstreams, cluster: more, ..Setup::default() });
    }

    pub(crate) fn start_with(&mut self, name: &'static str, setup: Setup<'_>) {
        let folder = self.path(name);
        std::fs::create_dir_all(folder.join("toolyard/instances")).unwrap();
        let usual = [
            format!("nats = {}", self.nats.urls()),
            format!("node = \"{name}\""),
            format!("key = \"{KEY}\""),
            "listen = \"127.0.0.1:0\"".to_owned(),
        ];
        let mut config = "[cluster]\n".to_owned();
        for line in usual {
            let key = line.split(' ').next().unwrap();
            if !setup.cluster.lines().any(|more| more.split(' ').next() == Some(key)) {
                let _ = writeln!(config, "{line}");
            }
        }
        // A key that is empty is only taken out.
        for line in setup.cluster.lines().filter(|line| line.contains('=')) {
            let _ = writeln!(config, "{line}");
        }
        let apps = setup.apps.map(|port| format!("[apps]\nscan = false\nlisten = \"127.0.0.1:{port}\"\n"));
        config += &apps.unwrap_or_default();
        for id in setup.upstreams {
            let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/server.py");
            let calls = self.calls_file(id);
            let _ = writeln!(
                config,
                "[upstreams.{id}]\ncommand = \"python3\"\nargs = [\"{}\"]\nenv = {{ CALLS = \"{}\" }}",
                server.display(),
                calls.display()
            );
        }
        config += setup.config;
        std::fs::write(folder.join("config.toml"), config).unwrap();
        self.nodes.insert(name, Node::start(folder, setup.port, setup.apps.is_some()));
    }

    fn calls_file(&self, id: &str) -> PathBuf {
        self.path(&format!("calls-{id}"))
    }

    /// Sets the description of all tools of a program, from its next list on.
    pub(crate) fn describe(&self, id: &str, description: &str) {
        std::fs::write(self.path(&format!("calls-{id}.description")), description).unwrap();
    }

    /// The calls that reached an upstream: the process that answered, and the arguments.
    pub(crate) fn calls(&self, id: &str) -> Vec<(u64, Value)> {
        let records = self.records(id).into_iter();
        records.map(|call| (call[0].as_u64().unwrap(), call[1].clone())).collect()
    }

    /// The processes of a program that were started, in this order.
    pub(crate) fn starts(&self, id: &str) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path(&format!("calls-{id}.starts"))).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// When they reached it, in seconds since 1970, with the process.
    pub(crate) fn acts(&self, id: &str) -> Vec<(u64, f64)> {
        let records = self.records(id).into_iter();
        records.map(|call| (call[0].as_u64().unwrap(), call[2].as_f64().unwrap())).collect()
    }

    /// The `_meta` of each.
    pub(crate) fn metas(&self, id: &str) -> Vec<Value> {
        self.records(id).into_iter().map(|call| call[3].clone()).collect()
    }

    fn records(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.calls_file(id)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log of a node that need not run any more.
    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name).join("log")).unwrap_or_default()
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        &self.nodes[name]
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.values().map(|node| node.url.clone()).collect()
    }

    /// Runs a command in the folder of a node that need not run.
    pub(crate) fn run_in(&self, name: &str, words: &[&str]) -> Output {
        toolyard(&self.path(name)).args(words).output().unwrap()
    }

    /// The copies of the audits of all nodes, read by a node that need not run; nothing as long as there is none.
    pub(crate) fn audit(&self, name: &str) -> Vec<Value> {
        let output = self.run_in(name, &["cluster", "audit"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Ends a node without a word.
    pub(crate) fn kill(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap();
        node.child.kill().unwrap();
        node.child.wait().unwrap();
    }

    /// Lets a node stop in order.
    pub(crate) fn stop(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap();
        node.signal(Signal::SIGTERM);
        node.child.wait().unwrap();
    }

    /// Waits until every node lists a tool.
    pub(crate) fn wait_for_tool(&self, tool: &str) {
        for node in self.nodes.values() {
            eventually(&format!("{tool} at {}", node.url), || {
                node.tools().contains(&tool.to_owned()).then_some(())
            });
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, node) in &self.nodes {
                eprintln!("--- {name}:\n{}", node.log());
            }
        }
    }
}

impl Node {
    fn start(folder: PathBuf, port: u16, has_apps: bool) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let before = std::fs::metadata(folder.join("log")).map_or(0, |log| log.len());
        let without: &[&str] = if has_apps { &[] } else { &["--no-apps", "--no-instances"] };
        let child = toolyard(&folder)
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(without)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut node = Self { child, folder, url: String::new() };
        node.url = eventually("the address of a node", || {
            let log = node.log();
            let line = log.get(usize::try_from(before).unwrap()..)?;
            let line = line.lines().find_map(|line| line.strip_prefix("listening on "))?;
            Some(line.to_owned())
        });
        node
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn tools(&self) -> Vec<String> {
        read(modern(&self.url, "tools/list", json!({}))).tool_names()
    }

    /// The text that a tool answers, or that it fails with.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        call(&self.url, tool, arguments)
    }

    /// What `toolyard cluster status --json` prints.
    pub(crate) fn status(&self) -> Value {
        let output = self.run(&["cluster", "status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Starts a command for this node.
    pub(crate) fn spawn(&self, words: &[&str]) -> Child {
        toolyard(&self.folder).args(words).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command for this node.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        toolyard(&self.folder).args(words).output().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program under test, or the one that `TOOLYARD_PROGRAM` names, for figures of a release build.
fn toolyard(folder: &Path) -> Command {
    let program =
        std::env::var_os("TOOLYARD_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_toolyard").into());
    let mut command = Command::new(program);
    command.args(["--config", "config.toml", "--state-dir", "state"]).current_dir(folder).env_clear();
    command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    command
}

pub(crate) fn call(url: &str, tool: &str, arguments: &Value) -> Result<String, String> {
    let reply = read(modern(url, "tools/call", json!({ "name": tool, "arguments": arguments })));
    let message = reply.message();
    let text = message["result"]["content"][0]["text"].as_str().map(str::to_owned);
    match text {
        Some(text) if message["result"]["isError"] != true => Ok(text),
        Some(text) => Err(text),
        None => Err(message.to_string()),
    }
}

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
