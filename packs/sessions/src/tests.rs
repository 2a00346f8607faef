//! The tools over transcripts in the forms that the programs write.

mod agents;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use toolyard_tool::{Context, Host, ToolError};

use crate::sessions::Sessions;
use crate::tools::{WithText, blame, list, read, search};

struct Home {
    folder: TempDir,
    sessions: Sessions,
}

impl Home {
    #[expect(clippy::needless_pass_by_value, reason = "written with `json!`")]
    fn new(keys: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        let mut config = json!({
            "programs": ["claude", "codex", "gemini"],
            "home": folder.path(),
            "projects": [project],
        });
        for (key, value) in keys.as_object().cloned().unwrap_or_default() {
            config[key] = value;
        }
        assert_eq!(crate::pack().check(&config), []);
        let host = Host::for_tests(folder.path());
        let sessions = Sessions { config: serde_json::from_value(config).unwrap(), host };
        Self { folder, sessions }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn project(&self) -> String {
        self.path("project").display().to_string()
    }

    fn write(&self, below: &str, lines: &[Value]) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        path
    }

    /// A session of each program that mentions the word `lighthouse`.
    fn with_all() -> Self {
        let home = Self::new(json!({}));
        let project = home.project();
        let user =
            |id: &str, parent: Value, text: &str| claude_line("user", id, parent, &json!(text), &project);
        home.write(
            ".claude/projects/-project/c0ffee00-1111.jsonl",
            &[
                json!({ "type": "queue-operation", "operation": "enqueue" }),
                user("a", Value::Null, "Where is the lighthouse?"),
                claude_line(
                    "assistant",
                    "b",
                    json!("a"),
                    &json!([{ "type": "text", "text": "On the left branch." }]),
                    &project,
                ),
                json!({ "type": "never-seen-before" }),
                user("c", json!("a"), "Once more: the lighthouse, key sk-abcdefghijklmnopqrstu"),
            ],
        );
        let message = |role: &str, text: &str| {
            let content = json!([{ "type": "input_text", "text": text }]);
            json!({ "timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": { "type": "message", "role": role, "content": content } })
        };
        home.write(
            ".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-0199.jsonl",
            &[
                json!({ "timestamp": "t", "type": "session_meta", "payload": { "id": "0199-codex", "cwd": project } }),
                message("user", "<environment_context>x</environment_context>"),
                message("user", "Paint the lighthouse."),
                json!({ "timestamp": "t", "type": "event_msg", "payload": { "type": "user_message" } }),
                message("assistant", "Painted."),
            ],
        );
        home.write(
            ".gemini/tmp/short/chats/session-2026-11-02T10-00-abcd.jsonl",
            &[
                json!({ "sessionId": "gem-1", "projectHash": "h", "startTime": "2026-11-02T10:00:00Z" }),
                json!({ "id": "1", "timestamp": "t", "type": "user", "content": [{ "text": "Light the lighthouse." }] }),
                json!({ "id": "2", "timestamp": "t", "type": "gemini", "content": "Ligh" }),
                json!({ "id": "2", "timestamp": "t", "type": "gemini", "content": "Lighted." }),
                json!({ "$set": { "lastUpdated": "t" } }),
                json!({ "id": "3", "timestamp": "t", "type": "user", "content": "Put it out." }),
                json!({ "$rewindTo": "3" }),
            ],
        );
        std::fs::write(
            home.path(".gemini/projects.json"),
            json!({ "projects": { project: "short" } }).to_string(),
        )
        .unwrap();
        home
    }
}

#[expect(clippy::needless_pass_by_value, reason = "written with `json!`")]
fn claude_line(kind: &str, id: &str, parent: Value, content: &Value, cwd: &str) -> Value {
    json!({
        "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "c0ffee00-1111", "cwd": cwd,
        "timestamp": "2026-11-03T10:00:00Z", "message": { "role": kind, "content": content },
    })
}

fn args<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn shown<T: Serialize>(answer: Result<WithText<T>, ToolError>) -> Value {
    serde_json::to_value(answer.unwrap().value()).unwrap()
}

