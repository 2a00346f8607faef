//! An upstream as a child process: spawned without a shell in a process group of its own, its stderr read
//! into our log, and stopped so that nothing of it stays behind.

mod stderr;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::Scope;
use crate::stream::LastWords;
use stderr::Tail;

/// How long a child may take to end after its input was closed, and again after TERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the end of a stream waits for the exit status that explains it.
const STATUS_WAIT: Duration = Duration::from_millis(250);

/// What to run. Comes from trusted config only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildSpec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Added to our own environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
}

impl ChildSpec {
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new(), cwd: None }
    }

    /// The command as a person would type it.
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

/// A running child. Cheap to clone; the process is owned by a task of its scope and dies with it.
#[derive(Clone)]
pub(crate) struct Process {
    stop: CancellationToken,
    exit: watch::Receiver<Option<ExitStatus>>,
    tail: Tail,
}

/// A child that has just been started, with its ends of the pipes.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// Starts the command. The error says what to do about it.
pub(crate) fn spawn(name: &Arc<str>, spec: &ChildSpec, scope: &Scope) -> Result<Started, String> {
    let mut child = spec.command().spawn().map_err(|error| cannot_start(spec, &error))?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(format!("the pipes of `{}` could not be opened", spec.line()));
    };
    tracing::debug!(upstream = %name, command = %spec.line(), "started");
    let (tail, stop) = (Tail::default(), CancellationToken::new());
    let (exited, exit) = watch::channel(None);
    scope.spawn(stderr::read(name.clone(), stderr, tail.clone()));
    scope.spawn(own(child, group, stop.clone(), exited));
    Ok(Started { process: Process { stop, exit, tail }, stdin, stdout })
}

fn cannot_start(spec: &ChildSpec, error: &io::Error) -> String {
    let program = spec.program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound if spec.cwd.as_ref().is_some_and(|cwd| !cwd.is_dir()) => {
            let cwd = spec.cwd.clone().unwrap_or_default();
            format!("the working directory `{}` does not exist: create it or change `cwd`", cwd.display())
        }
        io::ErrorKind::NotFound => {
            format!("program `{program}` was not found: install it, or give its full path as `command`")
        }
        io::ErrorKind::PermissionDenied => {
            format!("program `{program}` may not be run: make it executable (chmod +x), or change `command`")
        }
        _ => format!("program `{program}` could not be started: {error}"),
    }
}

/// Owns the child until it has ended, of itself or because it was told to.
async fn own(
    mut child: Child,
    group: Group,
    stop: CancellationToken,
    exited: watch::Sender<Option<ExitStatus>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        () = stop.cancelled() => end(&mut child, &group).await,
    };
    drop(group);
    exited.send_replace(Some(status.unwrap_or_default()));
}

/// Its input is closed already: waits for it, then TERM, then KILL.
async fn end(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    if let Ok(status) = timeout(PATIENCE, child.wait()).await {
        return status;
    }
    group.signal(Signal::SIGTERM);
    if let Ok(status) = timeout(PATIENCE, child.wait()).await {
        return status;
    }
    group.signal(Signal::SIGKILL);
    child.wait().await
}

/// The process group of a child. Whatever is left of it is killed in the end.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            let _ = killpg(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

impl Process {
    /// Tells the child to end, without waiting. Its input must be closed by whoever holds it.
    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Ends the child and waits until it is gone.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.exited().await;
    }

    pub(crate) async fn exited(&self) {
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// Explains the end of the child's output by its exit status and its last words, and makes sure that it
    /// really ends.
    pub(crate) fn last_words(&self) -> LastWords {
        let process = self.clone();
        Box::new(move |why| {
            Box::pin(async move {
                let exited = timeout(STATUS_WAIT, process.exited()).await.is_ok();
                process.begin_stop();
                if exited { process.epitaph().await } else { why }
            })
        })
    }

    /// How a child that is gone has ended.
    pub(crate) async fn epitaph(&self) -> String {
        let status = *self.exit.borrow();
        let words = self.tail.last_words(STATUS_WAIT).await;
        format!("{}{words}", status.map_or("it was killed".to_owned(), describe))
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with status {code}"),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.to_string());
            format!("it was ended by signal {name}")
        }
        (None, None) => "it exited".to_owned(),
    }
}
