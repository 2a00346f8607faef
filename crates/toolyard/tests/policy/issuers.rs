//! `[auth.oauth]`: clients that present tokens of an issuer, through the real program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::gateway::{Gateway, Home};
use crate::http::{self, Reply};
use crate::rules::SERVER;

/// An HTTP server that answers each request with what `answer` makes of its head and body.
fn serve(answer: impl Fn(&str, &str) -> Value + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer_one(&stream, &*answer));
        }
    });
    base
}

fn answer_one(stream: &TcpStream, answer: &dyn Fn(&str, &str) -> Value) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        head.push_str(&line);
        line.clear();
    }
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length:").and_then(|length| length.trim().parse::<usize>().ok())
    });
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body).ok()?;
    let found = answer(&head, &String::from_utf8_lossy(&body));
    let (status, text) = match &found {
        Value::Null => ("404 Not Found", String::new()),
        found => ("200 OK", found.to_string()),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}"
    );
    (&*stream).write_all(answer.as_bytes()).ok()
}

struct Issuer {
    base: String,
    key: Ed25519KeyPair,
    /// How often its keys were fetched.
    fetched: Arc<AtomicUsize>,
}

impl Issuer {
    fn start() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
        let fetched: Arc<AtomicUsize> = Arc::default();
        let count = fetched.clone();
        let base = serve(move |head, _| {
            let host = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
            let base = format!("http://{}", host.unwrap_or_default());
            match head.split(' ').nth(1).unwrap_or_default() {
                "/.well-known/oauth-authorization-server" => {
                    json!({ "issuer": base, "jwks_uri": format!("{base}/jwks") })
                }
                "/jwks" => {
                    count.fetch_add(1, Ordering::SeqCst);
                    json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] })
                }
                _ => Value::Null,
            }
        });
        Self { base, key, fetched }
    }

    fn token(&self, changes: &Value) -> String {
        self.signed(&json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": "k" }), changes)
    }

    fn signed(&self, header: &Value, changes: &Value) -> String {
        let unsigned = self.unsigned(header, changes);
        let signature = self.key.sign(unsigned.as_bytes());
        format!("{unsigned}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    fn unsigned(&self, header: &Value, changes: &Value) -> String {
        let mut claims = json!({
            "iss": self.base, "sub": "ann", "aud": "https://yard.example/mcp", "exp": now() + 600,
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        format!("{}.{}", encode(header), encode(&claims))
    }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn config(issuer: &Issuer, more: &str) -> String {
    format!(
        "[listen]\npublic_url = \"https://yard.example\"\ntoken = \"st4tic\"\n\
         [auth.oauth]\nissuers = [\"{}\"]\n\
         [upstreams.s]\ncommand = \"python3\"\nargs = [\"server.py\"]\n{more}",
        issuer.base
    )
}

fn start(home: &Home, config: &str) -> Gateway {
    home.write("server.py", SERVER).write("config.toml", config);
    home.start(&["--config", "config.toml", "--no-apps", "--no-instances"])
}

/// A request of a modern client with a bearer token, to a path.
fn ask(gateway: &Gateway, path: &str, token: Option<&str>, method: &str, mut params: Value) -> Reply {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(ToOwned::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    let address = gateway.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: yard.example\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: {method}\r\n{name}{token}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    http::read(stream)
}

fn names(gateway: &Gateway, token: &str) -> Vec<String> {
    let reply = ask(gateway, "/mcp", Some(token), "tools/list", json!({}));
    reply.tool_names().into_iter().filter(|name| name.starts_with("s__")).collect()
}

#[test]
fn twelve_bad_tokens_are_each_answered_with_401_and_a_challenge() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    let hs256 = {
        let unsigned = issuer.unsigned(&json!({ "alg": "HS256", "kid": "k" }), &json!({}));
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.key.public_key().as_ref());
        let signature = hmac::sign(&key, unsigned.as_bytes());
        format!("{unsigned}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    };
    let good = issuer.token(&json!({}));
    let bad = [
        ("expired", issuer.token(&json!({ "exp": now() - 61 }))),
        ("not yet valid", issuer.token(&json!({ "nbf": now() + 120 }))),
        ("wrong issuer", issuer.token(&json!({ "iss": "https://evil.example" }))),
        ("wrong audience", issuer.token(&json!({ "aud": "https://other.example/mcp" }))),
        ("alg none", format!("{}.", issuer.unsigned(&json!({ "alg": "none" }), &json!({})))),
        ("HS256 with the public key", hs256),
        ("unknown key", issuer.signed(&json!({ "alg": "EdDSA", "kid": "other" }), &json!({}))),
        ("bad signature", format!("{}A{}", &good[..good.len() - 8], &good[good.len() - 7..])),
        ("wrong type", issuer.signed(&json!({ "alg": "EdDSA", "kid": "k", "typ": "dpop+jwt" }), &json!({}))),
        ("no subject", issuer.token(&json!({ "sub": null }))),
        ("garbage", "garbage".to_owned()),
        ("oversized", issuer.token(&json!({ "filler": "x".repeat(15_000) }))),
    ];
    assert_eq!(ask(&gateway, "/mcp", Some(&good), "tools/list", json!({})).status, 200);
    for (what, token) in &bad {
        let reply = ask(&gateway, "/mcp", Some(token), "tools/list", json!({}));
        assert_eq!(reply.status, 401, "{what}: {}", reply.body);
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\", "), "{what}: {challenge}");
        assert!(challenge.contains("resource_metadata=\"https://yard.example/.well-known/"), "{challenge}");
    }
    let missing = ask(&gateway, "/mcp/s", None, "tools/list", json!({}));
    let expected =
        "Bearer resource_metadata=\"https://yard.example/.well-known/oauth-protected-resource/mcp/s\"";
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some(expected)));
}

#[test]
fn a_flood_of_tokens_with_unknown_keys_fetches_the_keys_of_the_issuer_once() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    let status = |key: &str| {
        let token = issuer.signed(&json!({ "alg": "EdDSA", "kid": key }), &json!({}));
        ask(&gateway, "/mcp", Some(&token), "tools/list", json!({})).status
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let status = &status;
            scope.spawn(move || {
                for number in 0..50 {
                    assert_eq!(status(&format!("invented-{thread}-{number}")), 401);
                }
            });
        }
    });
    assert_eq!(status("k"), 200, "the key of the issuer is known");
    assert_eq!(issuer.fetched.load(Ordering::SeqCst), 1);
}

