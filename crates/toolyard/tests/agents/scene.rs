//! A gateway with the real programs as types of agents, their settings in a home of their own, and the model.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::PATIENCE;
use crate::http;
use crate::yard::{Gateway, Yard, within};

pub(crate) const PROGRAMS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

pub(crate) struct Scene {
    pub(crate) yard: Yard,
    project: TempDir,
    model: Child,
    port: String,
    waited: AtomicU64,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
        std::fs::write(project.path().join("notes.txt"), "a note\n").unwrap();
        git(project.path(), &["init", "--quiet"]);
        git(project.path(), &["add", "."]);
        git(
            project.path(),
            &["-c", "user.name=a", "-c", "user.email=a@example", "commit", "--quiet", "-m", "x"],
        );
        let touch = format!("touch {}", touched_in(yard.folder()).display());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/model.py");
        let mut model = Command::new("python3")
            .arg(script)
            .arg(project.path())
            .arg(touch)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(model.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().to_owned();
        settings(yard.folder(), &port);
        yard.also(&config(project.path(), yard.mark(), &port));
        Self { yard, project, model, port, waited: AtomicU64::new(0) }
    }

    /// Starts an agent and returns its id.
    pub(crate) fn spawn(&self, gateway: &Gateway, kind: &str, prompt: &str) -> String {
        let spawned = self.call(gateway, "agent_spawn", &json!({ "prompt": prompt, "agent_type": kind }));
        let id = spawned["structuredContent"]["id"].as_str();
        id.unwrap_or_else(|| panic!("{spawned}")).to_owned()
    }

    pub(crate) fn call(&self, gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
        self.ask(gateway, json!({ "name": format!("agents__{tool}"), "arguments": arguments }))
    }

    pub(crate) fn session_call(&self, gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
        self.ask(gateway, json!({ "name": format!("sessions__{tool}"), "arguments": arguments }))
    }

    /// A call of a client that can be asked.
    #[expect(clippy::unused_self, reason = "it reads like the other calls")]
    fn ask(&self, gateway: &Gateway, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        let name = params["name"].as_str().unwrap().to_owned();
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", name.as_str()),
            ("authorization", "Bearer user"),
        ];
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let message = http::post(gateway.url(), &headers, &message).message();
        assert!(message.get("error").is_none(), "{message}");
        message["result"].clone()
    }

    /// Answers the questions of an agent as its parent, until it has ended. One step may need several permissions.
    pub(crate) fn answer(&self, gateway: &Gateway, id: &str, is_allowed: bool) {
        assert!(self.answer_until_ended(gateway, id, is_allowed) > 0, "the agent asks");
    }

    /// Answers the questions that an agent has, if any; the number of questions.
    pub(crate) fn answer_until_ended(&self, gateway: &Gateway, id: &str, is_allowed: bool) -> usize {
        let base = json!({ "name": "agents__agent_output", "arguments": { "task_id": id, "block": true } });
        let mut asked = self.ask(gateway, base.clone());
        let mut questions = 0;
        while asked["resultType"] == "input_required" {
            let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert!(question.to_string().contains("asks to run"), "{question}");
            let mut again = base.clone();
            again["inputResponses"] =
                json!({ key: { "action": "accept", "content": { "allow": is_allowed } } });
            if let Some(state) = asked.get("requestState") {
                again["requestState"] = state.clone();
            }
            asked = self.ask(gateway, again);
            questions += 1;
        }
        questions
    }

    /// The run when it has ended.
    pub(crate) fn ended(&self, gateway: &Gateway, id: &str) -> Value {
        within(PATIENCE, "the end of an agent", || {
            let output = self.call(gateway, "agent_output", &json!({ "task_id": id }));
            let run = output["structuredContent"].clone();
            if run["status"] == "running" { Err(output.to_string()) } else { Ok(run) }
        })
    }

    /// Lets requests go on that wait, and all later ones.
    pub(crate) fn go(&self) {
        http::post(&format!("http://127.0.0.1:{}/go", self.port), &[], &json!({}));
    }

    /// Waits until one more request waits at the model.
    pub(crate) fn wait_for_request(&self) {
        let before = self.waited.load(Ordering::Relaxed);
        let now = within(PATIENCE, "a request to the model", || {
            let count = self.waiting();
            if count > before { Ok(count) } else { Err(format!("{count} wait")) }
        });
        self.waited.store(now, Ordering::Relaxed);
    }

    fn waiting(&self) -> u64 {
        use std::io::Write as _;
        let address = format!("127.0.0.1:{}", self.port);
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET /asked HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(&http::read(stream).body).unwrap()["waiting"].as_u64().unwrap()
    }

    /// The file that the command of the model makes.
    pub(crate) fn touched(&self) -> PathBuf {
        touched_in(self.yard.folder())
    }

    /// A file of the project.
    pub(crate) fn in_project(&self, name: &str) -> PathBuf {
        self.project.path().join(name)
    }

    pub(crate) fn worktrees(&self) -> usize {
        git(self.project.path(), &["worktree", "list"]).lines().count()
    }

    pub(crate) fn changes(&self) -> String {
        git(self.project.path(), &["status", "--porcelain"])
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.model.kill();
        let _ = self.model.wait();
    }
}

