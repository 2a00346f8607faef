//! One initialised server: what it can do, which documents it knows, and whether it is still loading.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, LspError, Progress, State};
use crate::position::Encoding;
use crate::uri::uri_of;

/// Documents that are open at once. The one that was used least recently is closed for a new one.
const MAX_OPEN: usize = 64;
/// A server may register what it can do for this long after its start.
const REGISTRATION: Duration = Duration::from_secs(3);
/// Diagnostics may come in several steps; the last of them is this much later than the one before at most.
const SETTLING: Duration = Duration::from_millis(150);

/// How a server is initialised.
#[derive(Clone, Debug)]
pub struct Setup {
    pub root: PathBuf,
    pub initialization_options: Value,
    /// Whether the server reports its status, so that it counts as loading until it reports that it is not.
    pub reports_status: bool,
    pub limit: Duration,
}

/// An initialised server.
#[derive(Debug)]
pub struct Session {
    client: Client,
    capabilities: Value,
    encoding: Encoding,
    version: Option<String>,
    since: Instant,
    reports_status: bool,
    documents: Mutex<Documents>,
}

#[derive(Debug, Default)]
struct Documents {
    open: HashMap<PathBuf, Document>,
    uses: u64,
}

#[derive(Debug)]
struct Document {
    language: String,
    text: String,
    version: i64,
    last_use: u64,
    /// How many publications of diagnostics there were when the server got this text.
    publications: u64,
}

impl Session {
    /// Shakes hands with the server.
    pub async fn initialize(client: Client, setup: Setup) -> Result<Self, LspError> {
        let answer = client.request("initialize", greeting(&setup), setup.limit).await?;
        client.notify("initialized", &json!({}))?;
        let capabilities = answer["capabilities"].clone();
        Ok(Self {
            encoding: Encoding::of(&capabilities),
            capabilities,
            version: answer["serverInfo"]["version"].as_str().map(str::to_owned),
            client,
            since: Instant::now(),
            reports_status: setup.reports_status,
            documents: Mutex::default(),
        })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The server's own version, if it reported one.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// How long ago the server was initialised.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether the server can answer a method. A server that has just started may still register it.
    pub async fn supports(&self, method: &str) -> bool {
        if self.is_offered(method) {
            return true;
        }
        let registered = self.client.until(|state| is_registered(state, method).then_some(()));
        tokio::time::timeout_at(self.since + REGISTRATION, registered)
            .await
            .is_ok_and(|found| found.is_some())
    }

    fn is_offered(&self, method: &str) -> bool {
        let path: &[&str] = match method {
            "textDocument/hover" => &["hoverProvider"],
            "textDocument/definition" => &["definitionProvider"],
            "textDocument/references" => &["referencesProvider"],
            "textDocument/implementation" => &["implementationProvider"],
            "textDocument/documentSymbol" => &["documentSymbolProvider"],
            "workspace/symbol" => &["workspaceSymbolProvider"],
            "textDocument/rename" => &["renameProvider"],
            "textDocument/prepareRename" => &["renameProvider", "prepareProvider"],
            "textDocument/codeAction" => &["codeActionProvider"],
            "codeAction/resolve" => &["codeActionProvider", "resolveProvider"],
            "textDocument/diagnostic" => &["diagnosticProvider"],
            "workspace/diagnostic" => &["diagnosticProvider", "workspaceDiagnostics"],
            "textDocument/prepareCallHierarchy" => &["callHierarchyProvider"],
            "textDocument/prepareTypeHierarchy" => &["typeHierarchyProvider"],
            "textDocument/formatting" => &["documentFormattingProvider"],
            _ => return true,
        };
        let value = path.iter().fold(&self.capabilities, |value, key| &value[*key]);
        let is_offered = !matches!(value, Value::Null | Value::Bool(false));
        is_offered || self.client.look(|state| is_registered(state, method))
    }

    pub async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Value, LspError> {
        self.client.request(method, params, limit).await
    }

    /// Runs a command of the server; returns the edits that it asked for meanwhile.
    pub async fn command(&self, command: &Value, limit: Duration) -> Result<Vec<Value>, LspError> {
        self.client.take_edits();
        let params = json!({ "command": command["command"], "arguments": command["arguments"] });
        self.request("workspace/executeCommand", params, limit).await?;
        Ok(self.client.take_edits())
    }

    /// Gives the server the current text of a file, if it has another or none.
    pub fn sync(&self, path: &Path, language: &str, text: &str) -> Result<(), LspError> {
        let publications = self.client.look(|state| state.publications);
        let mut documents = self.documents.lock();
        documents.uses += 1;
        let now = documents.uses;
        let uri = uri_of(path);
        if let Some(document) = documents.open.get_mut(path) {
            document.last_use = now;
            if document.text == text {
                return Ok(());
            }
            document.version += 1;
            text.clone_into(&mut document.text);
            document.publications = publications;
            let identity = json!({ "uri": uri, "version": document.version });
            let change = json!({ "textDocument": identity, "contentChanges": [{ "text": text }] });
            self.client.notify("textDocument/didChange", &change)?;
            return self.client.notify("textDocument/didSave", &json!({ "textDocument": { "uri": uri } }));
        }
        if documents.open.len() >= MAX_OPEN {
            let oldest = documents.open.iter().min_by_key(|(_, document)| document.last_use);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                documents.open.remove(&oldest);
                self.close(&oldest)?;
            }
        }
        let document = Document {
            language: language.to_owned(),
            text: text.to_owned(),
            version: 1,
            last_use: now,
            publications,
        };
        documents.open.insert(path.to_owned(), document);
        let item = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
        self.client.notify("textDocument/didOpen", &json!({ "textDocument": item }))
    }