#[test]
fn roles_of_a_token_decide_what_its_bearer_sees_and_other_credentials_keep_working() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let rules = "[policy]\ndefault = \"deny\"\n\
                 [[rules]]\nwho = [\"role:ops\", \"token\"]\ntools = \"s:*\"\ndo = \"allow\"\n\
                 [[rules]]\ntools = \"s:read\"\ndo = \"allow\"\n";
    let gateway = start(&home, &config(&issuer, rules));
    let all = ["s__read", "s__write", "s__secret", "s__pay"];
    assert_eq!(names(&gateway, &issuer.token(&json!({ "groups": ["ops"] }))), all);
    assert_eq!(names(&gateway, &issuer.token(&json!({ "groups": ["dev"] }))), ["s__read"]);
    assert_eq!(names(&gateway, "st4tic"), all);
    let dev = issuer.token(&json!({}));
    let denied =
        ask(&gateway, "/mcp", Some(&dev), "tools/call", json!({ "name": "s__write", "arguments": {} }));
    let expected = format!("s:write is denied to oauth:{}#ann", issuer.base);
    assert!(denied.body.contains(&expected), "{}", denied.body);
}

#[test]
fn a_token_for_one_view_opens_that_view_only() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    let token = issuer.token(&json!({ "aud": "https://yard.example/mcp/s" }));
    let status = |path| ask(&gateway, path, Some(&token), "tools/list", json!({})).status;
    assert_eq!((status("/mcp/s"), status("/mcp"), status("/mcp/p/x")), (200, 401, 401));
}

