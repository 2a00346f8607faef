//! A gateway in front of servers that each do wrong in one way, all over one transport and in one era, and one
//! good server beside them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::gateway::{Gateway, Home};
use crate::http;
use crate::testkit;
use crate::usage::Usage;
use crate::wire::{Era, Transport};

pub(crate) struct Rogues {
    gateway: Gateway,
    servers: RefCell<HashMap<String, Server>>,
    _home: Home,
}

/// Killed when dropped.
struct Server {
    child: Child,
    words: [String; 3],
    /// Where it listens, with the scheme.
    origin: String,
}

impl Server {
    fn start(words: [String; 3], place: &str) -> Self {
        let mut child =
            Command::new(program()).args(&words).arg(place).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let origin =
            line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{words:?}: {line}"));
        Self { child, words, origin: origin.to_owned() }
    }

    /// Where the previous one was, which has ended by itself.
    fn restart(&mut self) {
        self.child.wait().unwrap();
        let place = self.origin.split_once("://").unwrap().1.to_owned();
        // A socket file remains after its listener has ended.
        let _ = std::fs::remove_file(&place);
        *self = Self::start(self.words.clone(), &place);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rogues {
    pub(crate) fn start(faults: &[&str], transport: Transport, era: Era) -> Self {
        let home = Home::new();
        let mut servers = HashMap::new();
        let mut config = Vec::new();
        for fault in faults {
            let reach = reach(&home, fault, transport, era, &mut servers);
            let era = if era == Era::Legacy { "legacy" } else { "modern" };
            config.push(format!("[upstreams.{fault}]\n{reach}\nera = \"{era}\"\ntimeout = 2\n"));
        }
        config.push(format!("[upstreams.good]\n{}\nera = \"legacy\"\n", child("good", Era::Legacy)));
        // At the default address for apps, another gateway may listen and end while the files are counted.
        config.push("[apps]\nlisten = \"127.0.0.1:0\"\n".to_owned());
        home.write("config.toml", &config.concat());
        let gateway = home.start(&["--config", "config.toml"]);
        Self { gateway, servers: RefCell::new(servers), _home: home }
    }

    pub(crate) fn gateway(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.gateway.id()).unwrap())
    }

    /// Calls `go`; the answer is still to be read.
    pub(crate) fn call(&self, fault: &str, arguments: &Value) -> std::net::TcpStream {
        let call = json!({ "name": format!("{fault}__go"), "arguments": arguments });
        http::modern(&self.gateway.url, "tools/call", call)
    }

    /// Calls `go` and returns its text, or why it failed.
    pub(crate) fn go(&self, fault: &str, arguments: &Value) -> Result<String, String> {
        outcome(self.call(fault, arguments))
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.gateway)
    }

    /// Restarts a server that has died at its old address; a child is restarted by the gateway.
    pub(crate) fn restart(&self, fault: &str) {
        if let Some(server) = self.servers.borrow_mut().get_mut(fault) {
            server.restart();
        }
    }
}

/// The text of a good answer, or why there is none.
pub(crate) fn outcome(stream: std::net::TcpStream) -> Result<String, String> {
    let reply = http::read(stream);
    // Nested too deeply for the reader here: it arrived unchanged.
    if reply.body.contains(&"[".repeat(100_000)) {
        return Ok("well".to_owned());
    }
    // A modern answer is relayed as it comes; a client ignores the other messages in it.
    let own = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let own =
        own.filter_map(|text| serde_json::from_str::<Value>(text).ok()).find(|message| message["id"] == 1);
    let message = own.unwrap_or_else(|| reply.message());
    let result = &message["result"];
    let text = [&result["content"][0]["text"], &message["error"]["message"]];
    let text = text.iter().find_map(|text| text.as_str()).unwrap_or_default().to_owned();
    if result["isError"] == true || message.get("error").is_some() { Err(text) } else { Ok(text) }
}

fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| testkit::build("rogue").to_str().unwrap().to_owned())
}

fn word(era: Era) -> &'static str {
    if era == Era::Legacy { "legacy" } else { "modern" }
}

fn child(fault: &str, era: Era) -> String {
    format!("command = {:?}\nargs = [\"{fault}\", \"{}\", \"stdio\"]", program(), word(era))
}

/// How the gateway reaches a server with that fault, which is started if it is not a child.
fn reach(
    home: &Home,
    fault: &str,
    transport: Transport,
    era: Era,
    servers: &mut HashMap<String, Server>,
) -> String {
    let socket = home.path(&format!("{fault}.sock"));
    let (door, place, more) = match transport {
        Transport::Stdio => return child(fault, era),
        Transport::Tcp => ("tcp", "127.0.0.1:0", ""),
        Transport::Unix => ("unix", socket.to_str().unwrap(), ""),
        Transport::Http => ("http", "127.0.0.1:0", "/mcp"),
        Transport::Sse => ("sse", "127.0.0.1:0", "/sse\"\ntransport = \"sse"),
    };
    let server = Server::start([fault, word(era), door].map(str::to_owned), place);
    let url = format!("url = \"{}{more}\"", server.origin);
    servers.insert(fault.to_owned(), server);
    url
}
