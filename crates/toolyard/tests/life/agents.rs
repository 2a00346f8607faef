//! Agents in the gateway: what the token of a run opens and what it does not, how deep and how many agents may be
//! started, and what is left of a run that is a task when the gateway is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http;
use crate::yard::{Gateway, Yard, none, soon};

/// Shows its token, and waits for the file `go` in its project.
const SHOWS_TOKEN: &str = "echo token=$MCP_AUTH_TOKEN; while [ ! -e go ]; do sleep 0.05; done; echo done";

pub(crate) struct Scene {
    pub(crate) yard: Yard,
    project: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
        let folder = toml::Value::from(project.path().to_str().unwrap());
        let command = toml::Value::from(SHOWS_TOKEN);
        let run =
            format!("program = \"command\"\ncommand = [\"sh\", \"-c\", {command}]\nprofile = \"work\"\n");
        yard.also(&format!(
            "[listen]\ntoken = \"user\"\ntcp = \"127.0.0.1:0\"\n\
             [packs.agents]\nprojects = [{folder}]\nconcurrent = 8\n{more}\n\
             [packs.agents.types.stravinsky]\n{run}[packs.agents.types.explore]\n{run}\
             [profiles.work]\nupstreams = [\"agents\", \"dev\"]\n[profiles.other]\nupstreams = [\"dev\"]\n"
        ));
        Self { yard, project }
    }

    pub(crate) fn go(&self) {
        std::fs::write(self.project.path().join("go"), "").unwrap();
    }
}

/// What an agent passes to start another.
pub(crate) fn wish(kind: &str) -> Value {
    json!({ "prompt": "go", "agent_type": kind, "delegation_reason": "it is large", "expected_outcome": "a list",
        "required_tools": [] })
}

/// A client with a token, at one view.
pub(crate) struct Client<'a> {
    gateway: &'a Gateway,
    token: String,
    view: &'static str,
}

impl<'a> Client<'a> {
    pub(crate) fn new(gateway: &'a Gateway, token: &str, view: &'static str) -> Self {
        Self { gateway, token: token.to_owned(), view }
    }

    pub(crate) fn request(&self, method: &str, mut params: Value) -> http::Reply {
        let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "extensions": tasks, "elicitation": {} },
        });
        let name = params["name"].as_str().or(params["taskId"].as_str()).map(ToOwned::to_owned);
        let authorization = format!("Bearer {}", self.token);
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("authorization", authorization.as_str()),
        ];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        http::post(&format!("{}{}", self.gateway.url(), self.view), &headers, &message)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let message = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).message();
        assert!(message.get("error").is_none(), "{message}");
        message["result"].clone()
    }

    /// Starts an agent; its id, and the token that it shows.
    pub(crate) fn spawn(&self, kind: &str) -> (String, String) {
        let spawned = self.call("agents__agent_spawn", &wish(kind));
        let id = spawned["structuredContent"]["id"].as_str();
        let id = id.unwrap_or_else(|| panic!("{spawned}")).to_owned();
        let token = soon("the token of the agent", || {
            let progress = self.call("agents__agent_progress", &json!({ "task_id": id }));
            let lines = progress["structuredContent"]["lines"].as_array().cloned().unwrap_or_default();
            let shown = lines.iter().find_map(|line| line.as_str()?.strip_prefix("token="));
            shown.map(ToOwned::to_owned).ok_or_else(|| progress.to_string())
        });
        (id, token)
    }

    fn refusal(&self, kind: &str) -> String {
        self.refused("agents__agent_spawn", &wish(kind))
    }

    pub(crate) fn refused(&self, tool: &str, arguments: &Value) -> String {
        let refused = self.call(tool, arguments);
        assert_eq!(refused["isError"], true, "{refused}");
        refused["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) fn task(&self, id: &Value) -> Value {
        self.request("tasks/get", json!({ "taskId": id })).message()["result"].clone()
    }
}

