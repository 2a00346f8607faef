//! Sign-ins at a server that several nodes have in their config: one counts at all of them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use data_encoding::BASE64_NOPAD;
use serde_json::{Value, json};

use super::bare::{get, request};
use super::http::{Reply, read, send};
use super::world::{Setup, World, eventually};

/// A server at an address, `hosted`, that requires a sign-in.
pub(crate) struct Protected {
    child: Child,
    grants: PathBuf,
    /// The address of its authorization server.
    base: String,
    pub(crate) config: String,
}

impl Protected {
    fn start(world: &World) -> Self {
        Self::start_with(world, &[])
    }

    /// One that requires none.
    pub(crate) fn open(world: &World) -> Self {
        Self::start_with(world, &["open"])
    }

    fn start_with(world: &World, words: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/protected.py");
        let grants = world.path("grants");
        let mut command = Command::new("python3");
        let mut child = command.arg(program).arg(&grants).args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let base = format!("http://127.0.0.1:{}", port.trim());
        let config = format!("[upstreams.hosted]\nurl = \"{base}/mcp\"\n");
        Self { child, grants, base, config }
    }

    /// Gateways that ask its authorization server about the tokens of their clients.
    fn team(&self) -> String {
        let base = &self.base;
        format!(
            "[auth.oauth]\nissuers = [\"{base}\"]\naudience = [\"team\"]\n\
             introspection = {{ client_id = \"yard\", url = \"{base}/introspection\" }}\n"
        )
    }

    /// How often tokens were granted for this: a code or a refresh token, or refused because of one that was used before.
    fn grants(&self, kind: &str) -> usize {
        let text = std::fs::read_to_string(&self.grants).unwrap_or_default();
        text.lines().filter(|line| *line == kind).count()
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two nodes with the server in their config, and one without.
fn start(world: &mut World) -> Protected {
    let protected = Protected::start(world);
    for node in ["a", "b"] {
        world.start_with(node, Setup { config: &protected.config, ..Setup::default() });
    }
    world.start("c", &[], "");
    protected
}

/// Signs in by `toolyard login` at a node.
fn sign_in(world: &World, node: &str) {
    let mut login = world.node(node).spawn(&["login", "hosted", "--no-browser"]);
    let mut address = String::new();
    BufReader::new(login.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let page = browse(address.trim(), |url| url);
    assert!(page.body.contains("You are signed in"), "{}", page.body);
    assert!(login.wait().unwrap().success());
}

/// Follows redirects, each to the address that `balance` makes of it.
fn browse(url: &str, balance: impl Fn(String) -> String) -> Reply {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let reply = get(&balance(url.clone()));
        match reply.header("location") {
            Some(location) => location.clone_into(&mut url),
            None => return reply,
        }
    }
    panic!("redirected too often");
}

/// The line of `toolyard list` about the server at a node.
fn listed(world: &World, node: &str) -> Value {
    let output = world.node(node).run(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    list.as_array().unwrap().iter().find(|server| server["id"] == "hosted").unwrap_or(&Value::Null).clone()
}

#[test]
fn a_sign_in_at_one_node_counts_at_all_and_is_refreshed_by_one_at_a_time() {
    let mut world = World::new();
    let protected = start(&mut world);
    // The state of the upstream crosses to a node that does not have it.
    for node in ["a", "b", "c"] {
        eventually(&format!("the missing sign-in at {node}"), || {
            (listed(&world, node)["live"]["state"] == "sign-in needed").then_some(())
        });
    }
    sign_in(&world, "a");
    world.wait_for_tool("hosted__hello");
    eventually("the sign-in at c", || (listed(&world, "c")["live"]["state"] == "active").then_some(()));
    let before = protected.grants("refresh_token");
    std::thread::scope(|scope| {
        for node in ["a", "b", "a", "b"] {
            let node = world.node(node);
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(node.call("hosted__hello", &json!({})), Ok("hello".to_owned()));
                }
            });
        }
    });
    assert!(protected.grants("refresh_token") > before, "no token was refreshed");
    assert_eq!(protected.grants("reused"), 0, "a refresh token was used twice");
    assert_eq!(protected.grants("authorization_code"), 1);
}

/// Part of every token.
const SECRET: &str = "token-of-this-test";

