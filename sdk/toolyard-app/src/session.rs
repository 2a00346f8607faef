//! One connection to Toolyard: registers, answers calls, announces changes, unregisters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use toolyard_model::{AnswerBody, Link, LinkRequest, Origin, Peer, Scope};
use toolyard_proto::app::{self, VERSION};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::line::{LineDecoder, one_line};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::token::Secret;
use toolyard_proto::{CallError, Id, Method, Raw, Revision};

use crate::AppStatus;
use crate::back::{CallBack, ChangeBack};
use crate::door::{Door, Reader, Writer};

/// How long it may take to be connected, and to be registered.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a gateway may take to prove that it knows the secret.
const PROOF_WITHIN: Duration = Duration::from_secs(2);
/// How long unregistering may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// How many answers may wait to be written.
const OUTBOX: usize = 256;
const CHUNK: usize = 16 * 1024;

/// Why a connection is over.
pub(crate) enum Ended {
    /// The app has ended it.
    Stopped,
    Lost(String),
}

pub(crate) struct Session {
    name: Arc<str>,
    link: Arc<dyn Link>,
    origin: Arc<Origin>,
    /// The scope that lives as long as the app does.
    parent: Scope,
    /// Calls, which end with the connection.
    scope: Scope,
    hang_up: CancellationToken,
    last: AtomicU64,
    outbox: mpsc::Sender<Bytes>,
    lines: Option<mpsc::Receiver<Bytes>>,
    calls: HashMap<i64, CancellationToken>,
    done: (mpsc::Sender<i64>, mpsc::Receiver<i64>),
}

impl Session {
    pub(crate) fn new(name: &Arc<str>, link: Arc<dyn Link>, scope: &Scope) -> Self {
        let (outbox, lines) = mpsc::channel(OUTBOX);
        let info = json!({ "name": "toolyard-app", "version": env!("CARGO_PKG_VERSION") });
        Self {
            name: name.clone(),
            link,
            origin: Origin::gateway(Raw::empty_object(), info.into()),
            parent: scope.clone(),
            scope: scope.child(),
            hang_up: CancellationToken::new(),
            last: AtomicU64::new(0),
            outbox,
            lines: Some(lines),
            calls: HashMap::new(),
            done: mpsc::channel(OUTBOX),
        }
    }

