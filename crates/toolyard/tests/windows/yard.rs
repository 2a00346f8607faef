//! A config set of its own for each test, and the processes that belong to it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolyard");
/// Wine is slow, and so is a machine that does other things.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits for a condition that has no better sign.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONGEST, "{what}: not within {LONGEST:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) struct Yard {
    home: tempfile::TempDir,
}

impl Yard {
    /// `upstreams` is added to a config with listeners of its own; `PROGRAM` in it is ours.
    pub(crate) fn new(upstreams: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let doors = "[listen]\nhttp = '127.0.0.1:0'\n[apps]\nlisten = false\n";
        let config = format!("{doors}{}", upstreams.replace("PROGRAM", PROGRAM));
        std::fs::write(home.path().join("yard.toml"), config).unwrap();
        Self { home }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("--config").arg(self.home.path().join("yard.toml"));
        command.env("APPDATA", self.home.path()).env("LOCALAPPDATA", self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A gateway that has printed its address.
    pub(crate) fn serve(&self) -> Gateway {
        let mut child = self.command().arg("serve").spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, received) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *received.lock() += &format!("{line}\n");
            }
        });
        let gateway = Gateway { child, log };
        gateway.wait_to_say("listening on http://");
        gateway
    }

    pub(crate) fn shim(&self) -> Shim {
        let mut child = self.command().arg("stdio").stderr(Stdio::inherit()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut shim = Shim { child, stdin, lines, next: 0 };
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let id = shim.ask("initialize", &params);
        assert_eq!(shim.answer(id)["serverInfo"]["name"], "toolyard");
        shim.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        shim
    }

    fn gateway_file(&self) -> Option<PathBuf> {
        let folders = std::fs::read_dir(self.home.path().join("toolyard")).ok()?;
        folders.flatten().map(|folder| folder.path().join("gateway.json")).find(|file| file.is_file())
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.gateway_file().is_some()
    }

    /// The content of `gateway.json`.
    pub(crate) fn announced(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.gateway_file().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn socket(&self, key: &str) -> PathBuf {
        self.announced()[key].as_str().unwrap().into()
    }
}

/// Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Gateway {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_to_say(&self, words: &str) {
        let begun = Instant::now();
        while !self.log.lock().contains(words) {
            let log = self.log.lock().clone();
            assert!(begun.elapsed() < LONGEST, "`{words}` is missing from its log:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client at `toolyard stdio`, past its handshake.
pub(crate) struct Shim {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Shim {
    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    pub(crate) fn ask_tool(&mut self, name: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    /// The result of the request of this id; whatever else comes meanwhile is left.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.lines.recv_timeout(LONGEST).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let id = self.ask_tool(name, arguments);
        self.answer(id)
    }

    pub(crate) fn tools(&mut self) -> Vec<String> {
        let id = self.ask("tools/list", &json!({}));
        let answer = self.answer(id);
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        answer["tools"].as_array().unwrap().iter().map(name).collect()
    }

    /// As a client that is done; the exit code.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
