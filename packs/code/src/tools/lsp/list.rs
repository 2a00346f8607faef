//! `lsp_servers`: which servers are installed, which run, and how to install the rest. `lsp_health`: those that run.

use std::fmt::Write as _;

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_tool::{ToolError, WithText, tool};

use crate::servers::Found;
use crate::tools::Code;

#[derive(Serialize, JsonSchema)]
pub(crate) struct ServerList {
    servers: Vec<ServerState>,
    running: Vec<Process>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ServerState {
    name: String,
    languages: Vec<String>,
    /// Whether its program is there and runs.
    installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// How to install it.
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<String>,
    /// Whether it runs code of the project and therefore starts in trusted projects only.
    runs_project_code: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Process {
    server: String,
    project: String,
    /// `starting`, `loading`, `running`, `failed` or `stopped`.
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Requests that wait for an answer.
    pending: usize,
    /// What it is doing, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Lists the language servers: which are installed, which are running, and how to install the rest.
#[tool(read_only, idempotent)]
pub(crate) async fn lsp_servers(code: &Code) -> Result<WithText<ServerList>, ToolError> {
    let all = code.pool.servers();
    let found = join_all(all.iter().map(|server| code.pool.find(server, None))).await;
    let mut text = String::new();
    let mut servers = Vec::new();
    for (server, found) in all.iter().zip(found) {
        let mut languages: Vec<String> =
            server.extensions.iter().map(|(_, language)| language.clone()).collect();
        languages.dedup();
        let (found, problem) = match found {
            Ok(found) => (Some(found), None),
            Err(problem) => (None, Some(problem)),
        };
        let _ = match (&found, &problem) {
            (Some(Found { version, .. }), _) => {
                writeln!(
                    text,
                    "{}: installed{}",
                    server.name,
                    version.as_deref().map(|version| format!(", {version}")).unwrap_or_default()
                )
            }
            (None, problem) => writeln!(
                text,
                "{}: {}; to install it: {}",
                server.name,
                problem.as_deref().unwrap_or_default(),
                server.install
            ),
        };
        servers.push(ServerState {
            name: server.name.clone(),
            languages,
            installed: found.is_some(),
            install: found.is_none().then(|| server.install.clone()),
            program: found.as_ref().map(|found| found.program.display().to_string()),
            version: found.and_then(|found| found.version),
            problem,
            runs_project_code: server.runs_project_code,
        });
    }
    let running = running(code, &mut text);
    Ok(WithText::new(ServerList { servers, running }, text))
}

/// Lists the language servers that run: their projects, states and processes.
#[tool(read_only, idempotent)]
pub(crate) fn lsp_health(code: &Code) -> WithText<Vec<Process>> {
    let mut text = String::new();
    let running = running(code, &mut text);
    if running.is_empty() {
        text.push_str("No language server was started yet.");
    }
    WithText::new(running, text)
}

fn running(code: &Code, text: &mut String) -> Vec<Process> {
    let running: Vec<Process> = code.pool.statuses().into_iter().map(process).collect();
    for Process { server, project, state, pid, .. } in &running {
        let pid = pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
        let _ = writeln!(text, "{server} for {project}: {state}{pid}");
    }
    running
}

fn process(status: crate::servers::Status) -> Process {
    Process {
        server: status.server,
        project: status.root.display().to_string(),
        state: status.state.to_owned(),
        pid: status.pid,
        pending: status.pending,
        note: status.note,
    }
}