    pub(crate) async fn run(
        &mut self,
        door: &Door,
        session_id: &mut Option<String>,
        token: Option<String>,
        status: &watch::Sender<AppStatus>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Ended {
        let opened = tokio::select! {
            opened = tokio::time::timeout(PATIENCE, door.open()) => opened,
            _ = stopped.wait_for(|stopped| *stopped) => return Ended::Stopped,
        };
        match opened {
            Ok(Ok(streams)) => {
                let (lines, register) = (self.open(streams), Registration { token, secret: None });
                self.speak(lines, session_id, register, status, stopped).await
            }
            Ok(Err(error)) => Ended::Lost(format!("Toolyard cannot be reached: {error}")),
            Err(_) => Ended::Lost("Toolyard cannot be reached in time".into()),
        }
    }

    /// Starts to write to a connection; returns its lines.
    pub(crate) fn open(&mut self, (reader, writer): (Reader, Writer)) -> Lines {
        self.start_writing(writer);
        Lines::new(reader)
    }

    /// Registers over a connection, and answers until it ends.
    pub(crate) async fn speak(
        &mut self,
        mut lines: Lines,
        session_id: &mut Option<String>,
        registration: Registration,
        status: &watch::Sender<AppStatus>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Ended {
        let Registration { token, secret } = registration;
        if let Some(secret) = secret
            && let Err(why) = self.challenge(&secret, &mut lines).await
        {
            self.hang_up.cancel();
            return Ended::Lost(why);
        }
        let tools = match self.tools().await {
            Ok(tools) => tools,
            Err(error) => return Ended::Lost(format!("the tools cannot be listed: {error}")),
        };
        let register = json!({
            "type": "register", "appName": &*self.name, "version": VERSION, "pid": std::process::id(),
            "sessionId": session_id, "authToken": token,
        });
        let register = Raw::from(register).with("tools", &tools);
        let _ = self.outbox.send(one_line(register.into_bytes())).await;
        let ended = self.converse(lines, session_id, status, stopped).await;
        self.scope.cancel();
        if matches!(ended, Ended::Stopped) {
            let goodbye = async {
                let _ = self.outbox.send(Bytes::from_static(br#"{"type":"unregister"}"#)).await;
                // All permits are back once every line has been written.
                let _ = self.outbox.reserve_many(OUTBOX).await;
            };
            let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        }
        self.hang_up.cancel();
        ended
    }

    /// Asks a gateway that dialled for proof that it knows the secret, before it learns anything from us.
    async fn challenge(&self, secret: &Secret, lines: &mut Lines) -> Result<(), String> {
        let nonce = nonce().map_err(|error| format!("no random numbers: {error}"))?;
        let _ = self.outbox.send(app::challenge(&nonce)).await;
        let proven = async {
            loop {
                let Ok(message) = Raw::parse(lines.next().await?) else { continue };
                if message.member("type").and_then(|kind| kind.as_string()).as_deref() != Some("proof") {
                    continue;
                }
                let proofs = message.member("proofs").and_then(|proofs| proofs.read::<Vec<String>>().ok());
                let is_good = proofs.iter().flatten().any(|proof| secret.is_proof(&nonce, proof));
                return if is_good {
                    Ok(())
                } else {
                    Err("the proof was made with another secret".to_owned())
                };
            }
        };
        let proven = tokio::time::timeout(PROOF_WITHIN, proven).await;
        let proven = proven.unwrap_or_else(|_| Err(format!("no proof within {} s", PROOF_WITHIN.as_secs())));
        proven.map_err(|why| {
            tracing::warn!(app = %self.name, %why, "rejected a gateway that did not prove that it knows the secret");
            why
        })
    }

    /// Writes until the session ends, and then finishes the line.
    fn start_writing(&mut self, mut writer: Writer) {
        let (hang_up, lines) = (self.hang_up.clone(), self.lines.take());
        self.parent.spawn(async move {
            let Some(mut lines) = lines else { return };
            loop {
                let line = tokio::select! {
                    biased;
                    Some(line) = lines.recv() => line,
                    () = hang_up.cancelled() => break,
                };
                let whole = [&line[..], b"\n"].concat();
                if writer.write_all(&whole).await.is_err() {
                    return;
                }
            }
            let _ = writer.shutdown().await;
        });
    }

    async fn converse(
        &mut self,
        mut lines: Lines,
        session_id: &mut Option<String>,
        status: &watch::Sender<AppStatus>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Ended {
        let (change, mut changed) = mpsc::channel(1);
        self.listen(change);
        loop {
            let event = tokio::select! {
                line = lines.next() => Event::Line(line),
                Some(()) = changed.recv() => Event::Changed,
                Some(id) = self.done.1.recv() => Event::Done(id),
                _ = stopped.wait_for(|stopped| *stopped) => return Ended::Stopped,
            };
            match event {
                Event::Line(Err(why)) => return Ended::Lost(why),
                Event::Line(Ok(line)) => {
                    if let Some(why) = self.take(&line, session_id, status) {
                        return Ended::Lost(why);
                    }
                }
                Event::Changed => self.announce().await,
                Event::Done(id) => drop(self.calls.remove(&id)),
            }
        }
    }

    /// Handles a message from Toolyard. Returns the reason to end the session, if it is one.
    fn take(
        &mut self,
        line: &Bytes,
        session_id: &mut Option<String>,
        status: &watch::Sender<AppStatus>,
    ) -> Option<String> {
        let Ok(message) = Raw::parse(line.clone()) else { return None };
        let text = |key: &str| message.member(key).and_then(|value| value.as_string());
        let id = || message.member("correlationId").and_then(|id| id.read::<i64>().ok());
        match text("type").as_deref() {
            Some("registered") => {
                if let Some(id) = text("sessionId").filter(|id| !id.is_empty()) {
                    *session_id = Some(id);
                }
                for refused in
                    message.member("refused").and_then(|all| all.read::<Vec<Value>>().ok()).iter().flatten()
                {
                    tracing::warn!(app = %self.name, %refused, "a tool was refused");
                }
                status.send_replace(AppStatus::Registered);
            }
            Some("refused") => {
                let (reason, guidance) = (text("reason"), text("guidance"));
                tracing::warn!(app = %self.name, ?reason, ?guidance, "Toolyard refuses this app");
                return Some(format!("{}; {}", reason.unwrap_or_default(), guidance.unwrap_or_default()));
            }
            Some("toolInvocation") => self.invoke(id()?, &message),
            Some("cancel") => {
                if let Some(call) = self.calls.remove(&id()?) {
                    call.cancel();
                }
            }
            Some("heartbeat") if message.member("answer").is_none() => {
                let _ = self.outbox.try_send(app::heartbeat_answer());
            }
            _ => {}
        }
        None
    }

    fn invoke(&mut self, id: i64, message: &Raw) {
        let arguments = message.member("parameters").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
        let name = message.member("tool").unwrap_or_else(|| Raw::from_serialize(&""));
        let params = Raw::empty_object().with("name", &name).with("arguments", &arguments);
        let params = params.with_path(&["_meta", "progressToken"], &Raw::from_serialize(&id));
        let peer = Peer::new(Arc::new(CallBack { id, outbox: self.outbox.clone() }));
        let call = self.link.call(self.request(Method::TOOLS_CALL, &params), peer);
        let cancel = CancellationToken::new();
        let outbox = self.outbox.clone();
        let done = self.done.0.clone();
        self.calls.insert(id, cancel.clone());
        self.scope.spawn(async move {
            let answer = tokio::select! {
                answer = call => answer,
                () = cancel.cancelled() => return,
            };
            let result = match answer {
                Ok(AnswerBody::Whole(result, _)) => result,
                Ok(AnswerBody::Stream(_)) => Raw::from(json!({ "success": false, "error": "a stream" })),
                Err(error) => Raw::from(json!({ "success": false, "error": error.message() })),
            };
            let line =
                Raw::from(json!({ "type": "toolResponse", "correlationId": id })).with("result", &result);
            let _ = outbox.send(one_line(line.into_bytes())).await;
            let _ = done.send(id).await;
        });
    }

    fn request(&self, method: Method, params: &Raw) -> LinkRequest {
        let meta = RequestMeta {
            revision: Revision::NEWEST,
            capabilities: Raw::empty_object(),
            client_info: self.origin.client_info.clone(),
            log_level: None,
        };
        let id = Id::number(self.last.fetch_add(1, Ordering::Relaxed));
        let params = stamp_request(Some(params), &meta);
        LinkRequest::new(self.origin.clone(), id, method, params)
    }

    /// The tools that the set offers now, as an array.
    async fn tools(&self) -> Result<Raw, CallError> {
        let listed = self.link.call(self.request(Method::TOOLS_LIST, &Raw::empty_object()), Peer::none());
        match listed.await? {
            AnswerBody::Whole(result, _) => {
                result.member("tools").ok_or_else(|| CallError::bad_answer("there is no list of tools"))
            }
            AnswerBody::Stream(_) => Err(CallError::bad_answer("a list is not a stream")),
        }
    }

    fn listen(&self, change: mpsc::Sender<()>) {
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let peer = Peer::new(Arc::new(ChangeBack(change)));
        let listening = self.link.call(self.request(Method::LISTEN, &params.into()), peer);
        self.scope.spawn(async move { drop(listening.await) });
    }

    async fn announce(&self) {
        if let Ok(tools) = self.tools().await {
            let line = Raw::from(json!({ "type": "toolsChanged" })).with("tools", &tools);
            let _ = self.outbox.send(one_line(line.into_bytes())).await;
        }
    }
}

/// The registration that begins a connection.
pub(crate) struct Registration {
    pub(crate) token: Option<String>,
    /// The other side must prove that it knows this first.
    pub(crate) secret: Option<Secret>,
}

/// 128 random bits in hexadecimal digits.
fn nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(HEXLOWER.encode(&bytes))
}

enum Event {
    Line(Result<Bytes, String>),
    Changed,
    Done(i64),
}

pub(crate) struct Lines {
    reader: Reader,
    decoder: LineDecoder,
}

impl Lines {
    fn new(reader: Reader) -> Self {
        Self { reader, decoder: LineDecoder::new(MAX_MESSAGE) }
    }

    /// Cancel-safe: what was read is kept.
    async fn next(&mut self) -> Result<Bytes, String> {
        loop {
            if let Some(line) = self.decoder.next_line().map_err(|error| error.to_string())? {
                return Ok(line);
            }
            self.decoder.buffer().reserve(CHUNK);
            match self.reader.read_buf(self.decoder.buffer()).await {
                Ok(0) => return Err("Toolyard has closed the connection".into()),
                Ok(_) => {}
                Err(error) => return Err(format!("the connection is lost: {error}")),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.scope.cancel();
        self.hang_up.cancel();
    }
}
