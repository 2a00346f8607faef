//! A gateway with listeners for apps, apps made of plain lines, and agents.

mod agent;
mod app;
mod mortal;
mod proxy;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

pub(crate) use agent::Agent;
pub(crate) use app::{App, Door, Listener, tool};
pub(crate) use mortal::Mortal;
pub(crate) use proxy::Proxy;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway in an empty home. Killed when dropped.
pub(crate) struct Yard {
    folder: TempDir,
    child: Child,
    /// A file and not a pipe: what it printed before it answers can be read as soon as it has answered.
    stderr: NamedTempFile,
    note: Value,
    config: String,
    tokens: Mutex<Vec<String>>,
}

/// How a program gets the path of its config.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Flag,
    Variable,
}

/// A connection that speaks HTTP.
pub(crate) struct Http {
    pub(crate) stream: TcpStream,
    token: Option<String>,
}

impl Http {
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Lists tools; returns the status.
    pub(crate) fn list(&mut self) -> u16 {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            token.unwrap_or_default()
        );
        self.stream.write_all(head.as_bytes()).unwrap();
        let mut read = BufReader::new(&self.stream);
        let mut status = String::new();
        read.read_line(&mut status).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            read.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        read.read_exact(&mut vec![0; length]).unwrap();
        status.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

impl Yard {
    /// Starts a gateway with these keys in `[apps]` and further config.
    pub(crate) fn start(apps: &str) -> Self {
        Self::start_with(apps, "", &[])
    }

    /// The same, with more config before it, and with variables.
    pub(crate) fn start_with(apps: &str, before: &str, variables: &[(&str, &str)]) -> Self {
        // Discovery on this machine is off, except in its own tests.
        let scan = if apps.contains("scan = ") { "" } else { "scan = false\n" };
        let rest = format!("[apps]\nlisten = \"127.0.0.1:0\"\n{scan}{apps}");
        Self::start_as(before, &rest, &[], variables)
    }

    /// Starts a gateway with the listener for apps at this address.
    pub(crate) fn start_with_apps_at(address: &str) -> Self {
        Self::start_as("", &format!("[apps]\nscan = false\nlisten = \"{address}\""), &[], &[])
    }

    /// Starts a gateway with the default config and these flags.
    pub(crate) fn start_with_flags(flags: &[&str]) -> Self {
        Self::start_as("", "", flags, &[])
    }

    fn start_as(before: &str, rest: &str, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("{before}[listen]\ntcp = \"127.0.0.1:0\"\n\n{rest}\n");
        let mut command = toolyard(&folder, flags);
        let (child, stderr) = spawn_with(&folder, &config, command.envs(variables.iter().copied()));
        let mut yard = Self { folder, child, stderr, note: Value::Null, config, tokens: Mutex::default() };
        yard.wait_for_note();
        yard
    }

