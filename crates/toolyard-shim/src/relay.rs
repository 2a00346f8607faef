//! Carries lines between the client and the current gateway.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{ReadHalf, Stdout, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use toolyard_model::Scope;
use toolyard_model::local::LocalStream;
use toolyard_proto::RpcError;
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::codec::{MAX_MESSAGE, TooLarge};
use toolyard_proto::error::code;
use toolyard_proto::message::render_error;

use super::lines::{next_line, write_lines};
use super::locate_gateway::{GatewayLocator, JoinResult};
use super::memory::Memory;
use super::opening::Opening;

/// How many lines of the client may wait.
const ROOM: usize = 64;
/// How long a client that has closed its end may still get answers. The first list takes up to 5 s.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How long the last messages may take: those from a gateway that no longer reads, and our own to the client.
const LAST_WRITE: Duration = Duration::from_secs(1);
/// How long a hub session may take to reconnect to its instance, which the new gateway has to find first.
const RETURN: Duration = Duration::from_secs(15);
/// How long the first message of a client that cannot be served is awaited.
const FIRST_QUESTION: Duration = Duration::from_secs(10);
/// How long the client's next messages are awaited before the failure is reported.
const LAST_QUESTIONS: Duration = Duration::from_millis(200);
/// A connection that ends sooner was short.
const SHORT: Duration = Duration::from_secs(5);
/// How many short connections in a row may end without an answered call before the shim gives up.
const MOST_SHORT: u32 = 8;
/// The longest pause between two connections.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a call was not answered.
const LOST: &str = "the gateway was lost";
const TOO_LATE: &str = "stdin was closed 10 seconds ago";

pub(crate) struct Relay {
    locator: GatewayLocator,
    opening: Opening,
    memory: Mutex<Memory>,
    /// Whether a message to the client is being written.
    is_writing: AtomicBool,
}

