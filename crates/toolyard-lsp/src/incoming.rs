//! Handles messages that servers send by themselves: requests, which are all answered, and reports, which are stored.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{LspError, Progress, Published, Shared};
use crate::uri::{path_of, uri_of};

/// Files whose published diagnostics are kept.
const MAX_PUBLISHED: usize = 10_000;
/// Work in progress that is kept.
const MAX_PROGRESS: usize = 1_000;
const MAX_REGISTERED: usize = 1_000;
const MAX_EDITS: usize = 100;
const METHOD_NOT_FOUND: i64 = -32601;

/// Handles a message with a method. An error means that the answer could not be sent.
pub(crate) fn handle(shared: &Shared, message: &Value) -> Result<(), LspError> {
    let method = message["method"].as_str().unwrap_or_default();
    let params = &message["params"];
    match &message["id"] {
        Value::Null => {
            report(shared, method, params);
            Ok(())
        }
        id => {
            let mut reply = json!({ "jsonrpc": "2.0", "id": id });
            if let Some(result) = answer(shared, method, params) {
                reply["result"] = result;
            } else {
                let text = format!("this client does not support `{method}`");
                reply["error"] = json!({ "code": METHOD_NOT_FOUND, "message": text });
            }
            shared.send(&reply)
        }
    }
}

/// The answer to a request of the server; nothing for an unknown method.
fn answer(shared: &Shared, method: &str, params: &Value) -> Option<Value> {
    match method {
        "workspace/configuration" => Some(configuration(&shared.options.settings, params)),
        "workspace/workspaceFolders" => {
            let root = &shared.options.root;
            let name = root.file_name().unwrap_or_default().to_string_lossy();
            Some(json!([{ "uri": uri_of(root), "name": name }]))
        }
        "client/registerCapability" => {
            register(shared, params);
            Some(Value::Null)
        }
        "client/unregisterCapability" => {
            unregister(shared, params);
            Some(Value::Null)
        }
        "workspace/applyEdit" => {
            let mut state = shared.state();
            if state.edits.len() < MAX_EDITS {
                state.edits.push(params["edit"].clone());
            }
            Some(
                json!({ "applied": false, "failureReason": "the client shows edits before it applies them" }),
            )
        }
        "window/showDocument" => Some(json!({ "success": false })),
        // Refreshes need no work: nothing is cached that a request does not ask for again.
        "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "workspace/diagnostic/refresh"
        | "workspace/inlayHint/refresh"
        | "workspace/inlineValue/refresh"
        | "workspace/semanticTokens/refresh"
        | "workspace/codeLens/refresh"
        | "workspace/foldingRange/refresh" => Some(Value::Null),
        _ => None,
    }
}

/// The settings of each section that is asked for; `null` for those that are not set.
fn configuration(settings: &Value, params: &Value) -> Value {
    let items = params["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sections = items.iter().map(|item| match item["section"].as_str() {
        None | Some("") => settings.clone(),
        Some(section) => section.split('.').fold(settings, |value, key| &value[key]).clone(),
    });
    Value::Array(sections.collect())
}

fn register(shared: &Shared, params: &Value) {
    {
        let mut state = shared.state();
        for registration in params["registrations"].as_array().into_iter().flatten() {
            let (Some(id), Some(method)) = (registration["id"].as_str(), registration["method"].as_str())
            else {
                continue;
            };
            if state.registered.len() < MAX_REGISTERED {
                let options = registration["registerOptions"].clone();
                state.registered.insert(id.to_owned(), (method.to_owned(), options));
            }
        }
    }
    shared.announce();
}

fn unregister(shared: &Shared, params: &Value) {
    // The protocol spells it this way.
    let list = params["unregisterations"].as_array().or_else(|| params["unregistrations"].as_array());
    let mut state = shared.state();
    for id in list.into_iter().flatten().filter_map(|one| one["id"].as_str()) {
        state.registered.remove(id);
    }
}

/// Keeps what a notification reports.
fn report(shared: &Shared, method: &str, params: &Value) {
    match method {
        "textDocument/publishDiagnostics" => published(shared, params),
        "$/progress" => progress(shared, params),
        "experimental/serverStatus" => {
            shared.state().is_quiescent = params["quiescent"].as_bool();
        }
        "window/logMessage" | "window/showMessage" => {
            let text = params["message"].as_str().unwrap_or_default();
            tracing::debug!(target: "lsp", text, "message of a language server");
        }
        _ => {}
    }
    shared.announce();
}

fn published(shared: &Shared, params: &Value) {
    let Some(path) = params["uri"].as_str().and_then(path_of) else { return };
    {
        let mut state = shared.state();
        state.publications += 1;
        let published = Published {
            version: params["version"].as_i64(),
            sequence: state.publications,
            at: Instant::now(),
            list: params["diagnostics"].clone(),
        };
        if state.published.len() < MAX_PUBLISHED || state.published.contains_key(&path) {
            state.published.insert(path.clone(), published);
        }
    }
    (shared.options.on_diagnostics)(&path);
}

fn progress(shared: &Shared, params: &Value) {
    let token = params["token"].to_string();
    let value = &params["value"];
    let mut state = shared.state();
    match value["kind"].as_str() {
        Some("end") => {
            state.progress.remove(&token);
        }
        Some("begin") if state.progress.len() < MAX_PROGRESS => {
            let title = value["title"].as_str().unwrap_or_default().to_owned();
            state.progress.insert(token, updated(Progress { title, ..Progress::default() }, value));
        }
        Some("report") => {
            if let Some(known) = state.progress.remove(&token) {
                state.progress.insert(token, updated(known, value));
            }
        }
        _ => {}
    }
}

fn updated(progress: Progress, value: &Value) -> Progress {
    Progress {
        message: value["message"].as_str().map(str::to_owned).or(progress.message),
        percentage: value["percentage"].as_u64().or(progress.percentage),
        title: progress.title,
    }
}
