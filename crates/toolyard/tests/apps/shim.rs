//! `toolyard stdio` with tokens: it makes its own, a new one for each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use toolyard_proto::token::{Checker, Rules, Secret};

use crate::support::{Agent, Yard, eventually};

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A program with an agent on its stdin and stdout. Killed when dropped.
struct Shim {
    child: Child,
    agent: Agent,
}

impl Shim {
    fn start(command: &mut Command) -> Self {
        let pipe = Stdio::piped;
        let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
        let agent = Agent::of_program(&mut child);
        Self { child, agent }
    }

    fn of(yard: &Yard, token: Option<&str>) -> Self {
        Self::start(yard.command(&["-v", "stdio"]).envs(token.map(|token| ("MCP_AUTH_TOKEN", token))))
    }

    /// The principal that the gateway takes it for, from its list of calls.
    fn principal(&mut self, yard: &Yard) -> String {
        eventually("a call that no gateway's end takes with it", || {
            let id = self.agent.send_call("yard__status", &json!({}));
            (self.agent.answer(id)["result"]["structuredContent"].is_object()).then_some(())
        });
        let (_, report) = yard.run(&["doctor", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let calls = report["report"]["calls"].as_array().unwrap();
        let call = calls.iter().find(|call| call["tool"] == "yard:status").unwrap();
        call["principal"].as_str().unwrap().to_owned()
    }

    /// Ends it and returns its stderr output.
    fn stderr_output(mut self) -> String {
        let _ = self.child.kill();
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        words
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn yard() -> Yard {
    Yard::start(&format!("\n[auth]\nsecret = \"{SECRET}\"\n"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn minted(client: &str, ago: u64) -> String {
    Secret::parse(SECRET).unwrap().mint(client, now() - ago)
}

#[test]
fn stdio_mints_its_own_token_and_is_the_same_client_after_every_restart_of_the_gateway() {
    let mut yard = yard();
    let mut shim = Shim::of(&yard, None);
    let own = format!("client:toolyard-stdio-{}", shim.child.id());
    assert_eq!(shim.principal(&yard), own);
    let first_log = yard.stderr();
    yard.kill();
    // It starts a gateway itself, from the same files; and later another.
    assert_eq!(shim.principal(&yard), own, "at a gateway that it started");
    kill(gateway_of(&yard), Signal::SIGKILL).unwrap();
    assert_eq!(shim.principal(&yard), own, "at yet another");
    let (mut one, mut two) = (Shim::of(&yard, None), Shim::of(&yard, None));
    assert_ne!(one.principal(&yard), two.principal(&yard), "each has a principal of its own");
    let log = std::fs::read_to_string(yard.folder().join("state/gateway.log")).unwrap();
    no_secret_in(&[first_log, log, shim.stderr_output(), one.stderr_output()].concat());
}

#[test]
fn two_programs_of_one_client_both_outlive_their_gateway() {
    let mut yard = yard();
    let tokens = [minted("ann", 5), minted("ann", 6)];
    let mut shims = tokens.map(|token| Shim::of(&yard, Some(&token)));
    for shim in &mut shims {
        assert_eq!(shim.principal(&yard), "client:ann");
    }
    yard.kill();
    for shim in &mut shims {
        assert_eq!(shim.principal(&yard), "client:ann");
    }
}

#[test]
fn a_shim_whose_config_lacks_a_variable_names_it_in_the_error() {
    let yard = yard();
    let config = yard.folder().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(SECRET, "${TOOLYARD_NOT_SET}")).unwrap();
    let mut shim = Shim::of(&yard, None);
    let id = shim.agent.send_call("yard__status", &json!({}));
    let refused = shim.agent.answer(id).to_string();
    assert!(refused.contains("a token is required") && refused.contains("TOOLYARD_NOT_SET"), "{refused}");
}

#[test]
fn an_invalid_config_does_not_stop_a_shim_while_its_secret_can_be_read() {
    let yard = yard();
    let path = yard.folder().join("config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}\n[upstreams.half]\ncomand = \"x\"\n")).unwrap();
    let mut shim = Shim::of(&yard, None);
    shim.agent.call("yard__status", &json!({}));
    std::fs::write(&path, config).unwrap();
    assert_eq!(shim.principal(&yard), format!("client:toolyard-stdio-{}", shim.child.id()));
}

#[test]
fn an_unknown_view_is_not_reported_as_a_token_problem() {
    let yard = yard();
    let mut shim = Shim::start(&mut yard.command(&["stdio", "--upstream", "token-store"]));
    let id = shim.agent.send_call("yard__status", &json!({}));
    let refused = shim.agent.answer(id).to_string();
    assert!(refused.contains("there is no view") && !refused.contains("secret"), "{refused}");
    assert_eq!(shim.child.wait().unwrap().code(), Some(1));
    assert!(!yard.stderr().contains("rejected a token"), "{}", yard.stderr());
}

#[test]
fn a_shim_without_the_secret_names_it_in_the_error() {
    let yard = yard();
    let other = format!("[listen]\nunix = \"{}\"\n", yard.socket().display());
    std::fs::write(yard.folder().join("other.toml"), other).unwrap();
    let mut shim = Shim::start(&mut yard.command_with("other.toml", &["stdio"]));
    let id = shim.agent.send_call("yard__status", &json!({}));
    let refused = shim.agent.answer(id).to_string();
    assert!(refused.contains("a token is required") && refused.contains("[auth]"), "{refused}");
    assert_eq!(shim.child.wait().unwrap().code(), Some(1));
    assert!(yard.stderr().contains("rejected a request without a token"), "{}", yard.stderr());
}

/// Answers a shim and disconnects at once, twice; returns the opening lines that the shim sent.
fn openings(yard: &Yard, token: Option<&str>) -> [Value; 2] {
    let socket = yard.folder().join("front.sock");
    let config = format!("[listen]\nunix = \"{}\"\n\n[auth]\nsecret = \"{SECRET}\"\n", socket.display());
    std::fs::write(yard.folder().join("front.toml"), config).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = yard.command_with("front.toml", &["stdio"]);
    let _shim = Shim::start(command.envs(token.map(|token| ("MCP_AUTH_TOKEN", token))));
    let opening = || {
        let stream = listener.accept().unwrap().0;
        let mut lines = BufReader::new(&stream).lines();
        let opening = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let knock: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let answer = json!({ "jsonrpc": "2.0", "id": knock["id"], "result": {} });
        (&stream).write_all(format!("{answer}\n").as_bytes()).unwrap();
        opening
    };
    [opening(), opening()]
}

#[test]
fn a_shim_that_reconnects_presents_another_token_of_the_same_client() {
    let yard = yard();
    let rules =
        Rules { secrets: vec![Secret::parse(SECRET).unwrap()], window: Rules::WINDOW, skew: Rules::SKEW };
    for given in [None, Some(minted("ann", 5))] {
        let mut checker = Checker::new(rules.clone());
        let openings = openings(&yard, given.as_deref());
        let clients =
            openings.clone().map(|opening| checker.check(opening["token"].as_str().unwrap(), now()));
        let [first, second] =
            clients.map(|used| used.unwrap_or_else(|bad| panic!("{bad}: {openings:?}")).client);
        assert_eq!(first, second);
        match &given {
            None => assert!(first.starts_with("toolyard-stdio-"), "{first}"),
            Some(token) => assert_eq!((first.as_str(), &openings[0]["token"]), ("ann", &json!(token))),
        }
        std::fs::remove_file(yard.folder().join("front.sock")).unwrap();
    }
}

#[test]
fn the_gateway_does_not_inherit_the_token_of_the_shim() {
    let mut yard = yard();
    yard.kill();
    std::fs::remove_file(yard.folder().join("state/gateway.json")).unwrap_or_default();
    let token = minted("ann", 0);
    let mut shim = Shim::of(&yard, Some(&token));
    assert_eq!(shim.principal(&yard), "client:ann");
    let shown = |pid: Pid, what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap();
    let (own, gateway) = (Pid::from_raw(shim.child.id().try_into().unwrap()), gateway_of(&yard));
    for (pid, what) in [(own, "cmdline"), (gateway, "cmdline"), (gateway, "environ")] {
        let shown = String::from_utf8_lossy(&shown(pid, what)).into_owned();
        assert!(!shown.contains("MCP_AUTH_TOKEN") && !shown.contains(&token), "{what}: {shown}");
    }
    let log = std::fs::read_to_string(yard.folder().join("state/gateway.log")).unwrap();
    no_secret_in(&(log + &shim.stderr_output()));
}

/// The process in the address file.
fn gateway_of(yard: &Yard) -> Pid {
    let note = std::fs::read(yard.folder().join("state/gateway.json")).unwrap();
    let pid = serde_json::from_slice::<Value>(&note).unwrap()["pid"].as_i64().unwrap();
    Pid::from_raw(pid.try_into().unwrap())
}

/// A signature is base64 of 32 bytes.
fn no_secret_in(text: &str) {
    let is_code = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
    let words = text.split(|letter| !is_code(letter));
    let long: Vec<&str> = words.filter(|word| word.len() == 44 && word.ends_with('=')).collect();
    assert!(long.is_empty(), "{long:?} in {text}");
}