#[test]
fn the_token_of_an_agent_opens_its_profile_while_it_runs_and_nothing_else() {
    let scene = Scene::new("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (id, token) = user.spawn("explore");
    assert!(token.starts_with("tyd_"), "{token}");
    let (_, other) = user.spawn("explore");
    assert_ne!(token, other, "each run has its own");
    let status =
        |token: &str, view| Client::new(&gateway, token, view).request("tools/list", json!({})).status;
    assert_eq!(status(&token, "/mcp/p/work"), 200);
    for view in ["/mcp", "/mcp/p/other", "/mcp/agents", "/mcp/hub", "/api/v1/status", "/metrics"] {
        assert_eq!(status(&token, view), 401, "{view}");
    }
    let agent = Client::new(&gateway, &token, "/mcp/p/work");
    let seen = agent.call("agents__agent_list", &json!({}));
    assert_eq!(
        seen["structuredContent"]["result"],
        json!([]),
        "the agents of the user are not its own: {seen}"
    );
    scene.go();
    soon("the end of the agent", || {
        let ended = user.call("agents__agent_output", &json!({ "task_id": id }));
        (ended["structuredContent"]["status"] == "completed").then_some(()).ok_or(ended.to_string())
    });
    soon("the end of the token", || {
        (status(&token, "/mcp/p/work") == 401).then_some(()).ok_or("valid".into())
    });
}

#[test]
fn a_connection_that_an_agent_has_opened_is_closed_when_its_run_ends() {
    let scene = Scene::new("");
    let gateway = scene.yard.start();
    let (_, token) = Client::new(&gateway, "user", "/mcp").spawn("explore");
    let file = std::fs::read_to_string(scene.yard.folder().join("state/gateway.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let mut stream =
        TcpStream::connect(file["tcp"].as_str().unwrap().strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    writeln!(stream, "{}", json!({ "toolyard": 1, "view": "p/work", "token": token })).unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    writeln!(stream, "{list}").unwrap();
    let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    scene.go();
    assert!(lines.next().is_none_or(|line| line.is_err()), "the connection is closed");
}

#[test]
fn agents_start_agents_within_the_limits_of_type_depth_and_number() {
    let scene = Scene::new("depth = 2\ntree_runs = 1");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (_, token) = user.spawn("explore");
    let explore = Client::new(&gateway, &token, "/mcp/p/work");
    assert!(explore.refusal("explore").contains("an agent of type `explore` may not spawn agents"));
    let (_, token) = user.spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let (_, token) = lead.spawn("stravinsky");
    assert!(lead.refusal("explore").contains("1 agents were started below"));
    let nested = Client::new(&gateway, &token, "/mcp/p/work");
    assert!(nested.refusal("explore").contains("agents are nested 2 deep, which is the limit"));
}

#[test]
fn of_agents_that_an_agent_starts_at_the_same_time_no_more_than_the_limit_run() {
    let scene = Scene::new("tree_runs = 1");
    let gateway = scene.yard.start();
    let (_, token) = Client::new(&gateway, "user", "/mcp").spawn("stravinsky");
    let together = std::sync::Barrier::new(8);
    let spawn = || {
        together.wait();
        Client::new(&gateway, &token, "/mcp/p/work").call("agents__agent_spawn", &wish("explore"))
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(spawn)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused: Vec<&Value> = answers.iter().filter(|answer| answer["isError"] == true).collect();
    assert_eq!(refused.len(), 7, "{answers:?}");
    let is_for_limit = |answer: &&Value| answer.to_string().contains("1 agents were started below");
    assert!(refused.iter().all(is_for_limit), "{refused:?}");
}

#[test]
fn agents_below_a_run_are_refused_once_they_have_spent_its_budget() {
    let report = r#"{"type":"result","result":"done","is_error":false,"total_cost_usd":0.6}"#;
    let scene = Scene::new(&format!(
        "tree_cost = 0.5\n[packs.agents.types.debugger]\nprogram = \"command\"\ncommand = [\"echo\", {}]\n",
        toml::Value::from(report)
    ));
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (_, token) = user.spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let mut blocking = wish("debugger");
    blocking["blocking"] = json!(true);
    let spawned = lead.call("agents__agent_spawn", &blocking);
    assert_ne!(spawned["isError"], true, "{spawned}");
    let refusal = soon("the end of the agent", || {
        let refused = lead.call("agents__agent_spawn", &wish("debugger"));
        let text = refused["content"][0]["text"].as_str().unwrap().to_owned();
        if refused["isError"] == true { Ok(text) } else { Err(text) }
    });
    assert!(refusal.contains("USD of 0.50 USD"), "{refusal}");
    // The budget is that of the tree: the user has none.
    let own = user.call("agents__agent_spawn", &json!({ "prompt": "go", "agent_type": "debugger" }));
    assert_ne!(own["isError"], true, "{own}");
}

#[test]
fn agents_below_a_run_are_refused_once_the_cost_of_one_is_unknown() {
    let scene = Scene::new(
        "tree_cost = 0.5\n[packs.agents.types.debugger]\nprogram = \"command\"\ncommand = [\"cat\"]\n",
    );
    let gateway = scene.yard.start();
    let (_, token) = Client::new(&gateway, "user", "/mcp").spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let mut blocking = wish("debugger");
    blocking["blocking"] = json!(true);
    let spawned = lead.call("agents__agent_spawn", &blocking);
    assert_ne!(spawned["isError"], true, "{spawned}");
    soon("the end of the agent", || {
        let refused = lead.call("agents__agent_spawn", &wish("debugger"));
        let text = refused["content"][0]["text"].as_str().unwrap().to_owned();
        if text.contains("the cost of 1 agents of `agent_") { Ok(()) } else { Err(text) }
    });
}

#[test]
fn an_agent_gives_a_reason_to_start_another_whatever_type_it_passes() {
    let scene = Scene::new("");
    let gateway = scene.yard.start();
    let (_, token) = Client::new(&gateway, "user", "/mcp").spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let spawn = |arguments: Value| lead.refused("agents__agent_spawn", &arguments);
    let needed = "an agent that spawns another must pass delegation_reason, expected_outcome, required_tools";
    assert!(spawn(json!({ "prompt": "go" })).contains(needed));
    let mut with_tools = wish("explore");
    with_tools["required_tools"] = json!(["Edit"]);
    with_tools["spawning_agent"] = json!("explore");
    assert!(spawn(with_tools).contains("an agent of type `explore` does not have Edit"));
    let task = lead.refused("agents__task_spawn", &json!({ "prompt": "go" }));
    assert!(task.contains("an agent cannot use `task_spawn`"), "{task}");
}

#[test]
fn an_agent_starts_no_agents_with_another_profile_than_its_own() {
    let scene = Scene::new(
        "[packs.agents.types.debugger]\nprogram = \"command\"\ncommand = [\"cat\"]\nprofile = \"other\"\n",
    );
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (_, token) = user.spawn("stravinsky");
    let refused = Client::new(&gateway, &token, "/mcp/p/work").refusal("debugger");
    assert!(
        refused.contains("may not start agents with the profile `other`, which is not its own"),
        "{refused}"
    );
    let own = user.call("agents__agent_spawn", &wish("debugger"));
    assert_ne!(own["isError"], true, "the user may: {own}");
}

#[test]
fn an_agent_gets_only_the_variables_that_are_allowed() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let folder = toml::Value::from(project.path().to_str().unwrap());
    let run = "program = \"command\"\ncommand = [\"env\"]\nenv = { OWN = \"set\" }\n";
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.agents]\nprojects = [{folder}]\n\
         [packs.agents.types.bare]\n{run}[packs.agents.types.marked]\n{run}inherit = [\"{}\"]\n",
        yard.mark()
    ));
    let gateway = yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let names = |kind: &str| -> Vec<String> {
        let arguments = json!({ "prompt": "x", "agent_type": kind, "blocking": false });
        let id = user.call("agents__agent_spawn", &arguments)["structuredContent"]["id"].clone();
        let ended =
            user.call("agents__agent_output", &json!({ "task_id": id, "block": true }))["structuredContent"]
                .clone();
        let result = ended["result"].as_str().unwrap_or_else(|| panic!("{ended}"));
        result.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
    };
    let mark = yard.mark().to_owned();
    let (bare, marked) = (names("bare"), names("marked"));
    for name in ["PATH", "HOME", "OWN"] {
        assert!(bare.iter().any(|one| one == name), "{name} is missing: {bare:?}");
    }
    assert!(!bare.contains(&mark), "a variable of the gateway: {bare:?}");
    assert!(marked.contains(&mark), "{marked:?}");
}

#[test]
fn the_seven_roles_are_prompts() {
    let scene = Scene::new("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let listed = user.request("prompts/list", json!({})).message()["result"]["prompts"].clone();
    let listed: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|prompt| prompt["name"].as_str()).collect();
    let roles = ["stravinsky", "delphi", "dewey", "explore", "frontend", "document_writer", "multimodal"];
    for role in roles {
        let name = format!("agents__{role}");
        assert!(listed.contains(&name.as_str()), "{name}: {listed:?}");
        let made = user.request("prompts/get", json!({ "name": name })).message();
        let text = made["result"]["messages"][0]["content"]["text"].as_str();
        assert!(text.is_some_and(|text| text.starts_with("You ")), "{made}");
    }
    assert_eq!(listed.iter().filter(|name| name.starts_with("agents__")).count(), roles.len());
}

#[test]
fn with_semantic_first_the_agent_gets_what_a_search_for_its_prompt_found() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let code = "def light_the_lamp(tower):\n    \"\"\"Lights the lamp of the lighthouse.\"\"\"\n    tower.lamp.on()\n    return tower\n";
    std::fs::write(project.path().join("lighthouse.py"), code).unwrap();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.code]\nprojects = [{folder}]\n[packs.agents]\nprojects = [{folder}]\n\
         [packs.agents.types.explore]\nprogram = \"command\"\ncommand = [\"cat\"]\n"
    ));
    let gateway = yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let spawn = |semantic_first: bool| {
        let prompt = "How does the lighthouse light its lamp?";
        let arguments = json!({ "prompt": prompt, "semantic_first": semantic_first });
        let spawned = user.call("agents__agent_spawn", &arguments);
        let id = spawned["structuredContent"]["id"].clone();
        soon("the end of the agent", || {
            let ended = user.call("agents__agent_output", &json!({ "task_id": id }));
            let run = &ended["structuredContent"];
            if run["status"] == "completed" { Ok(run["result"].to_string()) } else { Err(ended.to_string()) }
        })
    };
    let (with, without) = (spawn(true), spawn(false));
    assert!(with.contains("lighthouse.py") && with.contains("How does the lighthouse"), "{with}");
    assert!(!without.contains("lighthouse.py"), "{without}");
}