fn context() -> Context {
    Context::detached()
}

#[tokio::test]
async fn sessions_of_all_programs_are_listed_with_their_project_and_title() {
    let home = Home::with_all();
    let listed = shown(list::session_list(&home.sessions, &context(), args(json!({}))).await);
    let mut found: Vec<(String, String)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|session| {
            assert_eq!(session["project"], home.project(), "{session}");
            (session["id"].as_str().unwrap().to_owned(), session["title"].as_str().unwrap().to_owned())
        })
        .collect();
    found.sort();
    let expected = [
        ("0199-codex", "Paint the lighthouse."),
        ("c0ffee00-1111", "Where is the lighthouse?"),
        ("gem-1", "Light the lighthouse."),
    ];
    assert_eq!(found, expected.map(|(id, title)| (id.to_owned(), title.to_owned())));
}

#[tokio::test]
async fn a_conversation_is_the_branch_that_was_used_last() {
    let home = Home::with_all();
    let texts = async |id: &str| -> (Vec<String>, Value) {
        let answer =
            shown(read::session_read(&home.sessions, &context(), args(json!({ "session_id": id }))).await);
        let texts = answer["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["text"].as_str().unwrap().to_owned());
        (texts.collect(), answer["skipped"].clone())
    };
    let (claude, skipped) = texts("c0ffee").await;
    assert_eq!(claude, ["Where is the lighthouse?", "Once more: the lighthouse, key [redacted]"]);
    assert_eq!(skipped, 1);
    assert_eq!(texts("0199-codex").await.0, ["Paint the lighthouse.", "Painted."]);
    assert_eq!(texts("gem-1").await.0, ["Light the lighthouse.", "Lighted."]);
}

#[tokio::test]
async fn words_are_found_in_the_sessions_of_all_programs_without_secrets() {
    let home = Home::with_all();
    let hits = shown(
        search::session_search(&home.sessions, &context(), args(json!({ "query": "LightHouse" }))).await,
    );
    let hits = hits.as_array().unwrap();
    let count = |program: &str| hits.iter().filter(|hit| hit["program"] == program).count();
    assert_eq!((count("claude"), count("codex"), count("gemini")), (2, 1, 1));
    assert!(!json!(hits).to_string().contains("sk-abc"), "{hits:?}");
    let none = shown(
        search::session_search(&home.sessions, &context(), args(json!({ "query": "lighthouse absent" })))
            .await,
    );
    assert_eq!(none, json!([]));
    let one = json!({ "query": "lighthouse", "session_id": "gem" });
    let one = shown(search::session_search(&home.sessions, &context(), args(one)).await);
    assert_eq!(one.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn secrets_that_cross_the_end_of_what_is_shown_are_removed() {
    let home = Home::new(json!({}));
    let project = home.project();
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----", "MIIEvQIBADAN\n".repeat(30));
    let token = "sk-abcdefghijklmnopqrstuvwxyz";
    let messages = [
        ("title", format!("{} {token}", "x".repeat(110))),
        ("window", format!("{key}\nthe lighthouse, and then {} {token}", "y".repeat(280))),
        ("end", format!("{} {token}", "z".repeat(3_990))),
    ];
    let line = |(id, text): &(&str, String)| claude_line("user", id, json!("title"), &json!(text), &project);
    let mut lines: Vec<Value> = messages.iter().map(line).collect();
    let input = json!({ "command": format!("{} {token}", "c".repeat(270)) });
    let call = json!([{ "type": "tool_use", "id": "t", "name": "Bash", "input": input }]);
    lines.push(claude_line("assistant", "call", json!("end"), &call, &project));
    home.write(".claude/projects/-project/c0ffee00-1111.jsonl", &lines);

    let listed = shown(list::session_list(&home.sessions, &context(), args(json!({}))).await);
    let read = args(json!({ "session_id": "c0ffee" }));
    let read = shown(read::session_read(&home.sessions, &context(), read).await);
    let find = async |query: &str| {
        shown(search::session_search(&home.sessions, &context(), args(json!({ "query": query }))).await)
    };
    let found = find("lighthouse").await;
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    for answer in [&listed, &read, &found] {
        let text = answer.to_string();
        assert!(!text.contains("MIIE") && !text.contains("sk-a"), "{text}");
    }
    for query in ["sk-abcdefgh", "lighthouse sk-abcdefgh", "MIIEvQ"] {
        assert_eq!(find(query).await, json!([]), "a secret cannot be guessed: {query}");
    }
}

#[tokio::test]
async fn sessions_of_other_folders_are_not_read() {
    let home = Home::with_all();
    home.write(
        ".claude/projects/-elsewhere/feed-2222.jsonl",
        &[claude_line("user", "a", Value::Null, &json!("the lighthouse elsewhere"), "/elsewhere")],
    );
    let hits =
        search::session_search(&home.sessions, &context(), args(json!({ "query": "elsewhere" }))).await;
    assert_eq!(shown(hits), json!([]));
    let refused =
        list::session_list(&home.sessions, &context(), args(json!({ "project_path": "/elsewhere" }))).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.starts_with("`/elsewhere` is not a folder of this client"), "{refused}");

    let everywhere = Home::new(json!({ "everywhere": true, "projects": [], "home": home.folder.path() }));
    let hits =
        search::session_search(&everywhere.sessions, &context(), args(json!({ "query": "elsewhere" }))).await;
    assert_eq!(shown(hits).as_array().unwrap().len(), 1);
    let unknown = Home::new(json!({ "projects": [] }));
    let refused =
        list::session_list(&unknown.sessions, &context(), args(json!({}))).await.err().unwrap().to_string();
    assert!(refused.contains("the folder of this client is unknown"), "{refused}");
}

#[tokio::test]
async fn a_line_that_is_being_written_is_left_out_until_it_has_its_end() {
    let home = Home::with_all();
    let path = home.path(".claude/projects/-project/c0ffee00-1111.jsonl");
    let line = claude_line("user", "d", json!("c"), &json!("half a lighthouse"), &home.project()).to_string();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&line.as_bytes()[..line.len() / 2]).unwrap();
    let count = async || {
        let answer =
            read::session_read(&home.sessions, &context(), args(json!({ "session_id": "c0ffee" }))).await;
        shown(answer)["total"].as_u64().unwrap()
    };
    assert_eq!(count().await, 2);
    file.write_all(&line.as_bytes()[line.len() / 2..]).unwrap();
    file.write_all(b"\n").unwrap();
    assert_eq!(count().await, 3);
}

#[tokio::test]
async fn the_session_that_wrote_a_line_of_a_file_is_named() {
    let home = Home::with_all();
    let project = home.project();
    let edit = |id: &str, text: &str| {
        let input =
            json!({ "file_path": format!("{project}/tower.rs"), "old_string": "x", "new_string": text });
        let block = json!([{ "type": "tool_use", "id": "t", "name": "Edit", "input": input }]);
        claude_line("assistant", id, Value::Null, &block, &project)
    };
    home.write(".claude/projects/-project/beef-3333.jsonl", &[edit("a", "fn light() {\n    shine();\n}\n")]);
    let patch = "*** Begin Patch\n*** Update File: tower.rs\n+fn stairs() {}\n*** End Patch";
    let call = json!({ "type": "custom_tool_call", "name": "apply_patch", "input": patch });
    home.write(
        ".codex/sessions/2026/11/04/rollout-2026-11-04T10-00-00-0200.jsonl",
        &[
            json!({ "type": "session_meta", "payload": { "id": "0200-codex", "cwd": project } }),
            json!({ "type": "response_item", "payload": call }),
        ],
    );
    let file = Path::new(&project).join("tower.rs");
    std::fs::write(&file, "fn light() {\n    shine();\n}\nfn stairs() {}\nfn by_hand() {}\n").unwrap();
    let answer = blame::session_blame(&home.sessions, &context(), args(json!({ "path": file }))).await;
    let mut writers: Vec<(String, Value)> = shown(answer)
        .as_array()
        .unwrap()
        .iter()
        .map(|writer| (writer["session"]["id"].as_str().unwrap().to_owned(), writer["lines"].clone()))
        .collect();
    writers.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(writers, [("0200-codex".to_owned(), json!([4])), ("c0ffee00-1111".to_owned(), json!([1, 2]))]);
    let outside =
        blame::session_blame(&home.sessions, &context(), args(json!({ "path": "/etc/hostname" }))).await;
    assert!(outside.err().unwrap().to_string().contains("is not below a folder of this client"));
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_transcripts_elsewhere_are_not_followed() {
    let home = Home::with_all();
    let line = claude_line("user", "a", Value::Null, &json!("a foreign lighthouse"), &home.project());
    let outside = home.write("outside/d00d-5555.jsonl", &[line]);
    let folder = home.path(".claude/projects/-project");
    std::os::unix::fs::symlink(&outside, folder.join("d00d-5555.jsonl")).unwrap();
    std::os::unix::fs::symlink(outside.parent().unwrap(), home.path(".claude/projects/-linked")).unwrap();
    let found = async || {
        let query = args(json!({ "query": "foreign lighthouse" }));
        shown(search::session_search(&home.sessions, &context(), query).await).as_array().unwrap().len()
    };
    assert_eq!(found().await, 0);
    // The same file in the folder itself is found.
    std::fs::rename(&outside, folder.join("d00d-5555.jsonl")).unwrap();
    assert_eq!(found().await, 1);
}

/// Only root can give a file away, so for other users this checks nothing.
#[cfg(unix)]
#[tokio::test]
async fn transcripts_of_other_users_are_not_read() {
    let home = Home::with_all();
    let line = claude_line("user", "a", Value::Null, &json!("a planted lighthouse"), &home.project());
    let planted = home.write(".claude/projects/-project/d00d-5555.jsonl", &[line]);
    let found = async || {
        let query = args(json!({ "query": "planted lighthouse" }));
        let answer = search::session_search(&home.sessions, &context(), query).await;
        shown(answer).as_array().unwrap().len()
    };
    assert_eq!(found().await, 1);
    if std::os::unix::fs::chown(&planted, Some(65_534), None).is_ok() {
        assert_eq!(found().await, 0);
        let by_id = args(json!({ "session_id": "d00d" }));
        assert!(read::session_read(&home.sessions, &context(), by_id).await.is_err());
    }
}

#[tokio::test]
async fn a_large_transcript_is_read_in_pieces() {
    let home = Home::with_all();
    let project = home.project();
    let filler = "x".repeat(100_000);
    let mut lines = Vec::new();
    for at in 0..200 {
        let parent = if at == 0 { Value::Null } else { json!(format!("m{}", at - 1)) };
        lines.push(claude_line(
            "user",
            &format!("m{at}"),
            parent,
            &json!(format!("{filler} {at}")),
            &project,
        ));
    }
    lines.push(claude_line("user", "end", json!("m199"), &json!("the needle"), &project));
    home.write(".claude/projects/-project/large-4444.jsonl", &lines);
    drop(lines);
    let before = peak_memory();
    let found = search::session_search(&home.sessions, &context(), args(json!({ "query": "needle" }))).await;
    assert_eq!(shown(found).as_array().unwrap().len(), 1);
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < 15 << 20, "20 MB were read with {grown} bytes more memory");
}

/// The most memory that this process has had, where that is known.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

#[tokio::test]
async fn connections_that_do_not_prove_their_user_read_no_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({ "programs": ["claude"], "home": folder.path(), "everywhere": true });
    let set = crate::tools(serde_json::from_value(config).unwrap(), Host::for_tests(folder.path()));
    let doors = [toolyard_tool::Door::Tcp("127.0.0.1:0".into())];
    let server = toolyard_tool::Server::start(set, doors).await.unwrap();
    let stream = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (read, mut write) = stream.into_split();
    let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "session_list", "arguments": {}, "_meta": about });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let answer = BufReader::new(read).lines().next_line().await.unwrap().unwrap();
    assert!(answer.contains("only connections that prove their user"), "{answer}");
}
