//! Children on Windows: each in a job of its own, with all that it starts. The system ends a job when its last
//! handle is closed, and the only one is ours: nothing of a child outlives us, however we end, and no guard
//! is needed for that.
//!
//! There is no TERM. A child that does not end when its input is closed is killed.

mod program;

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::{ChildSpec, PATIENCE};

/// The hint about a program that may not be run.
pub(super) const MAY_NOT_RUN: &str = "check that you have read and execute permission";

/// The pipe to a child's stdin. What the child has read of it is not known here.
pub(crate) struct Input;

impl Input {
    pub(crate) fn of(_: &ChildStdin) -> Option<Self> {
        None
    }

    pub(crate) fn is_unread(&self) -> bool {
        false
    }
}

/// A child in its job. Dropping it ends the job.
pub(super) struct Held {
    job: Box<dyn ChildWrapper>,
}

impl Held {
    /// It begins to run when it is in its job, so nothing it starts can be outside.
    pub(super) fn start(spec: &ChildSpec) -> io::Result<Self> {
        let command = spec.complete(spec.begin(program::find(spec).as_ref()));
        let job = CommandWrap::from(command).wrap(KillOnDrop).wrap(JobObject).spawn()?;
        Ok(Self { job })
    }

    /// Our ends of its pipes, once.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        Some((self.job.stdin().take()?, self.job.stdout().take()?, self.job.stderr().take()?))
    }

    /// Waits for the child itself, and not for other processes that it has left in the job.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.job.inner_mut().wait().await
    }

    /// Its input is closed already: waits for it, then ends the job.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(PATIENCE, self.wait()).await {
            return status;
        }
        self.job.start_kill()?;
        self.wait().await
    }

    /// Ends the job at once.
    pub(super) async fn terminate(&mut self) -> io::Result<ExitStatus> {
        self.job.start_kill()?;
        self.wait().await
    }

    /// The id of the process that was started.
    pub(super) fn id(&self) -> u32 {
        self.job.id().unwrap_or_default()
    }

    /// The child is gone: ends what it has left in its job.
    #[expect(clippy::unused_async, reason = "elsewhere it takes a while")]
    pub(super) async fn let_go(mut self) {
        if let Err(error) = self.job.start_kill() {
            tracing::debug!(%error, "a job was not ended; it ends when it is closed");
        }
    }
}

/// How it ended, as the end of a sentence about it.
pub(super) fn describe(status: ExitStatus) -> String {
    status.code().map_or_else(|| "exited".to_owned(), |code| format!("exited with status {code}"))
}
