//! Finds the gateway of a config set, or starts one: several programs that look for it at the same time start
//! only one.
//!
//! A gateway counts as found only once it has answered: the socket of a gateway that was killed a moment ago may still
//! accept connections, and everything sent to it is lost. So no message of the client is sent before that answer.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use toolyard_config::standby::Standby;
use toolyard_config::{socket, state_dir};
use toolyard_model::local::{self, LocalStream};
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::{Message, Response};
use toolyard_serve::{REFUSED, REFUSED_TOKEN, REFUSED_VIEW};

use super::lines::{next_line, write_lines};
use super::opening::{Opening, TOKEN};
use crate::{log, system};

/// How long finding or starting a gateway may take.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// How long a standby gateway may take to notice that the other one has ended. It checks every second.
const STANDBY: Duration = Duration::from_secs(5);
/// How long a gateway may take to answer the first message.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// A ping, which every gateway answers in every view, before any handshake.
const KNOCK: &str = r#"{"jsonrpc":"2.0","id":"yard-join_running","method":"ping"}"#;
/// How much of the end of a log is shown.
const MAX_LOG_TAIL: usize = 2_000;

#[derive(Debug)]
pub struct GatewayLocator {
    socket: PathBuf,
    state_dir: Option<PathBuf>,
    start: Start,
}

/// A gateway that has answered.
pub(crate) enum JoinResult {
    /// It accepts the connection.
    Joined(LocalStream),
    /// It refuses the connection, with a reason.
    Refused(GatewayRefusal),
}

/// The answer of a gateway that refuses a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GatewayRefusal {
    pub(crate) why: String,
    pub(crate) about: About,
}

/// The subject of the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The token: another one may be accepted.
    Token,
    /// There is no such view.
    View,
    Other,
}

/// The command that starts a gateway: its arguments and its folder.
#[derive(Debug)]
pub struct Start {
    pub arguments: Vec<OsString>,
    pub folder: PathBuf,
}

impl GatewayLocator {
    pub fn new(socket: PathBuf, state_dir: Option<PathBuf>, start: Start) -> Self {
        Self { socket, state_dir, start }
    }

    /// Whether a gateway runs now.
    pub fn is_answered(&self) -> bool {
        self.sockets().any(|path| local::is_answered(&path))
    }

    /// A connection to the gateway, which is started if none runs. `opening` is sent before everything else.
    pub(crate) async fn join(&self, opening: &Opening) -> io::Result<JoinResult> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(met) = self.join_running(opening).await {
                return Ok(met);
            }
            if let Some(_lock) = self.lock()? {
                // The previous holder of the lock may have started one.
                return match self.join_running(opening).await {
                    Some(met) => Ok(met),
                    None => match self.standby(opening).await {
                        Some(met) => Ok(met),
                        None => self.start(opening, deadline).await,
                    },
                };
            }
            if Instant::now() > deadline {
                let message = format!(
                    "no gateway was running after {LIMIT:?}, although another process was starting one"
                );
                return Err(io::Error::other(message));
            }
            sleep(PAUSE).await;
        }
    }

    /// The addresses at which a gateway may listen: the published one, and the default.
    fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        let part = |path: &Path| path.file_name().map(OsStr::to_owned);
        let set = |path: &Path| (path.parent().and_then(part), part(path));
        let announced = self.state_dir.as_deref().and_then(state_dir::announced_socket);
        // Several config sets may share the folder.
        let announced = announced.filter(|path| set(path) == set(&self.socket));
        announced.into_iter().chain([self.socket.clone()])
    }

    async fn join_running(&self, opening: &Opening) -> Option<JoinResult> {
        for path in self.sockets() {
            if let Ok(stream) = local::connect(&path).await
                && local::refuse_strangers(&stream).is_ok()
                && let Ok(Some(met)) = timeout(FIRST_ANSWER, first_answer(stream, opening)).await
            {
                return Some(met);
            }
        }
        None
    }

    /// Takes the lock for starting a gateway; `None` if another process holds it.
    fn lock(&self) -> io::Result<Option<File>> {
        let path = self.socket.with_file_name("start.lock");
        let what =
            |error: io::Error| io::Error::new(error.kind(), format!("lock {}: {error}", path.display()));
        socket::make_folder(&self.socket).map_err(what)?;
        let file = File::options().create(true).append(true).open(&path).map_err(what)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(what(error)),
        }
    }

    /// Connects to a standby gateway that is about to replace one that has just ended.
    async fn standby(&self, opening: &Opening) -> Option<JoinResult> {
        let deadline = Instant::now() + STANDBY;
        while Standby::is_there(&self.socket) && Instant::now() < deadline {
            sleep(PAUSE).await;
            if let Some(met) = self.join_running(opening).await {
                return Some(met);
            }
        }
        None
    }

    async fn start(&self, opening: &Opening, deadline: Instant) -> io::Result<JoinResult> {
        let mut log = Log::open(self.state_dir.as_deref());
        let mut gateway = self.spawn(&log)?;
        loop {
            if let Some(met) = self.join_running(opening).await {
                return Ok(met);
            }
            if let Some(status) = gateway.try_wait()? {
                let message = format!("the gateway could not be started ({status}){}", log.log_tail());
                return Err(io::Error::other(message));
            }
            if Instant::now() > deadline {
                let message = format!("the gateway takes longer than {LIMIT:?} to start{}", log.log_tail());
                return Err(io::Error::other(message));
            }
            sleep(PAUSE).await;
        }
    }

    /// The gateway outlives this process: it detaches from our session, and runs while clients are connected.
    fn spawn(&self, log: &Log) -> io::Result<Child> {
        let what = |verb: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{verb}: {error}"))
        };
        let program = std::env::current_exe().map_err(what("find this program"))?;
        let mut command = Command::new(program);
        command.args(&self.start.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.writer());
        // The token identifies our client; the gateway and its children must not inherit it.
        command.env_remove(TOKEN);
        system::detach(&mut command);
        command.current_dir(&self.start.folder).spawn().map_err(what("start the gateway"))
    }
}