    fn close(&self, path: &Path) -> Result<(), LspError> {
        self.client.notify("textDocument/didClose", &json!({ "textDocument": { "uri": uri_of(path) } }))
    }

    /// The open documents with their languages.
    pub fn open_documents(&self) -> Vec<(PathBuf, String)> {
        let documents = self.documents.lock();
        documents.open.iter().map(|(path, document)| (path.clone(), document.language.clone())).collect()
    }

    /// Reports files that were made, changed or removed.
    pub fn files_changed(&self, files: &[(PathBuf, FileChange)]) -> Result<(), LspError> {
        for (path, _) in files.iter().filter(|(_, change)| *change == FileChange::Deleted) {
            let mut documents = self.documents.lock();
            if documents.open.remove(path).is_some() {
                self.close(path)?;
            }
        }
        let changes: Vec<Value> = files
            .iter()
            .map(|(path, change)| json!({ "uri": uri_of(path), "type": *change as u8 }))
            .collect();
        self.client.notify("workspace/didChangeWatchedFiles", &json!({ "changes": changes }))
    }

    /// The diagnostics that the server publishes for the text of `path` that it was given last. Nothing if it publishes
    /// none in time.
    pub async fn published(&self, path: &Path, limit: Duration) -> Option<Value> {
        let by = Instant::now() + limit;
        let (version, publications) = {
            let documents = self.documents.lock();
            documents.open.get(path).map(|document| (document.version, document.publications))?
        };
        let is_current = |state: &State| {
            let published = state.published.get(path)?;
            let is_current = match published.version {
                Some(known) => known >= version,
                None => published.sequence > publications,
            };
            is_current.then(|| published.clone())
        };
        let mut latest = tokio::time::timeout_at(by, self.client.until(is_current)).await.ok()??;
        loop {
            let newer = |state: &State| is_current(state).filter(|next| next.sequence > latest.sequence);
            match tokio::time::timeout_at((latest.at + SETTLING).min(by), self.client.until(newer)).await {
                Ok(Some(newer)) => latest = newer,
                Ok(None) | Err(_) => return Some(latest.list),
            }
        }
    }

    /// All diagnostics that were published, by file.
    pub fn all_published(&self) -> Vec<(PathBuf, Value)> {
        self.client.look(|state| {
            state.published.iter().map(|(path, published)| (path.clone(), published.list.clone())).collect()
        })
    }

    /// The server's description of its work while it loads the project; `None` when it is ready.
    pub fn loading(&self) -> Option<String> {
        self.client.look(|state| self.loading_in(state))
    }

    fn loading_in(&self, state: &State) -> Option<String> {
        if let Some(progress) = state.progress.values().max_by_key(|progress| progress.percentage) {
            return Some(in_words(progress));
        }
        let is_loading = self.reports_status && state.is_quiescent != Some(true);
        is_loading.then(|| "loading the project".to_owned())
    }