#[test]
fn a_writer_works_in_a_worktree_below_the_state_directory_and_leaves_the_project_clean() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).current_dir(project.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "x"]);
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.agents]\nprojects = [{folder}]\n\
         [packs.agents.types.explore]\nprogram = \"command\"\nwrite = true\ncommand = [\"sh\", \"-c\", \"pwd; cat\"]\n"
    ));
    let gateway = yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let spawned = user.call("agents__agent_spawn", &json!({ "prompt": "go" }));
    let id = spawned["structuredContent"]["id"].clone();
    let result = soon("the end of the agent", || {
        let ended = user.call("agents__agent_output", &json!({ "task_id": id }));
        let run = &ended["structuredContent"];
        if run["status"] == "completed" { Ok(run["result"].to_string()) } else { Err(ended.to_string()) }
    });
    assert!(result.contains("/state/packs/agents/worktrees/agent_"), "{result}");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1, "only the project itself");
    assert_eq!(git(&["status", "--porcelain"]), "", "the project is as it was");
}

#[test]
fn the_output_of_all_agents_is_on_the_event_stream_of_their_owner() {
    let scene = Scene::new("");
    let gateway = scene.yard.start();
    let address = gateway.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer user\r\n\r\n")
        .unwrap();
    let mut events = BufReader::new(stream).lines().map(Result::unwrap);
    events.find(String::is_empty).unwrap();
    let user = Client::new(&gateway, "user", "/mcp");
    let mut ids = ["explore", "stravinsky"].map(|kind| user.spawn(kind).0).to_vec();
    scene.go();
    let (mut lines, mut ended) = (Vec::new(), Vec::new());
    while ended.len() < 2 {
        let line = events.next().unwrap();
        let Some(event) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(event).unwrap();
        let id = event["event"]["agent"].as_str().unwrap_or_default().to_owned();
        if event["pack"] != "agents" {
            continue;
        }
        if event["event"]["line"] == "done" {
            lines.push(id);
        } else if event["event"]["status"] == "completed" {
            assert!(lines.contains(&id), "the last line comes before the end: {event}");
            ended.push(id);
        }
    }
    ids.sort();
    ended.sort();
    assert_eq!(ended, ids);
}