#[test]
fn an_agent_has_the_roles_of_the_user_who_started_it_and_no_others() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let project = home.path("project");
    std::fs::create_dir_all(&project).unwrap();
    let project = toml::Value::from(project.to_str().unwrap());
    let command = "echo token=$MCP_AUTH_TOKEN; while [ ! -e go ]; do sleep 0.05; done";
    let more = format!(
        "[packs.agents]\nprojects = [{project}]\n[packs.agents.types.explore]\nprogram = \"command\"\n\
         command = [\"sh\", \"-c\", \"{command}\"]\nprofile = \"work\"\n\
         [profiles.work]\nupstreams = [\"s\"]\n[policy]\ndefault = \"deny\"\n\
         [[rules]]\nwho = [\"role:ops\"]\ntools = \"s:*\"\ndo = \"allow\"\n\
         [[rules]]\ntools = [\"s:read\", \"agents:*\"]\ndo = \"allow\"\n"
    );
    let gateway = start(&home, &config(&issuer, &more));
    let seen_by_agent = |changes: &Value| {
        let user = issuer.token(changes);
        let call = |tool: &str, arguments: Value| {
            let params = json!({ "name": format!("agents__{tool}"), "arguments": arguments });
            ask(&gateway, "/mcp", Some(&user), "tools/call", params).message()["result"].clone()
        };
        let spawned = call("agent_spawn", json!({ "prompt": "x" }));
        let id =
            spawned["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{spawned}")).to_owned();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let token = loop {
            let progress = call("agent_progress", json!({ "task_id": id }));
            let line = progress["structuredContent"]["lines"][0].as_str().unwrap_or_default();
            if let Some(token) = line.strip_prefix("token=") {
                break token.to_owned();
            }
            assert!(std::time::Instant::now() < until, "the agent shows no token: {progress}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let reply = ask(&gateway, "/mcp/p/work", Some(&token), "tools/list", json!({}));
        call("agent_cancel", json!({ "task_id": id }));
        reply.tool_names().into_iter().filter(|name| name.starts_with("s__")).collect::<Vec<_>>()
    };
    let ops = seen_by_agent(&json!({ "groups": ["ops"] }));
    assert_eq!(ops, ["s__read", "s__write", "s__secret", "s__pay"]);
    assert_eq!(seen_by_agent(&json!({ "groups": ["dev"] })), ["s__read"]);
}

#[test]
fn a_token_without_a_required_scope_is_answered_with_403_and_the_scopes_to_ask_for() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let required = format!("issuers = [\"{}\"]\nscopes = [\"tools:read\", \"tools:call\"]\n", issuer.base);
    let config = config(&issuer, "").replace(&format!("issuers = [\"{}\"]\n", issuer.base), &required);
    let gateway = start(&home, &config);
    let ask = |scope: &str| {
        let token = issuer.token(&json!({ "scope": scope }));
        ask(&gateway, "/mcp", Some(&token), "tools/list", json!({}))
    };
    assert_eq!(ask("tools:call other tools:read").status, 200);
    for scope in ["", "tools:read", "tools:read tools:callx"] {
        let reply = ask(scope);
        let expected = "Bearer error=\"insufficient_scope\", \
             resource_metadata=\"https://yard.example/.well-known/oauth-protected-resource/mcp\", \
             scope=\"tools:read tools:call\"";
        assert_eq!((reply.status, reply.header("www-authenticate")), (403, Some(expected)), "{scope:?}");
        assert!(reply.body.contains("the token lacks required scopes"), "{}", reply.body);
    }
}