    /// Waits until the server has loaded the project, at most until `by`; returns what it is still doing otherwise.
    pub async fn loaded(&self, by: Instant, mut report: impl FnMut(&str)) -> Result<(), String> {
        let mut last = None;
        let ready = self.client.until(|state| match self.loading_in(state) {
            None => Some(()),
            Some(words) => {
                if last.as_ref() != Some(&words) {
                    report(&words);
                    last = Some(words);
                }
                None
            }
        });
        match tokio::time::timeout_at(by, ready).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.loading().unwrap_or_default()),
        }
    }

    /// Asks the server to end.
    pub async fn shutdown(&self, limit: Duration) {
        let _ = self.request("shutdown", Value::Null, limit).await;
        let _ = self.client.notify("exit", &Value::Null);
    }
}

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Created = 1,
    Changed = 2,
    Deleted = 3,
}

fn is_registered(state: &State, method: &str) -> bool {
    let method = match method {
        "textDocument/prepareRename" => "textDocument/rename",
        "codeAction/resolve" => "textDocument/codeAction",
        other => other,
    };
    state.registered.values().any(|(registered, options)| match method {
        "workspace/diagnostic" => {
            registered == "textDocument/diagnostic" && options["workspaceDiagnostics"] == true
        }
        _ => registered == method,
    })
}

fn in_words(progress: &Progress) -> String {
    let mut words = progress.title.clone();
    if let Some(message) = progress.message.as_ref().filter(|message| !message.is_empty()) {
        words = format!("{words}: {message}");
    }
    match progress.percentage {
        Some(percentage) => format!("{words} ({percentage} %)"),
        None => words,
    }
}

/// The parameters of `initialize`.
fn greeting(setup: &Setup) -> Value {
    let name = setup.root.file_name().unwrap_or_default().to_string_lossy();
    let root = uri_of(&setup.root);
    let dynamic = json!({ "dynamicRegistration": true });
    let linked = json!({ "dynamicRegistration": true, "linkSupport": true });
    let kinds = json!([
        "",
        "quickfix",
        "refactor",
        "refactor.extract",
        "refactor.inline",
        "refactor.rewrite",
        "source",
        "source.organizeImports",
        "source.fixAll"
    ]);
    let text_document = json!({
        "synchronization": { "dynamicRegistration": true, "didSave": true },
        "hover": { "dynamicRegistration": true, "contentFormat": ["markdown", "plaintext"] },
        "definition": linked, "implementation": linked, "references": dynamic, "formatting": dynamic,
        "callHierarchy": dynamic, "typeHierarchy": dynamic,
        "documentSymbol": { "dynamicRegistration": true, "hierarchicalDocumentSymbolSupport": true },
        "rename": { "dynamicRegistration": true, "prepareSupport": true },
        "codeAction": {
            "dynamicRegistration": true, "isPreferredSupport": true, "disabledSupport": true, "dataSupport": true,
            "codeActionLiteralSupport": { "codeActionKind": { "valueSet": kinds } },
            "resolveSupport": { "properties": ["edit", "command"] },
        },
        "diagnostic": { "dynamicRegistration": true },
        "publishDiagnostics": { "relatedInformation": true, "versionSupport": true, "codeDescriptionSupport": true },
    });
    let workspace = json!({
        "applyEdit": true, "configuration": true, "workspaceFolders": true, "executeCommand": dynamic,
        "didChangeConfiguration": dynamic, "symbol": dynamic,
        "workspaceEdit": { "documentChanges": true },
        "didChangeWatchedFiles": { "dynamicRegistration": true, "relativePatternSupport": true },
        "diagnostics": { "refreshSupport": true },
    });
    json!({
        "processId": std::process::id(),
        "clientInfo": { "name": "toolyard", "version": env!("CARGO_PKG_VERSION") },
        "rootUri": root, "rootPath": setup.root,
        "workspaceFolders": [{ "uri": root, "name": name }],
        "initializationOptions": setup.initialization_options,
        "capabilities": {
            "general": { "positionEncodings": ["utf-8", "utf-32", "utf-16"] },
            "textDocument": text_document, "workspace": workspace,
            "window": { "workDoneProgress": true, "showDocument": { "support": false } },
            "experimental": { "serverStatusNotification": true },
        },
    })
}
