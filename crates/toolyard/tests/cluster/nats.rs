//! Real NATS servers: one, three that are one cluster, or one with a leaf.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use data_encoding::BASE64;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::world::eventually;

/// The servers of a world. Each keeps its port and its data when it is started again.
pub(crate) struct Nats {
    servers: Vec<Server>,
    folder: PathBuf,
}

struct Server {
    port: u16,
    config: String,
    child: Option<Child>,
}

/// A port that is free now; what listens there later is started again on the same one.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Nats {
    /// One server, with more config.
    pub(crate) fn one(folder: &Path, more: &str) -> Self {
        let mut nats = Self { servers: Vec::new(), folder: folder.to_owned() };
        nats.add(more);
        nats
    }

    /// Three servers that are one cluster.
    pub(crate) fn three(folder: &Path) -> Self {
        let mut nats = Self { servers: Vec::new(), folder: folder.to_owned() };
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let routes: Vec<String> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        for (at, port) in ports.iter().enumerate() {
            let routes = routes.join(", ");
            nats.add(&format!(
                "server_name: n{at}\ncluster {{ name: yard, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n"
            ));
        }
        nats
    }

    /// A server with `JetStream`, and a leaf of it without. Nodes can use either.
    pub(crate) fn with_leaf(folder: &Path) -> Self {
        let port = free_port();
        let mut nats = Self { servers: Vec::new(), folder: folder.to_owned() };
        nats.start_one(&format!(
            "jetstream {{ store_dir: \"{}\", domain: hub }}\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}\n",
            folder.join("nats-hub").display()
        ));
        nats.start_one(&format!("leafnodes {{ remotes: [ {{ url: \"nats://127.0.0.1:{port}\" }} ] }}\n"));
        nats
    }

    fn add(&mut self, more: &str) {
        let store = self.folder.join(format!("nats-{}", self.servers.len()));
        self.start_one(&format!("jetstream {{ store_dir: \"{}\" }}\n{more}\n", store.display()));
    }

    fn start_one(&mut self, config: &str) {
        let port = free_port();
        let mut text = config.to_owned();
        let _ = writeln!(text, "listen: \"127.0.0.1:{port}\"");
        self.servers.push(Server { port, config: text, child: None });
        self.start(self.servers.len() - 1);
    }

    pub(crate) fn start(&mut self, at: usize) {
        let program = std::env::var_os("TOOLYARD_NATS").expect("`cargo xtask cluster` names nats-server");
        let (config, log) =
            (self.folder.join(format!("nats-{at}.conf")), self.folder.join(format!("nats-{at}.log")));
        std::fs::write(&config, &self.servers[at].config).unwrap();
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child =
            Command::new(program).arg("--config").arg(config).stdout(Stdio::null()).stderr(log).spawn();
        self.servers[at].child = Some(child.unwrap());
    }

    /// Ends a server without a word.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut child = self.servers[at].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends a server, and deletes everything that it has stored.
    pub(crate) fn lose(&mut self, at: usize) {
        self.kill(at);
        std::fs::remove_dir_all(self.folder.join(format!("nats-{at}"))).unwrap();
    }

    /// Stops a server from doing anything, or lets it go on. Its connections stay open.
    pub(crate) fn signal(&self, at: usize, signal: Signal) {
        let child = self.servers[at].child.as_ref().unwrap();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The address of one server.
    pub(crate) fn url(&self, at: usize) -> String {
        format!("nats://127.0.0.1:{}", self.servers[at].port)
    }

    /// The addresses of all, as a value of the config.
    pub(crate) fn urls(&self) -> String {
        let urls: Vec<String> = (0..self.servers.len()).map(|at| format!("\"{}\"", self.url(at))).collect();
        format!("[{}]", urls.join(", "))
    }
}

impl Nats {
    /// How many messages a stream holds. A bucket is a stream with a message for each key.
    pub(crate) fn messages(&self, stream: &str) -> Option<u64> {
        let mut lines = Lines::connect(self.servers[0].port);
        lines.ask(&format!("$JS.API.STREAM.INFO.{stream}"), &json!({}))["state"]["messages"].as_u64()
    }

    /// All that a stream holds, as it is stored.
    pub(crate) fn stored(&self, stream: &str) -> Vec<Vec<u8>> {
        let mut lines = Lines::connect(self.servers[0].port);
        let info = lines.ask(&format!("$JS.API.STREAM.INFO.{stream}"), &json!({}));
        let number = |name: &str| info["state"][name].as_u64().unwrap();
        let mut read = |number: u64| {
            let answer = lines.ask(&format!("$JS.API.STREAM.MSG.GET.{stream}"), &json!({ "seq": number }));
            Some(BASE64.decode(answer["message"]["data"].as_str()?.as_bytes()).unwrap())
        };
        (number("first_seq")..=number("last_seq")).filter_map(&mut read).collect()
    }

    /// Waits for so many messages under a subject.
    pub(crate) fn wait_for_messages(&self, subject: &str, count: usize) {
        let mut lines = Lines::connect(self.servers[0].port);
        lines.0.get_mut().write_all(format!("SUB {subject} 2\r\n").as_bytes()).unwrap();
        (0..count).for_each(|_| drop(lines.next()));
    }
}

/// A client that asks one thing after the other, in the text protocol of NATS.
struct Lines(BufReader<TcpStream>);

impl Lines {
    fn connect(port: u16) -> Self {
        let mut stream = eventually("NATS", || TcpStream::connect(("127.0.0.1", port)).ok());
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"CONNECT {\"verbose\":false,\"headers\":false}\r\nSUB answers 1\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, subject: &str, request: &Value) -> Value {
        let text = request.to_string();
        let request = format!("PUB {subject} answers {}\r\n{text}\r\n", text.len());
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        serde_json::from_slice(&self.next()).unwrap()
    }

    /// The payload of the next message.
    fn next(&mut self) -> Vec<u8> {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.starts_with("PING") {
                self.0.get_mut().write_all(b"PONG\r\n").unwrap();
            } else if line.starts_with("MSG ") {
                let length: usize = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
                let mut payload = vec![0; length + 2];
                self.0.read_exact(&mut payload).unwrap();
                payload.truncate(length);
                return payload;
            }
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        for child in self.servers.iter_mut().filter_map(|server| server.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
