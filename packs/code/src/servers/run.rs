//! One server from its start to its end: kept current with the files, stopped when idle or too large.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;
use tokio::time::Instant;
use toolyard_lsp::{Client, FileChange, LspError, Options, Session, Setup, uri_of};
use toolyard_tool::host::{Child, ChildCommand};
use toolyard_tool::{Changes, Host};

use super::find::Found;
use super::known::Server;
use super::pool::Limits;
use super::watch::{Happened, Watch};
use crate::project::Project;

const INITIALIZE: Duration = Duration::from_secs(30);
const SHUTDOWN: Duration = Duration::from_secs(2);
/// Changes are passed on when none has come for this long.
const DEBOUNCE: Duration = Duration::from_millis(200);
const PULL: Duration = Duration::from_secs(20);
/// How often memory and idle time are checked.
const CHECK: Duration = Duration::from_secs(10);
/// The end of the error output that is kept.
const MAX_STDERR: usize = 4 * 1024;
/// How long the error output of a server that ended is read.
const LAST_OUTPUT: Duration = Duration::from_millis(300);
/// Changed files that wait to be passed on.
const MAX_CHANGED: usize = 10_000;

/// An initialised server of a project.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) project: Project,
    pub(crate) session: Session,
    pub(crate) pid: u32,
    changed: Mutex<BTreeMap<PathBuf, Happened>>,
    /// Diagnostics that were pulled last, by file.
    pulled: Mutex<HashMap<PathBuf, Value>>,
    changes: Changes,
}

/// What a server is started with.
pub(crate) struct Start {
    pub(crate) host: Host,
    pub(crate) server: Arc<Server>,
    pub(crate) found: Found,
    pub(crate) project: Project,
    pub(crate) limits: Limits,
    pub(crate) use_: Arc<Use>,
    pub(crate) changes: Changes,
}

/// When a server was used last, and whether it is to stop.
#[derive(Debug)]
pub(crate) struct Use {
    last: Mutex<Instant>,
    pub(crate) stop: Notify,
}

/// Why a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was not used, or another was used more.
    Unused,
    /// It used more memory than it may, in megabytes.
    Memory(u64),
    Crashed(String),
}

/// What the loop below waits for.
enum Event {
    Ended(String),
    Stop,
    Changed(PathBuf, Happened),
    PassOn,
    Check,
}

type Pump = Pin<Box<dyn Future<Output = String> + Send>>;

impl Default for Use {
    fn default() -> Self {
        Self { last: Mutex::new(Instant::now()), stop: Notify::new() }
    }
}

impl Use {
    pub(crate) fn touch(&self) {
        *self.last.lock() = Instant::now();
    }

    pub(crate) fn last(&self) -> Instant {
        *self.last.lock()
    }
}

/// Runs a server until it ends, for whatever reason. No process is left behind.
pub(crate) async fn run(start: Start, on_ready: impl FnOnce(Arc<Running>) + Send) -> End {
    let command =
        start.server.command.iter().skip(1).fold(ChildCommand::new(&start.found.program), ChildCommand::arg);
    let root = start.project.root();
    let command = if start.server.runs_project_code { command.runs_code_of(root) } else { command };
    let mut child = match start.host.child(command.folder(root)).await {
        Ok(child) => child,
        Err(error) => {
            return End::Crashed(format!("cannot start `{}`: {error}", start.found.program.display()));
        }
    };
    let stderr = Arc::new(Mutex::new(Vec::new()));
    let pid = child.control.pid();
    let (client, mut pump) = connect(&start, &mut child, stderr.clone());
    let setup = Setup {
        root: start.project.root().to_owned(),
        initialization_options: start.server.initialization_options.clone(),
        reports_status: start.server.reports_status,
        limit: INITIALIZE,
    };
    let end = match carried(&mut pump, Session::initialize(client, setup)).await {
        Err(reason) => End::Crashed(reason),
        Ok(Err(error)) => End::Crashed(error.to_string()),
        Ok(Ok(session)) => {
            let running = Arc::new(Running {
                server: start.server.clone(),
                project: start.project.clone(),
                session,
                pid,
                changed: Mutex::default(),
                pulled: Mutex::default(),
                changes: start.changes.clone(),
            });
            on_ready(running.clone());
            let end = serve(&start, &running, &mut pump).await;
            if !matches!(end, End::Crashed(_)) {
                let ending = async {
                    running.session.shutdown(SHUTDOWN).await;
                    tokio::time::timeout(SHUTDOWN, child.control.wait()).await
                };
                let _ = carried(&mut pump, ending).await;
            }
            end
        }
    };
    let code = tokio::time::timeout(SHUTDOWN, child.control.wait()).await;
    if code.is_err() {
        child.control.stop().await;
    }
    match end {
        End::Crashed(reason) => End::Crashed(with_stderr(&reason, &stderr)),
        end => end,
    }
}

