//! Children on Unix: each in a process group of its own, or below a guard.

mod ours;
mod program;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{ChildSpec, PATIENCE};
use ours::Ours;

/// The hint about a program that may not be run.
pub(super) const MAY_NOT_RUN: &str = "make it executable (chmod +x)";

/// The pipe to a child's stdin, seen from outside. Must be dropped before the pipe can close, since it holds it open.
pub(crate) struct Input(OwnedFd);

impl Input {
    pub(crate) fn of(stdin: &ChildStdin) -> Option<Self> {
        stdin.as_fd().try_clone_to_owned().ok().map(Self)
    }

    /// Whether the child has not read everything that was written: it is still starting.
    pub(crate) fn is_unread(&self) -> bool {
        rustix::io::ioctl_fionread(&self.0).is_ok_and(|bytes| bytes > 0)
    }
}

/// A child with its handle. Dropping it early asks the child to end, without waiting for it.
pub(super) struct Held {
    hold: Hold,
    child: Child,
    grace: Duration,
}

impl Held {
    pub(super) fn start(spec: &ChildSpec) -> io::Result<Self> {
        if spec.guard.is_some() {
            program::check(spec)?;
        }
        let (child, ours) = ours::spawn(&mut command(spec))?;
        let hold = if spec.guard.is_some() { Hold::Guard(Some(ours)) } else { Hold::Group(ours) };
        Ok(Self { hold, child, grace: spec.grace })
    }

    /// Our ends of its pipes, once.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?, self.child.stderr.take()?))
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Its input is closed already: waits for it, then TERM, then KILL.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(PATIENCE, self.child.wait()).await {
            return status;
        }
        self.hold.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(PATIENCE, self.child.wait()).await {
            return status;
        }
        self.hold.signal(Signal::SIGKILL);
        self.child.wait().await
    }

    /// SIGTERM at once, and SIGKILL after its grace.
    pub(super) async fn terminate(&mut self) -> io::Result<ExitStatus> {
        self.hold.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(self.grace, self.child.wait()).await {
            return status;
        }
        // A second TERM makes a guard kill everything below it; killed itself, it could not.
        self.hold.signal(match self.hold {
            Hold::Group(_) => Signal::SIGKILL,
            Hold::Guard(_) => Signal::SIGTERM,
        });
        if let Ok(status) = timeout(PATIENCE, self.child.wait()).await {
            return status;
        }
        self.hold.signal(Signal::SIGKILL);
        self.child.wait().await
    }

    /// The id of the process that was started: the guard, if there is one.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// The child, or its guard, has ended: stops the orphans that were reparented to us.
    pub(super) async fn let_go(self) {
        self.hold.let_go().await;
    }
}

fn command(spec: &ChildSpec) -> Command {
    let command = match &spec.guard {
        None => spec.begin(&spec.program),
        Some(guard) => {
            let mut command = spec.begin(&guard.program);
            command.arg0(&guard.title).args(&guard.args).arg(&spec.program);
            command.envs(guard.env.iter().map(|(key, value)| (key, value)));
            command
        }
    };
    let mut command = spec.complete(command);
    // A guard that is killed cannot end what it guards.
    command.process_group(0).kill_on_drop(spec.guard.is_none());
    command
}

/// The handle of a child.
enum Hold {
    /// Its process group: a process that has left the group cannot be ended.
    Group(Ours),
    /// Its guard, until its status was fetched.
    Guard(Option<Ours>),
}

impl Hold {
    fn signal(&self, signal: Signal) {
        let _ = match self {
            Self::Group(ours) => killpg(ours.id(), signal),
            Self::Guard(Some(ours)) => kill(ours.id(), signal),
            Self::Guard(None) => Ok(()),
        };
    }

    async fn let_go(mut self) {
        if let Self::Guard(ours) = &mut self
            && let Some(ours) = ours.take()
        {
            ours.end_orphans().await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        match self {
            Self::Group(_) => self.signal(Signal::SIGKILL),
            Self::Guard(_) => self.signal(Signal::SIGTERM),
        }
    }
}

/// How it ended, as the end of a sentence about it.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.to_string());
            format!("was ended by signal {name}")
        }
        (None, None) => "exited".to_owned(),
    }
}
