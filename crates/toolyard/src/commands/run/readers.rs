//! The log of a script for other processes: `toolyard run` answers on a local socket of its own, and
//! `toolyard run --logs` asks there. A request is one line, with the arguments of the pack's tool `logs`; so is the answer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use toolyard_config::{LocalDoor, socket};
use toolyard_model::local::{self, LocalListener, LocalStream};
use toolyard_model::{Scope, accept_all};

use super::super::live::{self, Client};
use super::{Lines, WAIT, call, is_read, running};
use crate::failure::{Failure, refused};
use crate::say;
use crate::settings::variable;
use crate::stop::Stop;

/// How many readers a script has at a time.
const MOST: u32 = 8;
/// How long a reader may be silent, and how long it may take an answer.
const IDLE: Duration = Duration::from_mins(1);
/// The longest request.
const LONGEST: u64 = 16 * 1024;
/// For the last lines to be sent when the script has ended.
const GOODBYE: Duration = Duration::from_secs(2);
/// For an answer, beyond the time that it may wait for lines.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Found(Value),
    Error(String),
}

/// Answers readers until the scope ends.
pub(super) struct Readers {
    /// One permit for each reader.
    places: Arc<Semaphore>,
    pub(super) socket: Option<PathBuf>,
}

impl Readers {
    /// Listens for readers. If no socket can be made, the log cannot be read by other processes.
    pub(super) fn open(client: &Arc<Client>, run: &str, scope: &Scope) -> Self {
        let places = Arc::new(Semaphore::new(MOST as usize));
        let listener = path().and_then(|path| {
            socket::make_folder(&path).ok()?;
            LocalListener::bind(&path).ok()
        });
        let socket = listener.as_ref().map(|listener| listener.path().to_owned());
        if let Some(listener) = listener {
            let door = Door { client: client.clone(), run: run.to_owned() };
            scope.spawn(accept(listener, Arc::new(door), places.clone(), scope.clone()));
        }
        Self { places, socket }
    }

    /// Lets readers read the last lines: each disconnects once it has received the end of the script.
    pub(super) async fn goodbye(&self) {
        let _ = timeout(GOODBYE, self.places.acquire_many(MOST)).await;
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket.with_extension("lock"));
        }
    }
}

fn path() -> Option<PathBuf> {
    let path = socket::path(&LocalDoor::Default, "runs", &variable)?;
    Some(path.with_file_name(format!("{}.sock", std::process::id())))
}

struct Door {
    client: Arc<Client>,
    run: String,
}

async fn accept(listener: LocalListener, door: Arc<Door>, places: Arc<Semaphore>, scope: Scope) {
    let take = |stream| {
        if let Ok(place) = places.clone().try_acquire_owned() {
            let door = door.clone();
            scope.spawn(async move { drop(door.attend(stream, place).await) });
        }
    };
    match accept_all("readers", || listener.accept(), take).await {}
}

impl Door {
    async fn attend(&self, stream: LocalStream, _place: OwnedSemaphorePermit) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if timeout(IDLE, (&mut stream).take(LONGEST).read_line(&mut line)).await?? == 0 {
                return Ok(());
            }
            let reply = match serde_json::from_str::<Value>(&line) {
                Ok(wanted) => self.read(wanted).await,
                Err(error) => Reply::Error(error.to_string()),
            };
            let is_over = matches!(&reply, Reply::Found(found) if is_read(found));
            let reply = format!("{}\n", serde_json::to_string(&reply)?);
            timeout(IDLE, stream.write_all(reply.as_bytes())).await??;
            if is_over {
                return Ok(());
            }
        }
    }

    async fn read(&self, mut wanted: Value) -> Reply {
        wanted["script"] = json!(self.run);
        match call(&self.client, "logs", wanted).await {
            Ok(found) => Reply::Found(found),
            Err(Failure::Refused(problem)) => Reply::Error(problem.message),
            Err(failure) => Reply::Error(failure.text()),
        }
    }
}

/// What `--logs` prints.
pub(super) struct Wanted<'a> {
    pub(super) script: &'a str,
    pub(super) lines: &'a Lines,
    pub(super) since: Option<Duration>,
    pub(super) follow: bool,
}

pub(super) fn logs(wanted: &Wanted<'_>, root: &Path) -> Result<(), Failure> {
    let run = running::newest(wanted.script, root)?;
    let Some(socket) = &run.socket else {
        let help = "start the script with `--log FILE` and read the file";
        return Err(refused(format!("the log of {} cannot be read from here", run.script), help));
    };
    live::block_on(async {
        let mut stop = Stop::new()?;
        tokio::select! {
            done = print(wanted, &run.script, socket) => done,
            _ = stop.signal() => Ok(()),
        }
    })?
}

async fn print(wanted: &Wanted<'_>, script: &str, socket: &Path) -> Result<(), Failure> {
    let Ok(stream) = local::connect(socket).await else {
        say::line(format_args!("{script} has ended"));
        return Ok(());
    };
    local::refuse_strangers(&stream)?;
    let mut stream = BufReader::new(stream);
    // What is there, and then what comes after it.
    let mut arguments = wanted.lines.arguments();
    if let Some(since) = wanted.since {
        arguments["since_seconds"] = json!(since.as_secs().max(1));
    }
    let mut reads_on = false;
    loop {
        let Some(reply) = ask(&mut stream, &arguments).await? else {
            say::line(format_args!("{script} has ended"));
            return Ok(());
        };
        let found = match reply {
            Reply::Found(found) => found,
            Reply::Error(error) => return Err(refused(error, String::new())),
        };
        if reads_on {
            wanted.lines.print_next(&found, None)?;
        } else {
            wanted.lines.print_last(&found)?;
        }
        let has_ended = is_read(&found) || (!reads_on && found["state"] == "exited");
        if has_ended && wanted.follow {
            let code = found["exit_code"].as_i64();
            let how =
                code.map_or_else(|| "was killed".to_owned(), |code| format!("has ended with code {code}"));
            say::line(format_args!("{script} {how}"));
        }
        if !wanted.follow || has_ended || say::is_lost() {
            return Ok(());
        }
        reads_on = true;
        arguments = wanted.lines.arguments();
        (arguments["after"], arguments["wait"]) = (found["last"].clone(), json!(WAIT));
    }
}

/// Nothing if the process at the other end has ended.
async fn ask(stream: &mut BufReader<LocalStream>, arguments: &Value) -> Result<Option<Reply>, Failure> {
    let exchange = async {
        stream.write_all(format!("{arguments}\n").as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        io::Result::Ok(line)
    };
    let most = Duration::from_secs(WAIT) + PATIENCE;
    let Ok(answered) = timeout(most, exchange).await else {
        return Err(refused("the process that runs the script does not answer", String::new()));
    };
    let Ok(line) = answered else { return Ok(None) };
    Ok(serde_json::from_str(&line).ok())
}
