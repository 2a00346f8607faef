//! An upstream as a child process: it is started without a shell, its stderr output goes to our log, and stopping it
//! leaves no process behind.
//!
//! How this works depends on the system. On Unix, the gateway itself can stop only a process group, and only while it
//! is running. A [`Guard`] between the gateway and the child stops everything that the child has started, even if the
//! gateway is killed. On Windows a job does this, and no guard is needed.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod once;
mod stderr;
mod owned;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolyard_model::Scope;
use toolyard_proto::Reason;

use crate::stream::{Ending, ExplainEnd};
use stderr::Tail;
pub use stderr::{StderrLine, StderrLog};
use system::Held;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use once::{Finished, run_to_end};
pub use owned::{ChildHandle, OwnedChild, start};
pub use toolyard_guard::{Guard, Sandbox};

/// How long a child may take to end after its input was closed, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// The usual time between TERM and KILL for a program that a pack stops.
const GRACE: Duration = Duration::from_millis(1500);
/// How long the end of a stream waits for the exit status that explains it. A guard passes the status on after it has
/// ended everything that the child left behind, which takes half a second at most.
const STATUS_WAIT: Duration = Duration::from_millis(750);

/// The program to run. It comes from trusted config only. Arguments and environment may hold secrets and are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ChildSpec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Added to our own environment; the whole environment if ours is not inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Whether it gets our own environment.
    pub inherits_env: bool,
    pub cwd: Option<PathBuf>,
    pub guard: Option<Guard>,
    /// How long it may take to end after TERM, where it is stopped at once.
    pub grace: Duration,
    /// The log that keeps its stderr for operators.
    pub stderr: StderrLog,
}

impl ChildSpec {
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherits_env: true,
            cwd: None,
            guard: None,
            grace: GRACE,
            stderr: StderrLog::default(),
        }
    }

    /// A command with our environment or an empty one. Settings for a guard come after this.
    fn begin(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        if !self.inherits_env {
            command.env_clear();
        }
        command
    }

    /// The settings that are the same on all systems, for the program itself or for the program that runs it.
    fn complete(&self, mut command: Command) -> Command {
        command.args(&self.args).envs(self.env.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, env, inherits_env, cwd, guard, .. } = self;
        let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildSpec")
            .field("program", program)
            .field("args", &args.len())
            .field("env", &names)
            .field("inherits_env", inherits_env)
            .field("cwd", cwd)
            .field("guard", guard)
            .finish()
    }
}

pub(crate) use system::Input;

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

/// Starts the command.
pub(crate) fn spawn(name: &Arc<str>, spec: &ChildSpec, scope: &Scope) -> Result<Started, Reason> {
    let mut held = Held::start(spec).map_err(|error| cannot_start(spec, &error))?;
    let Some((stdin, stdout, stderr)) = held.pipes() else {
        return Err(Reason::new(format!("the pipes of `{}` could not be opened", spec.program.display())));
    };
    tracing::debug!(upstream = %name, program = %spec.program.display(), "started");
    let (tail, stop) = (Tail::new(spec.stderr.clone()), CancellationToken::new());
    let (exited, exit) = watch::channel(None);
    scope.spawn(stderr::read(name.clone(), stderr, tail.clone()));
    scope.spawn(own(held, stop.clone(), exited));
    Ok(Started { process: Process { stop, exit, tail }, stdin, stdout })
}

fn cannot_start(spec: &ChildSpec, error: &io::Error) -> Reason {
    let program = spec.program.to_string_lossy();
    let cwd = spec.cwd.clone().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound if spec.cwd.is_some() && !cwd.is_dir() => {
            Reason::new(format!("the working directory `{}` does not exist", cwd.display()))
                .with_hint("create it or change `cwd`")
        }
        io::ErrorKind::NotFound => {
            Reason::new(format!("program `{program}` was not found")).with_hint(split_hint(&program))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory if cwd.join(&spec.program).is_dir() => {
            Reason::new(format!("`{program}` is a folder, not a program"))
                .with_hint("name the program to run as `command`")
        }
        io::ErrorKind::PermissionDenied => Reason::new(format!("program `{program}` may not be run"))
            .with_hint(format!("{}, or change `command`", system::MAY_NOT_RUN)),
        _ => Reason::new(format!("program `{program}` could not be started"))
            .because(error.to_string())
            .with_hint("check `command`"),
    }
}

/// A command line in `command` is a frequent mistake.
fn split_hint(program: &str) -> String {
    let mut words = program.split_whitespace();
    match words.next() {
        Some(first) if first.len() < program.trim().len() => {
            let args: Vec<String> = words.map(|word| format!("{word:?}")).collect();
            format!("write `command = {first:?}`, `args = [{}]`", args.join(", "))
        }
        _ => "install it, or give its full path as `command`".to_owned(),
    }
}

/// Owns the child until it has ended, by itself or on request, and nothing of it is left.
async fn own(mut held: Held, stop: CancellationToken, exited: watch::Sender<Option<ExitStatus>>) {
    let status = tokio::select! {
        status = held.wait() => status,
        () = stop.cancelled() => held.end().await,
    };
    held.let_go().await;
    exited.send_replace(Some(status.unwrap_or_default()));
}

impl Process {
    /// Asks the child to end, without waiting. The owner of the child's input must close it.
    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Stops the child and waits until it has ended.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.exited().await;
    }

    pub(crate) async fn exited(&self) {
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// Explains the end of the child's output by its exit status and its stderr output, and makes sure that it
    /// really ends.
    pub(crate) fn explain_end(&self) -> ExplainEnd {
        let process = self.clone();
        Box::new(move |ending| {
            Box::pin(async move {
                let exited = timeout(STATUS_WAIT, process.exited()).await.is_ok();
                process.begin_stop();
                if exited { process.exit_cause().await } else { ending }
            })
        })
    }

    /// How a child ended, as a predicate.
    pub(crate) async fn exit_cause(&self) -> Ending {
        let status = *self.exit.borrow();
        let what = status.map_or("was killed".to_owned(), system::describe);
        Ending { what, stderr: self.tail.text(STATUS_WAIT).await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_its_secrets() {
        let secret = || OsString::from("hunter2");
        let guard = Guard {
            program: "g".into(),
            title: "t".into(),
            args: vec![secret()],
            env: vec![("K".into(), secret())],
        };
        let env = vec![("KEY".into(), secret())];
        let spec = ChildSpec { args: vec![secret()], env, guard: Some(guard), ..ChildSpec::new("server") };
        let shown = format!("{spec:?}");
        assert!(!shown.contains("hunter2") && shown.contains("server") && shown.contains("KEY"), "{shown}");
    }
}