/// Whether bytes contain a token, also in base64, in which a text has three forms.
fn shows_a_token(bytes: &[u8]) -> bool {
    let in_base64 = ["", "-", "--"].map(|before| {
        let text = BASE64_NOPAD.encode(format!("{before}{SECRET}").as_bytes());
        // The characters at both ends depend on what is beside the token.
        text[4..text.len() - 2].to_owned()
    });
    let forms = in_base64.iter().map(String::as_str).chain([SECRET]);
    forms.map(str::as_bytes).any(|form| bytes.windows(form.len()).any(|window| window == form))
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn tokens_are_sealed_in_nats_and_in_the_files_of_all_nodes() {
    let mut world = World::new();
    let protected = start(&mut world);
    sign_in(&world, "a");
    world.wait_for_tool("hosted__hello");
    let before = protected.grants("refresh_token");
    eventually("a token that was refreshed", || {
        world.node("b").call("hosted__hello", &json!({})).unwrap();
        (protected.grants("refresh_token") > before).then_some(())
    });
    let stored = world.nats.stored("KV_toolyard_credentials");
    assert!(!stored.is_empty());
    for message in stored {
        assert!(!shows_a_token(&message), "{}", String::from_utf8_lossy(&message));
    }
    let all = files(&world.path(""));
    assert!(all.iter().any(|file| file.starts_with(world.path("nats-0"))), "{all:?}");
    for file in all.iter().filter(|file| file.is_file()) {
        assert!(!shows_a_token(&std::fs::read(file).unwrap()), "{}", file.display());
    }
}

#[test]
fn a_token_is_found_in_text_and_in_base64() {
    for text in [SECRET.to_owned(), format!("{{\"a\":\"{SECRET}-1\"}}"), format!("ab{SECRET}c")] {
        assert!(shows_a_token(text.as_bytes()));
        assert!(shows_a_token(BASE64_NOPAD.encode(text.as_bytes()).as_bytes()), "{text}");
    }
    assert!(!shows_a_token(b"token-of-this"));
}

#[test]
fn a_sign_in_that_a_balancer_takes_to_another_node_is_finished() {
    let mut world = World::new();
    let protected = start(&mut world);
    sign_in(&world, "a");
    world.wait_for_tool("hosted__hello");
    let output = world.node("a").run(&["logout", "hosted"]);
    assert!(output.status.success(), "{output:?}");
    for node in ["a", "b"] {
        eventually(&format!("the end of the sign-in at {node}"), || {
            world.node(node).call("hosted__hello", &json!({})).err()
        });
    }
    let [here, there] = ["a", "b"].map(|node| world.node(node).url.trim_end_matches("/mcp").to_owned());
    let ask = |more: Value| ask(&world.node("a").url, "hosted__hello", None, &more);
    let asked = ask(json!({}));
    let questions = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let (key, question) = questions.iter().next().unwrap();
    let url = question["params"]["url"].as_str().unwrap();
    assert!(url.starts_with(&here), "{url}");
    let page = browse(url, |url| url.replace(&here, &there));
    assert!(page.body.contains("You are signed in"), "{}", page.body);
    let state = asked["result"]["requestState"].clone();
    let accepted = json!({ "requestState": state, "inputResponses": { key: { "action": "accept" } } });
    let answer = ask(accepted);
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    eventually("the sign-in at b", || world.node("b").call("hosted__hello", &json!({})).ok());
    assert_eq!((protected.grants("authorization_code"), protected.grants("reused")), (2, 0));
}

/// A call of a modern client that can open pages, with more parameters, and with the token of a user.
fn ask(url: &str, tool: &str, user: Option<&str>, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": {} });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
    });
    let bearer = user.map(|user| format!("Bearer {user}"));
    let mut headers =
        vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    answer(&read(send(url, &headers, &message)).body)
}

/// The answer in a body, which may have notifications before it.
fn answer(body: &str) -> Value {
    let last = body.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(last.unwrap_or(body)).unwrap_or_else(|_| panic!("no answer in {body}"))
}

/// Which sign-in a call of this user uses at a node. Nothing if there is no answer yet, or a question.
fn whose(world: &World, user: &str, node: &str) -> Option<String> {
    let answer = ask(&world.node(node).url, "hosted__whose", Some(user), &json!({}));
    let is_error = answer["result"]["isError"] == true;
    answer["result"]["content"][0]["text"].as_str().filter(|_| !is_error).map(str::to_owned)
}

/// A user calls a node, and signs in on the page that the call asks for. Returns which sign-in the call then uses.
fn sign_in_as(world: &World, user: &str, node: &str) -> String {
    let url = &world.node(node).url;
    let mut last = Value::Null;
    let (key, page) = eventually("the page of a sign-in", || {
        last = ask(url, "hosted__whose", Some(user), &json!({}));
        let (key, question) = last["result"]["inputRequests"].as_object()?.iter().next()?;
        Some((key.clone(), question["params"]["url"].as_str()?.to_owned()))
    });
    let page_of = get(&page);
    assert!(page_of.body.contains(&format!("#{user}</b>")), "whose sign-in it is: {}", page_of.body);
    let confirmed = read(request(&page, "POST", &[("content-length", "0")]));
    let done = browse(confirmed.header("location").unwrap(), |url| url);
    assert!(done.body.contains("You are signed in"), "{}", done.body);
    let more = json!({ "requestState": last["result"]["requestState"], "inputResponses": { key: { "action": "accept" } } });
    let answer = ask(url, "hosted__whose", Some(user), &more);
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_call_uses_the_sign_in_of_its_principal_at_every_node() {
    let mut world = World::new();
    let protected = Protected::start(&world);
    let team = protected.team();
    for node in ["a", "b"] {
        let config = format!("{}{team}", protected.config);
        world.start_with(node, Setup { config: &config, ..Setup::default() });
    }
    // Its calls go to one of the others.
    world.start_with("c", Setup { config: &team, ..Setup::default() });
    // With the first sign-in the gateways list the tools.
    sign_in(&world, "a");
    let own = [("ann", sign_in_as(&world, "ann", "c")), ("bob", sign_in_as(&world, "bob", "b"))];
    assert_eq!(own, [("ann", "sign-in 2".to_owned()), ("bob", "sign-in 3".to_owned())]);
    for node in ["a", "b", "c"] {
        for (user, own) in &own {
            let used = eventually(&format!("the sign-in of {user} at {node}"), || whose(&world, user, node));
            assert_eq!(used, *own, "{user} at {node}");
        }
    }
    for node in ["c", "a", "b", "c"] {
        let used = own.each_ref().map(|(user, _)| whose(&world, user, node));
        assert_eq!(used, own.each_ref().map(|(_, own)| Some(own.clone())), "one after the other at {node}");
    }
    assert_eq!((protected.grants("authorization_code"), protected.grants("reused")), (3, 0));
}
