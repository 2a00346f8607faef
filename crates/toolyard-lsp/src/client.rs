//! The connection to one server: requests out, answers matched by id, and what the server reports kept.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::frame::{self, FrameError};
use crate::incoming;

/// The maximum number of messages that wait to be written. A server that leaves more unread has failed.
const MAX_QUEUED: usize = 1024;
/// Requests that wait for their answers.
const MAX_PENDING: usize = 256;
/// How often a request is sent again because the server dropped it after a change of a file.
const MAX_RETRIES: u32 = 6;
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// Error codes of the protocol for "the content was modified" and "the server cancelled the request".
const CONTENT_MODIFIED: i64 = -32801;
const SERVER_CANCELLED: i64 = -32802;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspError {
    #[error("the server did not answer `{method}` within {} s", limit.as_secs())]
    Timeout { method: String, limit: Duration },
    #[error("the server rejected `{method}`: {message} ({code})")]
    Rejected { method: String, code: i64, message: String },
    #[error("the connection to the server is closed: {0}")]
    Closed(String),
    #[error("the server does not read its input: {MAX_QUEUED} messages are waiting")]
    Stuck,
    #[error("{MAX_PENDING} requests are waiting for the server")]
    Busy,
}

/// The settings of a client: its answers to requests of the server, and the receiver of the server's reports.
pub struct Options {
    /// The project's folder.
    pub root: PathBuf,
    /// The server's settings, by section.
    pub settings: Value,
    /// Called when the server has published diagnostics for a file.
    pub on_diagnostics: Box<dyn Fn(&Path) + Send + Sync>,
}

/// A connection. Cloning is cheap, and clones share it.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    state: Mutex<State>,
    /// Counts changes of the state that something can wait for.
    changed: watch::Sender<u64>,
    pub(crate) options: Options,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    next_id: i64,
    pending: HashMap<i64, oneshot::Sender<Reply>>,
    /// Why the connection ended.
    closed: Option<String>,
    /// Answers to no request of ours: late, doubled, or with an invented id.
    pub(crate) stray: u64,
    /// Work that the server reports, by token.
    pub(crate) progress: HashMap<String, Progress>,
    /// Whether the server has finished loading, if it reports that.
    pub(crate) is_quiescent: Option<bool>,
    /// Capabilities registered while running: method by registration id.
    pub(crate) registered: HashMap<String, (String, Value)>,
    pub(crate) published: HashMap<PathBuf, Published>,
    pub(crate) publications: u64,
    /// Edits that the server asked for while a command runs.
    pub(crate) edits: Vec<Value>,
}

/// The result of a request, or the code and the message of an error.
type Reply = Result<Value, (i64, String)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) title: String,
    pub(crate) message: Option<String>,
    pub(crate) percentage: Option<u64>,
}

/// Diagnostics that the server sent without being asked.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) version: Option<i64>,
    pub(crate) sequence: u64,
    pub(crate) at: Instant,
    pub(crate) list: Value,
}