/// The first answer on a new connection; `None` if the connection ends without one.
async fn first_answer(mut stream: LocalStream, opening: &Opening) -> Option<JoinResult> {
    let first = opening.line().into_iter().chain([Bytes::from_static(KNOCK.as_bytes())]);
    write_lines(&mut stream, first).await.ok()?;
    // Nothing else is sent before this is answered, so the gateway has sent nothing after this line.
    let line = next_line(&mut LineDecoder::new(usize::MAX), &mut stream).await.ok()??;
    Some(refusal_in(&line).map_or(JoinResult::Joined(stream), JoinResult::Refused))
}

/// A gateway that accepts the client answers the ping with a result; an error means that it refuses the client.
fn refusal_in(line: &Bytes) -> Option<GatewayRefusal> {
    let Ok(Message::Response(Response { outcome: Err(error), .. })) = Message::parse(line) else {
        return None;
    };
    let why = error.member("message")?.as_string()?;
    let refused = error.at(&["data", REFUSED]).and_then(|refused| refused.as_string());
    let about = match refused.as_deref() {
        Some(REFUSED_TOKEN) => About::Token,
        Some(REFUSED_VIEW) => About::View,
        _ => About::Other,
    };
    Some(GatewayRefusal { why, about })
}

/// The gateway's stderr. The gateway has no terminal, so its stderr goes to a file in the state directory.
struct Log {
    file: Option<(PathBuf, File)>,
    /// The length of the log when it was opened.
    start: u64,
}

impl Log {
    fn open(folder: Option<&Path>) -> Self {
        let path = folder.map(|folder| folder.join(log::FILE));
        let length = path.as_deref().and_then(|path| path.metadata().ok()).map_or(0, |log| log.len());
        let is_too_long = length > log::MAX_LENGTH;
        let open = |path: PathBuf| {
            if is_too_long {
                let _ = std::fs::remove_file(&path);
            }
            let file = File::options().create(true).append(true).read(true).open(&path).ok()?;
            Some((path, file))
        };
        Self { file: path.and_then(open), start: if is_too_long { 0 } else { length } }
    }

    fn writer(&self) -> Stdio {
        let copy = self.file.as_ref().and_then(|(_, file)| file.try_clone().ok());
        copy.map_or_else(Stdio::null, Stdio::from)
    }

    /// The log since it was opened, as the end of an error message.
    fn log_tail(&mut self) -> String {
        let Some((path, file)) = &mut self.file else { return String::new() };
        let mut text = String::new();
        let read = file.seek(SeekFrom::Start(self.start)).and_then(|_| file.read_to_string(&mut text));
        let words: Vec<&str> = text.lines().rev().take(5).collect();
        let words: Vec<&str> = words.into_iter().rev().collect();
        let words: String = words.join("\n").chars().take(MAX_LOG_TAIL).collect();
        if read.is_err() || words.is_empty() {
            return format!("; its log is {}", path.display());
        }
        format!("; its stderr output (complete in {}):\n{words}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_refusal_is_the_one_that_the_gateway_names() {
        let check = |error: &str, expected: About| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,{error}}}}}"#);
            let refusal = refusal_in(&Bytes::from(line));
            assert_eq!(refusal.map(|refusal| refusal.about), Some(expected), "{error}");
        };
        check(r#""message":"no","data":{"dev.toolyard/refused":"token"}"#, About::Token);
        check(r#""message":"a token is required","data":{"dev.toolyard/refused":"view"}"#, About::View);
        check(r#""message":"a token is required","data":{"dev.toolyard/refused":"room"}"#, About::Other);
        check(r#""message":"the token is not accepted here""#, About::Other);
        check(r#""message":"there is no view \"token-store\"""#, About::Other);
        assert_eq!(refusal_in(&Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#)), None);
    }
}
