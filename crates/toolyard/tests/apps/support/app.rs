//! An app as existing ones are: newline JSON over a socket, camelCase, numbers as correlation ids.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{PATIENCE, Yard};

/// How an app connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Tcp,
    Unix,
}

impl Door {
    pub(crate) const ALL: [Self; 2] = [Self::Tcp, Self::Unix];
}

/// Where an app waits to be dialled.
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// Removed with the test.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(crate) fn tcp() -> Self {
        Self::Tcp(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn unix(path: PathBuf) -> Self {
        Self::Unix(UnixListener::bind(&path).unwrap(), path)
    }

    pub(crate) fn endpoint(&self) -> String {
        match self {
            Self::Tcp(listener) => format!("tcp://{}", listener.local_addr().unwrap()),
            Self::Unix(_, path) => format!("unix://{}", path.display()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The other end of a connection to the gateway.
pub(crate) struct App {
    write: Box<dyn Write + Send>,
    lines: Receiver<Value>,
    close: Box<dyn Fn() + Send>,
    pub(crate) session: String,
}

pub(crate) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}"), "inputSchema": { "type": "object", "properties": {} } })
}

impl App {
    pub(crate) fn connect(yard: &Yard, door: Door) -> Self {
        match door {
            Door::Tcp => {
                let stream = TcpStream::connect(yard.apps_tcp()).unwrap();
                let other = stream.try_clone().unwrap();
                Self::over(stream.try_clone().unwrap(), stream, move || {
                    let _ = other.shutdown(std::net::Shutdown::Both);
                })
            }
            Door::Unix => {
                let stream = UnixStream::connect(yard.apps_socket()).unwrap();
                let other = stream.try_clone().unwrap();
                Self::over(stream.try_clone().unwrap(), stream, move || {
                    let _ = other.shutdown(std::net::Shutdown::Both);
                })
            }
        }
    }

    fn over(
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
        close: impl Fn() + Send + 'static,
    ) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(read).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { write: Box::new(write), lines, close: Box::new(close), session: String::new() }
    }

    /// An app that listens: accepts a connection and registers.
    pub(crate) fn accept(listener: &Listener, name: &str, tools: &[&str]) -> Self {
        let mut app = match listener {
            Listener::Tcp(listener) => {
                let stream = listener.accept().unwrap().0;
                let other = stream.try_clone().unwrap();
                Self::over(stream.try_clone().unwrap(), stream, move || {
                    let _ = other.shutdown(std::net::Shutdown::Both);
                })
            }
            Listener::Unix(listener, _) => {
                let stream = listener.accept().unwrap().0;
                let other = stream.try_clone().unwrap();
                Self::over(stream.try_clone().unwrap(), stream, move || {
                    let _ = other.shutdown(std::net::Shutdown::Both);
                })
            }
        };
        app.greet(name, tools);
        app
    }

    /// Connects and registers these tools.
    pub(crate) fn register(yard: &Yard, door: Door, name: &str, tools: &[&str]) -> Self {
        let mut app = Self::connect(yard, door);
        app.greet(name, tools);
        app
    }

    fn greet(&mut self, name: &str, tools: &[&str]) {
        let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
        self.send(&json!({ "type": "register", "appName": name, "tools": tools }));
        let answer = self.next();
        assert_eq!(answer["type"], "registered", "{answer}");
        assert_eq!(answer["refused"], json!([]), "{answer}");
        answer["sessionId"].as_str().unwrap().clone_into(&mut self.session);
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).unwrap();
        self.write.flush().unwrap();
    }

    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a message from the gateway")
    }

    /// The next message within this time.
    pub(crate) fn next_within(&self, wait: Duration) -> Option<Value> {
        self.lines.recv_timeout(wait).ok()
    }

    /// The next call.
    pub(crate) fn invocation(&self) -> Value {
        loop {
            let message = self.next();
            if message["type"] == "toolInvocation" {
                return message;
            }
        }
    }

    pub(crate) fn answer(&mut self, invocation: &Value, data: &Value) {
        let result = json!({ "success": true, "data": data, "error": null });
        self.respond(invocation, &result);
    }

    pub(crate) fn respond(&mut self, invocation: &Value, result: &Value) {
        let id = &invocation["correlationId"];
        // Existing apps end an answer with two line ends.
        let line =
            format!("{}\n\n", json!({ "type": "toolResponse", "correlationId": id, "result": result }));
        self.write(line.as_bytes());
    }

    /// Answers every call with its tool and parameters until the gateway disconnects.
    pub(crate) fn echo(mut self) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            while let Ok(message) = self.lines.recv() {
                if message["type"] == "toolInvocation" {
                    let data = json!({ "tool": message["tool"], "parameters": message["parameters"] });
                    let id = &message["correlationId"];
                    let result = json!({ "success": true, "data": data, "error": null });
                    let line = json!({ "type": "toolResponse", "correlationId": id, "result": result });
                    if self.write.write_all(format!("{line}\n").as_bytes()).is_err() {
                        return;
                    }
                }
            }
        })
    }

    /// Whether the gateway has disconnected.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.lines.recv_timeout(PATIENCE), Err(std::sync::mpsc::RecvTimeoutError::Disconnected))
    }
}

impl Drop for App {
    /// Closes the connection as the system does when a process ends.
    fn drop(&mut self) {
        (self.close)();
    }
}
