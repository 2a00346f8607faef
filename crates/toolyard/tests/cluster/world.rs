//! A cluster on this machine: a real nats-server and gateways, each with folders of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{modern, read};

/// Every wait ends.
const PATIENCE: Duration = Duration::from_mins(2);
const KEY: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct World {
    folder: TempDir,
    nats_port: u16,
    nats: Option<Child>,
    nodes: BTreeMap<&'static str, Node>,
}

pub(crate) struct Node {
    child: Child,
    folder: PathBuf,
    pub(crate) url: String,
}

impl World {
    pub(crate) fn new() -> Self {
        // The port is free now; nats-server is started again on the same one.
        let nats_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let mut world = Self { folder, nats_port, nats: None, nodes: BTreeMap::new() };
        world.start_nats();
        world
    }

    pub(crate) fn start_nats(&mut self) {
        let program = std::env::var_os("TOOLYARD_NATS").expect("`cargo xtask cluster` names nats-server");
        let log = std::fs::File::options().create(true).append(true).open(self.path("nats.log")).unwrap();
        let nats = Command::new(program)
            .args(["--jetstream", "--addr", "127.0.0.1", "--port", &self.nats_port.to_string()])
            .arg("--store_dir")
            .arg(self.path("nats"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.nats = Some(nats);
    }

    pub(crate) fn kill_nats(&mut self) {
        let mut nats = self.nats.take().unwrap();
        nats.kill().unwrap();
        nats.wait().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a node with these programs as upstreams; `more` is appended to its section `[cluster]`.
    pub(crate) fn start(&mut self, name: &'static str, upstreams: &[&str], more: &str) {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut config = format!(
            "[cluster]\nnats = \"nats://127.0.0.1:{}\"\nnode = \"{name}\"\nkey = \"{KEY}\"\nlisten = \"127.0.0.1:0\"\n{more}\n",
            self.nats_port
        );
        for id in upstreams {
            let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/server.py");
            let calls = self.calls_file(id);
            let _ = writeln!(
                config,
                "[upstreams.{id}]\ncommand = \"python3\"\nargs = [\"{}\"]\nenv = {{ CALLS = \"{}\" }}",
                server.display(),
                calls.display()
            );
        }
        std::fs::write(folder.join("config.toml"), config).unwrap();
        self.nodes.insert(name, Node::start(folder));
    }

    fn calls_file(&self, id: &str) -> PathBuf {
        self.path(&format!("calls-{id}"))
    }

    /// The calls that reached an upstream: the process that answered, and the arguments.
    pub(crate) fn calls(&self, id: &str) -> Vec<(u64, Value)> {
        let text = std::fs::read_to_string(self.calls_file(id)).unwrap_or_default();
        let call = |line: &str| {
            let call: Value = serde_json::from_str(line).unwrap();
            (call[0].as_u64().unwrap(), call[1].clone())
        };
        text.lines().map(call).collect()
    }

    pub(crate) fn node(&self, name: &str) -> &Node {
        &self.nodes[name]
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.values().map(|node| node.url.clone()).collect()
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
        if let Some(mut nats) = self.nats.take() {
            let _ = nats.kill();
            let _ = nats.wait();
        }
    }
}

impl Node {
    fn start(folder: PathBuf) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let before = std::fs::metadata(folder.join("log")).map_or(0, |log| log.len());
        let child = toolyard(&folder)
            .args(["serve", "--listen", "127.0.0.1:0", "--no-apps", "--no-instances"])
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

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
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
        let output = toolyard(&self.folder).args(["cluster", "status", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn toolyard(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
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