#[test]
fn a_session_ends_for_its_user_when_a_role_is_taken_away() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    let (ops, plain) = (issuer.token(&json!({ "groups": ["ops"] })), issuer.token(&json!({})));
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let bearer = |token: &str| format!("Bearer {token}");
    let opened = http::post(&gateway.url, &[("authorization", &bearer(&ops))], &open);
    let session = opened.header("mcp-session-id").unwrap();
    let list = |token: &str| {
        let headers = [
            ("mcp-session-id", session),
            ("mcp-protocol-version", "2025-11-25"),
            ("authorization", &bearer(token)),
        ];
        http::post(&gateway.url, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))
            .status
    };
    assert_eq!((list(&ops), list(&plain)), (200, 404));
}

#[test]
fn an_open_event_stream_ends_with_the_token_that_opened_it() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    // Tokens are accepted for a minute after their end, in case clocks differ.
    let brief = || issuer.token(&json!({ "exp": now() - 55 }));
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listened = ask(&gateway, "/mcp", Some(&brief()), "subscriptions/listen", filter);
    assert!(listened.body.contains("subscriptions/acknowledged"), "{}", listened.body);
    assert!(listened.body.contains("\"resultType\":\"complete\""), "{}", listened.body);

    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let token = brief();
    let bearer = format!("Bearer {token}");
    let opened = http::post(&gateway.url, &[("authorization", &bearer)], &open);
    let session = opened.header("mcp-session-id").unwrap();
    let mut stream = TcpStream::connect(gateway.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nhost: yard.example\r\nconnection: close\r\naccept: text/event-stream\r\n\
         mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\nauthorization: {bearer}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // To read it to its end, it must end.
    let (reply, began) = (http::read(stream), std::time::Instant::now());
    assert_eq!((reply.status, began.elapsed().as_secs() < 20), (200, true), "{}", reply.body);
    let later = ask(&gateway, "/mcp", Some(&token), "tools/list", json!({}));
    assert_eq!(later.status, 401, "{}", later.body);
}

#[test]
fn no_token_of_a_client_reaches_an_upstream_and_none_is_logged_or_kept() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = heads.clone();
    let upstream = serve(move |head, body| {
        seen.lock().push(format!("{head}{body}"));
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "far", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "hello", "inputSchema": { "type": "object" } }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "hello" }] }),
            _ => {
                return json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32601, "message": "no" } });
            }
        };
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
    });
    let more = format!("[upstreams.far]\nurl = \"{upstream}/mcp\"\n[audit]\npayloads = \"redacted\"\n");
    let gateway = start(&home, &config(&issuer, &more));
    let token = issuer.token(&json!({}));
    let call = json!({ "name": "far__hello", "arguments": {} });
    let reply = ask(&gateway, "/mcp", Some(&token), "tools/call", call);
    assert!(reply.body.contains("\"hello\""), "{}", reply.body);
    let heads = heads.lock().join("\n");
    assert!(heads.contains("tools/call"));
    let secrets = [token.rsplit('.').next().unwrap(), "st4tic"];
    for secret in secrets {
        assert!(!heads.contains(secret), "the upstream received a credential");
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, words, _) = gateway.wait();
    let files = files_below(&home.path("state"));
    for secret in secrets {
        assert!(!words.contains(secret), "the log has a credential");
        let holds = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!files.iter().any(holds), "a file has a credential");
    }
}

fn files_below(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.is_file() {
            files.push(std::fs::read(path).unwrap());
        }
    }
    files
}

#[test]
fn each_view_has_metadata_that_needs_no_credentials() {
    let (issuer, home) = (Issuer::start(), Home::new());
    let gateway = start(&home, &config(&issuer, ""));
    let get = |path: &str| {
        let mut stream = TcpStream::connect(gateway.url.strip_prefix("http://").unwrap()).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: yard.example\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        http::read(stream)
    };
    for view in ["", "/mcp", "/mcp/s", "/mcp/p/team"] {
        let reply = get(&format!("/.well-known/oauth-protected-resource{view}"));
        let metadata: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(metadata["resource"], format!("https://yard.example{view}"));
        assert_eq!(metadata["authorization_servers"], json!([issuer.base]));
    }
    assert_eq!(get("/.well-known/oauth-protected-resource/api").status, 404);
}
