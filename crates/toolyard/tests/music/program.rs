//! The program, and a client that sends it a line for each message.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A running program; it does not outlive its test.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn toolyard(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
    command.args(words).current_dir(home).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("XDG_CACHE_HOME", home.join("cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts it and waits until it prints its address.
pub(crate) fn listening(home: &Path, words: &[&str]) -> (Program, String) {
    let mut child = toolyard(home, words).spawn().unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert!(printed.read_line(&mut line).unwrap() > 0, "it ended");
    }
    // Its output must be read from now on.
    std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
    (Program(child), line["listening on ".len()..].trim().to_owned())
}

/// A client of some door.
pub(crate) struct Client {
    read: Box<dyn BufRead>,
    write: Box<dyn Write>,
    sent: u64,
    _program: Option<Program>,
}

impl Client {
    pub(crate) fn stdio(home: &Path, words: &[&str]) -> (Self, u32) {
        Self::spawn(toolyard(home, words))
    }

    /// Of a command that ends up as the program.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::spawn(command).0
    }

    fn spawn(mut command: Command) -> (Self, u32) {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (read, write) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let id = child.id();
        (Self::open(read, write, Some(Program(child))), id)
    }

    pub(crate) fn tcp(address: &str, program: impl Into<Option<Program>>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self::open(stream.try_clone().unwrap(), stream, program.into())
    }

    pub(crate) fn unix(path: &Path, program: Program) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self::open(stream.try_clone().unwrap(), stream, Some(program))
    }

    fn open(read: impl Read + 'static, write: impl Write + 'static, program: Option<Program>) -> Self {
        let read = Box::new(BufReader::new(read));
        let mut client = Self { read, write: Box::new(write), sent: 0, _program: program };
        let about = json!({ "name": "test", "version": "1" });
        client.request(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about }),
        );
        client
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        // A killed process reads nothing.
        let _ = writeln!(self.write, "{request}");
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        loop {
            let mut line = String::new();
            assert!(self.read.read_line(&mut line).unwrap() > 0, "it left");
            let message: Value = serde_json::from_str(&line).expect("nothing but messages");
            if message["id"] == self.sent {
                return message["result"].clone();
            }
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }
}