fn touched_in(folder: &Path) -> PathBuf {
    folder.join("touched")
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the programs read from their home.
fn settings(home: &Path, port: &str) {
    let write = |below: &str, text: &str| {
        let path = home.join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let url = format!("http://127.0.0.1:{port}/v1");
    write(
        ".codex/config.toml",
        &format!(
            "model = \"m\"\nmodel_provider = \"local\"\n[model_providers.local]\nname = \"local\"\n\
             base_url = \"{url}\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n"
        ),
    );
    let auth = json!({ "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } });
    let quiet = json!({ "usageStatisticsEnabled": false });
    let gemini = json!({ "security": auth, "privacy": quiet, "general": { "enableAutoUpdate": false } });
    write(".gemini/settings.json", &gemini.to_string());
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Local",
        "options": { "baseURL": url, "apiKey": "k" }, "models": { "m": { "name": "m" } },
    });
    let opencode = json!({
        "autoupdate": false, "share": "disabled", "model": "local/m", "small_model": "local/m",
        "permission": { "bash": "ask", "edit": "ask" }, "provider": { "local": provider },
    });
    write(".config/opencode/opencode.json", &opencode.to_string());
    // Claude Code does not ask in this mode, so `sleep` is allowed.
    write(".claude/settings.json", &json!({ "permissions": { "allow": ["Bash(sleep:*)"] } }).to_string());
}

fn config(project: &Path, mark: &str, port: &str) -> String {
    let folder = toml::Value::from(project.to_str().unwrap());
    let url = format!("http://127.0.0.1:{port}");
    let claude = format!(
        "env = {{ ANTHROPIC_BASE_URL = \"{url}\", ANTHROPIC_API_KEY = \"k\", DISABLE_AUTOUPDATER = \"1\", \
         CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }}"
    );
    let codex = "env = { OPENAI_API_KEY = \"k\" }";
    let gemini = format!(
        "model = \"gemini-2.5-flash\"\nenv = {{ GEMINI_API_KEY = \"k\", GOOGLE_GEMINI_BASE_URL = \"{url}\" }}"
    );
    let opencode = "env = { OPENCODE_DISABLE_AUTOUPDATE = \"1\", OPENCODE_DISABLE_MODELS_FETCH = \"1\" }";
    let kind = |name: &str, program: &str, more: &str| {
        format!("[packs.agents.types.{name}]\nprogram = \"{program}\"\ninherit = [\"{mark}\"]\n{more}\n")
    };
    // In the project itself, where the writer of a line can be found later.
    let here = |name: &str, program: &str, command: &str, more: &str| {
        kind(name, program, &format!("command = [{command}]\n{more}"))
    };
    let claude_here = r#""claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits""#;
    let codex_here = r#""codex", "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "-""#;
    let with_tools = |name: &str, more: &str| {
        kind(&format!("{name}-with-tools"), name, &format!("profile = \"work\"\n{more}"))
    };
    let adapter = |name: &str, command: &str, more: &str| {
        kind(name, "acp", &format!("command = [\"{command}\"]\n{more}"))
    };
    format!(
        "[listen]\ntoken = \"user\"\n[profiles.work]\nupstreams = [\"dev\"]\n[profiles.lead]\nupstreams = [\"agents\"]\n[packs.agents]\nprojects = [{folder}]\nconcurrent = 8\n\
         [packs.sessions]\nprograms = [\"claude\", \"codex\", \"gemini\"]\nprojects = [{folder}]\n{}",
        [
            kind("claude", "claude", &claude),
            kind("codex", "codex", codex),
            kind("gemini", "gemini", &gemini),
            kind("opencode", "opencode", opencode),
            kind("writer", "codex", &format!("write = true\n{codex}")),
            here("claude-here", "claude", claude_here, &claude),
            here("codex-here", "codex", codex_here, codex),
            kind("lead", "claude", &format!("profile = \"lead\"\nmay_spawn = true\n{claude}")),
            with_tools("claude", &claude),
            with_tools("codex", codex),
            with_tools("gemini", &gemini),
            with_tools("opencode", opencode),
            adapter("claude-acp", "claude-agent-acp", &claude),
            // By default its own model decides instead of the user.
            adapter("codex-acp", "codex-acp", &codex.replace(" }", ", INITIAL_AGENT_MODE = \"read-only\" }")),
        ]
        .concat(),
    )
}