#[test]
fn a_blocking_agent_is_a_task_that_reports_its_end_after_the_gateway_was_killed() {
    let scene = Scene::new("");
    let arguments = json!({ "prompt": "go", "agent_type": "explore", "blocking": true });
    let params = json!({ "name": "agents__agent_spawn", "arguments": arguments });
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let started = user.request("tools/call", params.clone()).message()["result"].clone();
    assert_eq!(started["resultType"], "task", "{started}");
    let lost = started["taskId"].clone();
    assert_eq!(user.task(&lost)["status"], "working");
    let running = scene.yard.processes();
    gateway.signal(Signal::SIGKILL);
    soon("the end of all processes", || none(&scene.yard.left_of(&running)));
    drop(gateway);

    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let task = user.task(&lost);
    assert_eq!(task["error"]["message"], "the gateway was stopped while the task was running", "{task}");
    let started = user.request("tools/call", params).message()["result"].clone();
    scene.go();
    let done = soon("the end of the agent", || {
        let task = user.task(&started["taskId"]);
        if task["status"] == "completed" { Ok(task) } else { Err(task.to_string()) }
    });
    gateway.signal(Signal::SIGKILL);
    drop(gateway);

    let gateway = scene.yard.start();
    let after = Client::new(&gateway, "user", "/mcp").task(&started["taskId"]);
    assert_eq!(after["result"], done["result"]);
    assert_eq!(after["result"]["structuredContent"]["status"], "completed", "{after}");
}