/// How a connection ended.
enum Ended {
    /// The client has closed its end. If calls are still unanswered, the text is the reason.
    Client(Option<&'static str>),
    /// The gateway is lost, and with it the calls in flight.
    Gateway,
}

impl Relay {
    pub(crate) fn new(locator: GatewayLocator, opening: Opening, is_hub: bool) -> Self {
        Self {
            locator,
            opening,
            memory: Mutex::new(Memory::of_hub(is_hub)),
            is_writing: AtomicBool::new(false),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Runs until the client closes its end, or no gateway can be reached.
    pub(crate) async fn run(self) -> io::Result<()> {
        let scope = Scope::new();
        let mut stdout = tokio::io::stdout();
        let mut short = 0;
        let mut client = Client::listen(&scope);
        loop {
            let joined = tokio::select! {
                joined = self.locator.join(&self.opening) => joined,
                () = client.ended() => return self.farewell(&client, &mut stdout, Some(LOST)).await,
            };
            let stream = match joined {
                Ok(JoinResult::Joined(stream)) => {
                    self.opening.welcomed();
                    stream
                }
                Ok(JoinResult::Refused(refusal)) if self.opening.has_another(&refusal) => continue,
                Ok(JoinResult::Refused(refusal)) => {
                    let why = self.opening.explained(refusal);
                    self.give_up(&mut client, &mut stdout, &why).await;
                    return Err(io::Error::other(format!("the gateway refuses the connection: {why}")));
                }
                Err(error) => {
                    let why = format!("no gateway could be reached: {error}");
                    self.give_up(&mut client, &mut stdout, &why).await;
                    return Err(error);
                }
            };
            let (since, answers) = (Instant::now(), self.memory().answers());
            if let Ended::Client(why) = self.connection(stream, &mut client, &mut stdout).await? {
                return self.farewell(&client, &mut stdout, why).await;
            }
            short = if since.elapsed() < SHORT { short + 1 } else { 0 };
            // A gateway that has answered a call counts as useful, however often it ends.
            if short > MOST_SHORT && self.memory().answers() == answers {
                self.give_up(&mut client, &mut stdout, "the gateway keeps ending").await;
                let message = format!(
                    "the gateway ended {short} times in a row within {SHORT:?}; see its log for the reason"
                );
                return Err(io::Error::other(message));
            }
            let failures = self.memory().lost(LOST);
            tokio::select! {
                biased;
                written = write_lines(&mut stdout, failures) => written?,
                // A client that has closed its end and does not read has ended.
                () = client.left_alone() => return self.farewell(&client, &mut stdout, None).await,
            }
            tracing::warn!("lost the gateway; looking for another one");
            sleep(LONGEST_PAUSE.min(Duration::from_millis(50) * short.saturating_sub(1))).await;
        }
    }

    /// Answers every open request of the client with an error, including requests that were not sent to a gateway.
    async fn give_up(&self, client: &mut Client, stdout: &mut Stdout, why: &str) {
        let mut failures = self.memory().given_up(why);
        while let Ok(Some(line)) = timeout(LAST_QUESTIONS, client.lines.recv()).await {
            self.memory().client_sent(line);
        }
        failures.extend(self.memory().not_passed_on(why));
        // The client may have disconnected as well, or may not read.
        let _ = timeout(LAST_WRITE, write_lines(stdout, failures)).await;
    }

    /// Ends the session after the client has closed its end: answers its open calls with an error. A client that sent a
    /// line that is too long receives an error, too.
    async fn farewell(&self, client: &Client, stdout: &mut Stdout, why: Option<&str>) -> io::Result<()> {
        let failures = why.map(|why| self.memory().unanswered(why)).unwrap_or_default();
        // A client that does not read is not waited for.
        timeout(LAST_WRITE, write_lines(stdout, failures)).await.unwrap_or(Ok(()))?;
        let Some(trouble) = client.trouble.get() else { return Ok(()) };
        let error = RpcError::new(code::INVALID_REQUEST, trouble.to_string());
        let last = write_lines(stdout, [render_error(None, &error.to_raw())]);
        timeout(LAST_WRITE, last).await.unwrap_or(Ok(()))?;
        Err(io::Error::other("the client sent a line that is too long"))
    }

    /// One connection to a gateway, from the first line to the last.
    async fn connection(
        &self,
        stream: LocalStream,
        client: &mut Client,
        stdout: &mut Stdout,
    ) -> io::Result<Ended> {
        let (read, write) = tokio::io::split(stream);
        let mut down = std::pin::pin!(self.down(read, stdout));
        let write = tokio::select! {
            ended = &mut down => return ended,
            write = self.up(write, client) => write,
        };
        // Either the client has closed its end, or the gateway reads nothing more; in both cases answers may still
        // arrive.
        let is_client = client.has_ended();
        let last = timeout(if is_client { LAST_ANSWERS } else { LAST_WRITE }, async {
            tokio::select! {
                ended = &mut down => ended,
                () = self.idle(), if is_client => Ok(Ended::Client(None)),
            }
        });
        let last = last.await;
        drop(write);
        match last {
            Ok(Ok(Ended::Gateway)) if is_client => Ok(Ended::Client(Some(LOST))),
            Ok(ended) => ended,
            Err(_) if is_client => Ok(Ended::Client(Some(TOO_LATE))),
            Err(_) => Ok(Ended::Gateway),
        }
    }

    /// Waits until all calls of the client are answered and all answers have been written.
    async fn idle(&self) {
        while self.is_writing.load(Ordering::Relaxed) || !self.memory().is_idle() {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a hub session is connected to its instance again.
    async fn returned(&self) {
        while !self.memory().has_returned() {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Copies lines from the client to the gateway until either ends. Returns the writing end, because dropping it
    /// would disconnect from the gateway.
    async fn up(&self, mut write: WriteHalf<LocalStream>, client: &mut Client) -> WriteHalf<LocalStream> {
        let introduction = self.memory().introduction();
        if write_lines(&mut write, introduction).await.is_err() {
            return write;
        }
        // The client's next message may be a call to the instance that its session is connected to.
        let _ = timeout(RETURN, self.returned()).await;
        let mut before = self.memory().settings();
        before.extend(self.memory().repeats());
        if write_lines(&mut write, before).await.is_err() {
            return write;
        }
        while let Some(line) = client.lines.recv().await {
            let line = self.memory().client_sent(line);
            if write_lines(&mut write, line).await.is_err() {
                return write;
            }
        }
        write
    }

    /// Copies lines from the gateway to the client until the gateway ends. Fails if the client has disconnected.
    async fn down(&self, mut read: ReadHalf<LocalStream>, stdout: &mut Stdout) -> io::Result<Ended> {
        let mut decoder = LineDecoder::new(usize::MAX);
        while let Ok(Some(line)) = next_line(&mut decoder, &mut read).await {
            self.is_writing.store(true, Ordering::Relaxed);
            let lines = self.memory().gateway_sent(line);
            write_lines(stdout, lines).await?;
            self.is_writing.store(false, Ordering::Relaxed);
        }
        Ok(Ended::Gateway)
    }
}

/// Answers the first requests of a client that cannot be served with the reason. Users often see only this answer: most
/// clients do not show the stderr output of a server.
pub(crate) async fn refuse(why: &str) {
    let (scope, mut stdout, mut memory) = (Scope::new(), tokio::io::stdout(), Memory::of_hub(false));
    let mut client = Client::listen(&scope);
    let mut limit = FIRST_QUESTION;
    while let Ok(Some(line)) = timeout(limit, client.lines.recv()).await {
        memory.client_sent(line);
        limit = LAST_QUESTIONS;
    }
    // The client may have disconnected, or may not read.
    let _ = timeout(LAST_WRITE, write_lines(&mut stdout, memory.not_passed_on(why))).await;
}

/// The client's messages on stdin.
struct Client {
    lines: mpsc::Receiver<Bytes>,
    /// Ended with stdin.
    gone: Scope,
    /// Why stdin was not read to its end.
    trouble: Arc<OnceLock<TooLarge>>,
}

impl Client {
    fn listen(scope: &Scope) -> Self {
        let (sender, lines) = mpsc::channel(ROOM);
        let (gone, trouble) = (Scope::new(), Arc::new(OnceLock::new()));
        scope.spawn(read_client(sender, gone.clone(), trouble.clone()));
        Self { lines, gone, trouble }
    }

    fn has_ended(&self) -> bool {
        self.gone.is_ended() && self.lines.is_empty()
    }

    /// Waits until the client has closed its end, and then for as long as it may still read answers.
    async fn left_alone(&self) {
        self.gone.ended().await;
        sleep(LAST_ANSWERS).await;
    }

    /// Waits until the client has closed its end and all its messages have been read.
    async fn ended(&self) {
        self.gone.ended().await;
        if !self.lines.is_empty() {
            std::future::pending::<()>().await;
        }
    }
}

async fn read_client(sender: mpsc::Sender<Bytes>, gone: Scope, trouble: Arc<OnceLock<TooLarge>>) {
    let (mut stdin, mut decoder) = (tokio::io::stdin(), LineDecoder::new(MAX_MESSAGE));
    loop {
        match next_line(&mut decoder, &mut stdin).await {
            Ok(Some(line)) => {
                if sender.send(line).await.is_err() {
                    break;
                }
            }
            Ok(None) => {
                if let Some(last) = decoder.last_line() {
                    let _ = sender.send(last).await;
                }
                break;
            }
            Err(error) => {
                // It is set only here.
                let _ = trouble.set(error);
                break;
            }
        }
    }
    gone.cancel();
}