impl Client {
    /// A connection over two streams, and the work that carries it. The connection ends with that work, which returns
    /// the reason.
    pub fn connect<R, W>(
        reader: R,
        writer: W,
        options: Options,
    ) -> (Self, impl Future<Output = String> + Send + use<R, W>)
    where
        R: AsyncRead + Send + Unpin,
        W: AsyncWrite + Send + Unpin,
    {
        let (outgoing, queue) = mpsc::channel(MAX_QUEUED);
        let (state, changed) = (Mutex::default(), watch::Sender::new(0));
        let client = Self(Arc::new(Shared { outgoing, state, changed, options }));
        let shared = client.0.clone();
        let work = async move {
            let reason = tokio::select! {
                reason = read_all(reader, &shared) => reason,
                reason = write_all(writer, queue) => reason,
            };
            shared.close(&reason);
            reason
        };
        (client, work)
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    pub async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Value, LspError> {
        let by = Instant::now() + limit;
        let mut pause = FIRST_RETRY;
        for attempt in 0.. {
            let answer = tokio::time::timeout_at(by, self.once(method, &params)).await;
            let out_of_time = || LspError::Timeout { method: method.to_owned(), limit };
            match answer.map_err(|_| out_of_time())? {
                Err(LspError::Rejected { code: CONTENT_MODIFIED | SERVER_CANCELLED, .. })
                    if attempt < MAX_RETRIES =>
                {
                    tokio::time::timeout_at(by, tokio::time::sleep(pause))
                        .await
                        .map_err(|_| out_of_time())?;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn once(&self, method: &str, params: &Value) -> Result<Value, LspError> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = self.0.state();
            if let Some(reason) = &state.closed {
                return Err(LspError::Closed(reason.clone()));
            }
            if state.pending.len() >= MAX_PENDING {
                return Err(LspError::Busy);
            }
            state.next_id += 1;
            let id = state.next_id;
            state.pending.insert(id, sender);
            id
        };
        let waiting = Waiting { shared: &self.0, id };
        self.0.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        let answer = answer.await;
        drop(waiting);
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err((code, message))) => Err(LspError::Rejected { method: method.to_owned(), code, message }),
            Err(_) => Err(LspError::Closed(self.closed().unwrap_or_else(|| "it ended".to_owned()))),
        }
    }

    pub fn notify(&self, method: &str, params: &Value) -> Result<(), LspError> {
        self.0.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// Why the connection ended, if it has.
    pub fn closed(&self) -> Option<String> {
        self.0.state().closed.clone()
    }

    /// How many requests wait for an answer.
    pub fn pending(&self) -> usize {
        self.0.state().pending.len()
    }

    /// How many answers belonged to no request.
    pub fn stray(&self) -> u64 {
        self.0.state().stray
    }

    /// Waits until `look` finds something in the state, or the connection ends.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&State) -> Option<T>) -> Option<T> {
        let mut changes = self.0.changed.subscribe();
        loop {
            {
                let state = self.0.state();
                if let Some(found) = look(&state) {
                    return Some(found);
                }
                if state.closed.is_some() {
                    return None;
                }
            }
            changes.changed().await.ok()?;
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.0.state())
    }

    /// Takes the edits that the server asked for so far.
    pub(crate) fn take_edits(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.state().edits)
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn send(&self, message: &Value) -> Result<(), LspError> {
        self.outgoing.try_send(frame::write(message)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LspError::Stuck,
            mpsc::error::TrySendError::Closed(_) => {
                LspError::Closed(self.state().closed.clone().unwrap_or_else(|| "it ended".to_owned()))
            }
        })
    }

    pub(crate) fn announce(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn close(&self, reason: &str) {
        let pending = {
            let mut state = self.state();
            state.closed.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut state.pending)
        };
        drop(pending);
        self.announce();
    }

    fn answered(&self, message: &Value) {
        let mut state = self.state();
        let waiting = message["id"].as_i64().and_then(|id| state.pending.remove(&id));
        let Some(waiting) = waiting else {
            state.stray += 1;
            return;
        };
        drop(state);
        let answer = match &message["error"] {
            Value::Null => Ok(message["result"].clone()),
            error => Err((
                error["code"].as_i64().unwrap_or_default(),
                error["message"].as_str().unwrap_or("no reason").to_owned(),
            )),
        };
        let _ = waiting.send(answer);
    }
}

/// A request under way. Dropped before the answer, it cancels the request.
struct Waiting<'a> {
    shared: &'a Shared,
    id: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let was_waiting = self.shared.state().pending.remove(&self.id).is_some();
        if was_waiting {
            let params = json!({ "id": self.id });
            let _ =
                self.shared.send(&json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": params }));
        }
    }
}

async fn read_all<R: AsyncRead + Send + Unpin>(reader: R, shared: &Shared) -> String {
    let mut reader = BufReader::new(reader);
    loop {
        let message = match frame::read(&mut reader).await {
            Ok(Some(message)) => message,
            Ok(None) => return "the server closed its output".to_owned(),
            Err(FrameError::Json(error)) => {
                tracing::debug!(target: "lsp", %error, "dropped a message that is not JSON");
                continue;
            }
            Err(error) => return error.to_string(),
        };
        if message["method"].is_string() {
            if let Err(error) = incoming::handle(shared, &message) {
                return error.to_string();
            }
        } else {
            shared.answered(&message);
        }
    }
}

async fn write_all<W: AsyncWrite + Send + Unpin>(
    mut writer: W,
    mut queue: mpsc::Receiver<Vec<u8>>,
) -> String {
    while let Some(frame) = queue.recv().await {
        if let Err(error) = writer.write_all(&frame).await {
            return format!("cannot write to the server: {error}");
        }
        if queue.is_empty()
            && let Err(error) = writer.flush().await
        {
            return format!("cannot write to the server: {error}");
        }
    }
    "the client was closed".to_owned()
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("root", &self.root).finish_non_exhaustive()
    }
}