fn connect(start: &Start, child: &mut Child, kept: Arc<Mutex<Vec<u8>>>) -> (Client, Pump) {
    let stdin = std::mem::replace(&mut child.stdin, Box::new(tokio::io::sink()));
    let stdout = std::mem::replace(&mut child.stdout, Box::new(tokio::io::empty()));
    let stderr = std::mem::replace(&mut child.stderr, Box::new(tokio::io::empty()));
    let changes = start.changes.clone();
    let options = Options {
        root: start.project.root().to_owned(),
        settings: start.server.settings.clone(),
        on_diagnostics: Box::new(move |path| changes.resource_updated(&diagnostics_uri(path))),
    };
    let (client, work) = Client::connect(stdout, stdin, options);
    let pump = async move {
        let mut tail = std::pin::pin!(keep_tail(stderr, &kept));
        let mut work = std::pin::pin!(work);
        let (reason, has_all) = tokio::select! {
            reason = &mut work => (reason, false),
            () = &mut tail => (work.await, true),
        };
        // The reason is often in what the server writes last.
        if !has_all {
            let _ = tokio::time::timeout(LAST_OUTPUT, tail).await;
        }
        reason
    };
    (client, Box::pin(pump))
}

/// Awaits something while messages go back and forth. An error is the reason why the connection ended.
async fn carried<T>(pump: &mut Pump, work: impl Future<Output = T>) -> Result<T, String> {
    let either = std::future::poll_fn({
        let mut work = Box::pin(work);
        move |context| {
            // The connection first: an answer may have come just before the end.
            let ended = pump.as_mut().poll(context);
            match work.as_mut().poll(context) {
                std::task::Poll::Ready(out) => std::task::Poll::Ready(Ok(out)),
                std::task::Poll::Pending => ended.map(Err),
            }
        }
    });
    either.await
}

/// Serves until something ends it.
async fn serve(start: &Start, running: &Running, pump: &mut Pump) -> End {
    let mut watch = Watch::start(start.project.root()).inspect_err(|error| {
        tracing::warn!(target: "code", project = %start.project.root().display(), %error, "cannot watch a project");
    }).ok();
    let (mut pass_on, mut check) = (None, Instant::now() + CHECK.min(start.limits.idle));
    loop {
        match next(start, pump, &mut watch, pass_on, check).await {
            Event::Ended(reason) => return End::Crashed(reason),
            Event::Stop => return End::Unused,
            Event::Changed(path, happened) => {
                running.note(path, happened);
                pass_on = Some(Instant::now() + DEBOUNCE);
            }
            Event::PassOn => {
                pass_on = None;
                match carried(pump, running.follow()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return End::Crashed(error.to_string()),
                    Err(reason) => return End::Crashed(reason),
                }
            }
            Event::Check => {
                if start.use_.last().elapsed() >= start.limits.idle {
                    return End::Unused;
                }
                let memory = memory_mb(running.pid, 0);
                if memory > start.limits.memory_mb {
                    return End::Memory(memory);
                }
                check = Instant::now() + CHECK.min(start.limits.idle);
            }
        }
    }
}