    /// Starts a gateway with the config of the proxy that Toolyard replaces, which has no keys for clients.
    pub(crate) fn of_proxy(proxy: &Value, way: Way) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".mcpproxy.json"), proxy.to_string()).unwrap();
        let common = ["--listen", "127.0.0.1:0", "--state-dir", "state"];
        let (arguments, variables) = match way {
            Way::Flag => ([&common[..], &["--config", ".mcpproxy.json"]].concat(), vec![]),
            Way::Variable => (common.to_vec(), vec![("MCP_CONFIG", ".mcpproxy.json")]),
        };
        let (child, stderr) = run(toolyard(&folder, &arguments).envs(variables));
        let config = String::new();
        let mut yard = Self { folder, child, stderr, note: Value::Null, config, tokens: Mutex::default() };
        yard.wait_for_note();
        yard
    }

    /// An agent at the local socket.
    pub(crate) fn local_agent(&self) -> Agent {
        Agent::local(self.note["socket"].as_str().unwrap().as_ref())
    }

    /// The same in a network namespace that has only loopback, with the shell command `beside` next to it. It can only be
    /// reached over local sockets.
    pub(crate) fn start_offline(apps: &str, beside: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("[apps]\nlisten = \"127.0.0.1:0\"\nscan = false\n{apps}\n");
        let script =
            format!("ip link set lo up; test -z \"$(ip route)\" || exit 1; {beside} & exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["-rn", "sh", "-c", &script]);
        at_home(&folder, &mut command);
        let (child, stderr) = spawn_with(&folder, &config, command.arg(env!("CARGO_BIN_EXE_toolyard")));
        let mut yard = Self { folder, child, stderr, note: Value::Null, config, tokens: Mutex::default() };
        yard.wait_for_note();
        yard
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it and starts it again; apps find it where it was.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let apps = self.note["apps"].as_str().unwrap().strip_prefix("tcp://").unwrap();
        let listen = self.note["tcp"].as_str().unwrap().strip_prefix("tcp://").unwrap();
        let config = self.config.replacen("127.0.0.1:0", listen, 1).replacen("127.0.0.1:0", apps, 1);
        std::fs::remove_file(self.folder.path().join("state/gateway.json")).unwrap_or_default();
        (self.child, self.stderr) = spawn_with(&self.folder, &config, &mut toolyard(&self.folder, &[]));
        self.wait_for_note();
    }

    /// Another config, which is applied at once.
    pub(crate) fn reconfigure(&self, apps: &str) {
        let own = self.config.split("[apps.endpoints]").next().unwrap_or_default();
        std::fs::write(self.folder.path().join("config.toml"), format!("{own}{apps}\n")).unwrap();
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).unwrap();
    }

    /// The folder of the test.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    fn wait_for_note(&mut self) {
        let path = self.folder.path().join("state/gateway.json");
        self.note =
            eventually("the gateway's note", || serde_json::from_slice(&std::fs::read(&path).ok()?).ok());
    }

    /// The value under this key of its address file.
    pub(crate) fn note(&self, key: &str) -> &Value {
        &self.note[key]
    }

    /// The TCP address for newline JSON-RPC.
    pub(crate) fn tcp(&self) -> &str {
        self.note["tcp"].as_str().unwrap().strip_prefix("tcp://").unwrap()
    }

    pub(crate) fn apps_tcp(&self) -> String {
        self.note["apps"].as_str().unwrap().strip_prefix("tcp://").unwrap().to_owned()
    }

    /// The local socket for newline JSON-RPC.
    pub(crate) fn socket(&self) -> PathBuf {
        self.note["socket"].as_str().unwrap().into()
    }

    pub(crate) fn apps_socket(&self) -> PathBuf {
        self.note["apps_socket"].as_str().unwrap().into()
    }

    /// Everything it has printed on stderr.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.stderr.path()).unwrap()
    }

    /// A fresh token, made by the program. Programs use the last timestamp plus one, so here they are made one at a time.
    pub(crate) fn token(&self, client: &str) -> String {
        let made = || self.run(&["token", "--client", client]).1.trim().to_owned();
        let mut used = self.tokens.lock();
        let token = eventually("the next second", || Some(made()).filter(|token| !used.contains(token)));
        used.push(token.clone());
        token
    }

    /// A command beside the running gateway.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_with("config.toml", arguments)
    }

    /// The same with another config.
    pub(crate) fn command_with(&self, config: &str, arguments: &[&str]) -> Command {
        let own = ["--state-dir", "state", "--config", config];
        toolyard(&self.folder, &[&own, arguments].concat())
    }

    /// Runs a command that ends by itself: its exit code, and what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the instances of a program write their files.
    pub(crate) fn instance_folder(&self, program: &str) -> PathBuf {
        let folder = self.folder.path().join(program).join("instances");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The output of `toolyard stdio` on stdout and stderr for one line, with this token in its environment.
    pub(crate) fn stdio(&self, token: Option<&str>, line: &Value) -> (String, String) {
        let own = ["--state-dir", "state", "--config", "config.toml", "stdio"];
        let mut command = toolyard(&self.folder, &own);
        command.envs(token.map(|token| ("MCP_AUTH_TOKEN", token)));
        let pipe = Stdio::piped;
        let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    /// Writes a file as an instance does.
    pub(crate) fn write_instance(&self, program: &str, name: &str, text: &str) -> PathBuf {
        let folder = self.instance_folder(program);
        let (draft, file) = (folder.join(format!(".tmp-{name}")), folder.join(name));
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, &file).unwrap();
        file
    }

    /// One connection to the HTTP listener.
    pub(crate) fn http(&self, token: Option<&str>) -> Http {
        let address = self.note["http"].as_str().unwrap().strip_prefix("http://").unwrap();
        Http { stream: TcpStream::connect(address).unwrap(), token: token.map(str::to_owned) }
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::new(self)
    }
}

fn toolyard(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
    at_home(folder, command.args(arguments));
    command
}

/// A program that knows nothing but the folder.
fn at_home(folder: &TempDir, command: &mut Command) {
    command.current_dir(folder.path()).env_clear().env("HOME", folder.path());
    command.env("XDG_RUNTIME_DIR", folder.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
}

fn spawn_with(folder: &TempDir, config: &str, command: &mut Command) -> (Child, NamedTempFile) {
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    run(command.args(["--listen", "127.0.0.1:0", "--state-dir", "state", "--config", "config.toml"]))
}

fn run(command: &mut Command) -> (Child, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let stderr = File::options().append(true).open(file.path()).unwrap();
    (command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap(), file)
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- stderr of the gateway:\n{}", self.stderr());
        }
    }
}

/// Whether every single time is checked, and not only the median: on a machine that does nothing else.
pub(crate) fn checks_each_time() -> bool {
    std::env::var_os("TOOLYARD_CHECK_EACH_TIME").is_some()
}

/// Waits until something holds.
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

pub(crate) fn eventually_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
