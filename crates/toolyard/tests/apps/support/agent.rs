//! An agent that speaks lines of JSON-RPC: stateless requests, or a session of 2025-11-25.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, Yard};

pub(crate) struct Agent {
    stream: Box<dyn Write + Send>,
    close: Box<dyn Fn() + Send>,
    lines: Receiver<Value>,
    /// Answers that were not asked for yet.
    answers: Vec<Value>,
    /// Messages that are not answers, and when they arrived.
    pub(crate) received: Vec<(Instant, Value)>,
    last: u64,
    is_legacy: bool,
}

impl Agent {
    pub(crate) fn new(yard: &Yard) -> Self {
        Self::connect(yard.tcp())
    }

    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let other = stream.try_clone().unwrap();
        let close = move || other.shutdown(Shutdown::Both).unwrap();
        Self::over(stream.try_clone().unwrap(), stream, close)
    }

    pub(crate) fn local(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        let other = stream.try_clone().unwrap();
        let close = move || other.shutdown(Shutdown::Both).unwrap();
        Self::over(stream.try_clone().unwrap(), stream, close)
    }

    /// An agent on stdin and stdout of a program, as in a client's config.
    pub(crate) fn of_program(child: &mut Child) -> Self {
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::over(stdout, stdin, || {})
    }

    fn over(
        read: impl Read + Send + 'static,
        stream: impl Write + Send + 'static,
        close: impl Fn() + Send + 'static,
    ) -> Self {
        let (read, stream, close) = (BufReader::new(read), Box::new(stream), Box::new(close));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in read.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { stream, close, lines, answers: Vec::new(), received: Vec::new(), last: 0, is_legacy: false }
    }

    /// A session in this view.
    pub(crate) fn in_view(yard: &Yard, view: &str) -> Self {
        let mut agent = Self::new(yard);
        agent.write(&json!({ "toolyard": 1, "view": view }));
        agent.shake_hands()
    }

    /// Opens a session as legacy clients do, so that changes are announced.
    pub(crate) fn shake_hands(self) -> Self {
        self.shake_hands_with(&json!({}))
    }

    /// The same, as a client with these capabilities.
    pub(crate) fn shake_hands_with(mut self, capabilities: &Value) -> Self {
        let info = json!({ "name": "t", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
        self.is_legacy = true;
        let greeting = self.ask("initialize", params);
        assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25", "{greeting}");
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self
    }

    /// Disconnects.
    pub(crate) fn leave(self) {
        (self.close)();
    }

    pub(crate) fn write(&mut self, message: &Value) {
        self.write_text(&format!("{message}\n"));
    }

    /// Writes raw bytes.
    pub(crate) fn write_text(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Sends a request; returns its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.last += 1;
        if !self.is_legacy {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        self.write(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        self.last
    }

    pub(crate) fn send_call(&mut self, name: &str, arguments: &Value) -> u64 {
        self.send("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.swap_remove(at);
            }
            let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
            self.keep(line);
        }
    }

    /// The next line, of any kind.
    pub(crate) fn answer_or_refusal(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("some word")
    }

    /// There is no answer that was not requested, or not read.
    pub(crate) fn nothing_is_left(&mut self) {
        self.changes_within(Duration::from_millis(100));
        assert!(self.answers.is_empty(), "answers to nothing: {:?}", self.answers);
    }

    fn keep(&mut self, line: Value) {
        if line.get("method").is_some() {
            self.received.push((Instant::now(), line));
        } else {
            assert!(self.answers.iter().all(|other| other["id"] != line["id"]), "answered twice: {line}");
            self.answers.push(line);
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The result of a call.
    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let id = self.send_call(name, arguments);
        let mut answer = self.answer(id);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// The message of a failed call.
    pub(crate) fn failure(&mut self, name: &str) -> String {
        let result = self.call(name, &json!({}));
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The names of all tools but the built-in ones, in order.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}));
        let names = answer["result"]["tools"].as_array().unwrap().iter();
        let names = names.map(|tool| tool["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> =
            names.filter(|name| !name.starts_with("yard__") && !name.starts_with("dev__")).collect();
        names.sort();
        names
    }

    /// Waits until these are the tools.
    pub(crate) fn wait_for_tools(&mut self, expected: &[&str]) {
        let mut tools = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            tools = self.tools();
            if tools == expected {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not in time: {expected:?}, but {tools:?}");
    }

    /// How many `list_changed` notifications have arrived so far, after listening for this long.
    pub(crate) fn changes_within(&mut self, wait: Duration) -> usize {
        let deadline = Instant::now() + wait;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.keep(line);
        }
        self.received.iter().filter(|(_, line)| line["method"] == "notifications/tools/list_changed").count()
    }

    /// Waits for a message of this method that is not an answer, and removes it from `received`.
    pub(crate) fn next_received(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.received.iter().position(|(_, line)| line["method"] == method) {
                return self.received.remove(at).1;
            }
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {method}"));
            self.keep(line);
        }
    }

    /// Waits until changed lists are announced.
    fn wait_for_change(&mut self) {
        self.next_received("notifications/tools/list_changed");
    }

    /// Waits until changed lists are announced and this holds of the tools. Without an announcement, nothing is
    /// checked.
    pub(crate) fn wait_for_news(&mut self, is_so: impl Fn(&[String]) -> bool) {
        loop {
            self.wait_for_change();
            if is_so(&self.tools()) {
                return;
            }
        }
    }

    /// What is known of an upstream.
    pub(crate) fn upstream(&mut self, id: &str) -> Value {
        let result = self.call("yard__upstreams", &json!({}));
        let upstreams = result["structuredContent"]["upstreams"].as_array().unwrap().iter();
        upstreams.into_iter().find(|upstream| upstream["id"] == id).cloned().unwrap_or_default()
    }
}