async fn next(
    start: &Start,
    pump: &mut Pump,
    watch: &mut Option<Watch>,
    pass_on: Option<Instant>,
    check: Instant,
) -> Event {
    let changed = async {
        match watch {
            Some(watch) => match watch.next().await {
                Some((path, happened)) => Event::Changed(path, happened),
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    };
    let never = check + CHECK;
    tokio::select! {
        reason = pump => Event::Ended(reason),
        () = start.use_.stop.notified() => Event::Stop,
        event = changed => event,
        () = tokio::time::sleep_until(pass_on.unwrap_or(never)), if pass_on.is_some() => Event::PassOn,
        () = tokio::time::sleep_until(check) => Event::Check,
    }
}

impl Running {
    fn note(&self, path: PathBuf, happened: Happened) {
        let mut changed = self.changed.lock();
        if changed.len() >= MAX_CHANGED {
            return;
        }
        let before = changed.get(&path).copied();
        let now = match (before, happened) {
            (Some(Happened::Created), Happened::Changed) => Happened::Created,
            (Some(Happened::Removed), Happened::Created) => Happened::Changed,
            (_, now) => now,
        };
        changed.insert(path, now);
    }

    /// Passes on what changed on the disk; returns the open files whose text is another.
    pub(crate) fn refresh(&self) -> Result<Vec<PathBuf>, LspError> {
        let changed = std::mem::take(&mut *self.changed.lock());
        let files: Vec<(PathBuf, FileChange)> = changed
            .into_iter()
            .map(|(path, happened)| {
                let change = match happened {
                    Happened::Removed => FileChange::Deleted,
                    Happened::Created => FileChange::Created,
                    Happened::Changed => FileChange::Changed,
                };
                (path, change)
            })
            .collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        self.session.files_changed(&files)?;
        let mut updated = Vec::new();
        for (path, language) in self.session.open_documents() {
            if files.iter().any(|(changed, _)| *changed == path)
                && let Some(text) = self.text(&path)
            {
                self.session.sync(&path, &language, &text)?;
                updated.push(path);
            }
        }
        Ok(updated)
    }

    /// The text of a file of the project.
    pub(crate) fn text(&self, path: &Path) -> Option<String> {
        self.project.text(path.strip_prefix(self.project.root()).ok()?)
    }

    /// Passes on changes, and announces diagnostics that changed with them.
    async fn follow(&self) -> Result<(), LspError> {
        for path in self.refresh()? {
            if self.session.supports("textDocument/diagnostic").await {
                let before = self.known(&path);
                let after = self.pull(&path).await.unwrap_or_default();
                if before.is_some_and(|before| before != after) {
                    self.changes.resource_updated(&diagnostics_uri(&path));
                }
            }
        }
        Ok(())
    }

    fn known(&self, path: &Path) -> Option<Value> {
        self.pulled.lock().get(path).cloned()
    }

    /// Asks for the diagnostics of an open file.
    pub(crate) async fn pull(&self, path: &Path) -> Result<Value, LspError> {
        let params = json!({ "textDocument": { "uri": uri_of(path) } });
        let answer = self.session.request("textDocument/diagnostic", params, PULL).await?;
        let list = answer["items"].clone();
        let mut pulled = self.pulled.lock();
        if pulled.len() < MAX_CHANGED {
            pulled.insert(path.to_owned(), list.clone());
        }
        Ok(list)
    }
}

/// The resource with the diagnostics of a file.
pub(crate) fn diagnostics_uri(path: &Path) -> String {
    format!("code://diagnostics{}", uri_of(path).trim_start_matches("file://"))
}

async fn keep_tail(mut from: Box<dyn AsyncRead + Send + Unpin>, kept: &Mutex<Vec<u8>>) {
    let mut part = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut part).await {
        let mut kept = kept.lock();
        kept.extend_from_slice(&part[..count]);
        let excess = kept.len().saturating_sub(MAX_STDERR);
        kept.drain(..excess);
    }
}

/// A reason with the last line of the error output.
fn with_stderr(reason: &str, stderr: &Mutex<Vec<u8>>) -> String {
    let kept = stderr.lock();
    let text = String::from_utf8_lossy(&kept);
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => {
            format!("{reason}; its last error output: {}", crate::search::shorten(line.trim(), 300))
        }
        None => reason.to_owned(),
    }
}

/// The memory of a process and of those it started, in megabytes. Known on Linux only.
fn memory_mb(pid: u32, depth: usize) -> u64 {
    const MAX_DEPTH: usize = 4;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let own =
        own.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024;
    if depth >= MAX_DEPTH {
        return own;
    }
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    own + children.map(|child| memory_mb(child, depth + 1)).sum::<u64>()
}
