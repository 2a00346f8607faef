//! Instances: the testkit's fixture, a set of tools of the SDK, as a program that is announced by a file.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolyard_tool::{Door, Server, ToolSet};

use crate::support::{Proxy, Yard};
use crate::testkit;

pub(crate) struct Instance {
    child: Child,
    pub(crate) file: PathBuf,
}

impl Instance {
    /// Starts one that speaks the eras that `era` names, and writes its file.
    pub(crate) fn start(yard: &Yard, id: &str, era: &str) -> Self {
        let (child, port) = listening(era);
        Self::announced(yard, (id, id), child, port)
    }

    /// The same, with a name that differs from its id.
    pub(crate) fn start_as(yard: &Yard, id: &str, name: &str) -> Self {
        let (child, port) = listening("both");
        Self::announced(yard, (id, name), child, port)
    }

    /// The same, through a proxy that records the requests.
    pub(crate) fn start_behind_proxy(yard: &Yard, id: &str, era: &str) -> (Self, Proxy) {
        let (child, port) = listening(era);
        let proxy = Proxy::to(port);
        (Self::announced(yard, (id, id), child, proxy.port), proxy)
    }

    fn announced(yard: &Yard, (id, name): (&str, &str), child: Child, port: u16) -> Self {
        let about = json!({ "id": id, "name": name, "directory": "/srv/shop", "port": port, "has_package_json": true,
            "process_info": { "pid": child.id(), "executable": "fixture" } });
        let file = yard.write_instance("toolyard", &format!("{id}.json"), &about.to_string());
        Self { child, file }
    }

    /// Writes another name into its file, and changes nothing else.
    pub(crate) fn rename(&self, yard: &Yard, name: &str) {
        let mut about: Value = serde_json::from_slice(&std::fs::read(&self.file).unwrap()).unwrap();
        about["name"] = json!(name);
        let file = self.file.file_name().unwrap().to_str().unwrap();
        yard.write_instance("toolyard", file, &about.to_string());
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listening(era: &str) -> (Child, u16) {
    let (child, address) = fixture(&["--listen", "127.0.0.1:0", "--era", era], "http://");
    (child, address.rsplit_once(':').unwrap().1.parse().unwrap())
}

/// Starts the fixture and waits until it listens; returns its address.
pub(crate) fn fixture(arguments: &[&str], scheme: &str) -> (Child, String) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(PROGRAM.get_or_init(|| testkit::build("fixture")));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some((_, address)) = line.split_once(&format!("listening on {scheme}")) {
            break address.trim().to_owned();
        }
    };
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    (child, address)
}

/// A set of tools of the SDK that the test itself serves, so that it can look inside.
pub(crate) struct Hosted {
    /// Dropped before the runtime that it runs in.
    _server: Server,
    _runtime: Runtime,
}

impl Hosted {
    pub(crate) fn start<S: Send + Sync + 'static>(yard: &Yard, id: &str, set: ToolSet<S>) -> Self {
        let runtime = Runtime::new().unwrap();
        let starting = Server::start(set, [Door::Http("127.0.0.1:0".into())]);
        let server = runtime.block_on(starting).unwrap();
        let about = json!({ "id": id, "name": id, "path": "/srv", "port": server.addresses()[0].port(),
            "pid": std::process::id() });
        yard.write_instance("brummer", &format!("{id}.json"), &about.to_string());
        Self { _server: server, _runtime: runtime }
    }
}
