//! A client that runs `toolyard stdio`, as in its config.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gateway::Home;

const PATIENCE: Duration = Duration::from_secs(20);

/// A running shim. Killed when dropped.
pub(crate) struct Shim {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Shim {
    /// With `config.toml` and `state` of that home.
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let own = ["stdio", "--config", "config.toml", "--state-dir", "state"];
        Self::run(home.toolyard(&[&own, arguments].concat()))
    }

    /// Any command of a client's config.
    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = channel();
        // A line on stdout that is not a message makes the thread panic, and the test with it.
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap();
                let message = serde_json::from_str(&line);
                sender.send(message.unwrap_or_else(|_| panic!("not a message: {line}"))).unwrap_or_default();
            }
        });
        Self { child, stdin, lines }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.stdin.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn next(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.answer(message["id"].as_u64().unwrap())
    }

    /// The answer to a request; other messages are ignored.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.next();
            if line["id"] == id && line.get("method").is_none() {
                return line;
            }
            assert!(line.get("method").is_some(), "an answer to nothing: {line}");
        }
    }

    /// As a client of 2025-11-25 does.
    pub(crate) fn shake_hands(&mut self) {
        let info = json!({ "name": "t", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let greeting =
            self.ask(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25", "{greeting}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Closes its stdin.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Closes its stdin: the exit code, and its remaining messages.
    pub(crate) fn close(mut self) -> (Option<i32>, Vec<Value>) {
        self.hang_up();
        self.wait()
    }

    /// Waits for its end: the exit code, and its messages until then.
    pub(crate) fn wait(self) -> (Option<i32>, Vec<Value>) {
        self.wait_with(|_| {})
    }

    /// The same, with a look at its stderr output.
    pub(crate) fn wait_with(mut self, look: impl FnOnce(&str)) -> (Option<i32>, Vec<Value>) {
        let mut messages = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => messages.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        look(&words);
        (self.child.wait().unwrap().code(), messages)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
