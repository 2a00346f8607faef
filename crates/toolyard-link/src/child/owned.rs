//! A child that is not an upstream: a program that a pack runs. Its owner has all three pipes; the process is
//! ended like any other child.

use std::io;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolyard_model::Scope;

use super::system::Held;
use super::{ChildSpec, cannot_start};

/// A child with its pipes.
#[derive(Debug)]
pub struct OwnedChild {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    pub handle: ChildHandle,
}

/// Waits for a child and stops it. Dropping the handle stops the child.
#[derive(Debug)]
pub struct ChildHandle {
    id: u32,
    stop: CancellationToken,
    exit: watch::Receiver<Option<ExitStatus>>,
}

/// Starts a program that ends with the scope.
pub fn start(spec: &ChildSpec, scope: &Scope) -> io::Result<OwnedChild> {
    let explain = |error: io::Error| io::Error::new(error.kind(), cannot_start(spec, &error).summary());
    let mut held = Held::start(spec).map_err(explain)?;
    let Some((stdin, stdout, stderr)) = held.pipes() else {
        return Err(io::Error::other(format!(
            "the pipes of `{}` could not be opened",
            spec.program.display()
        )));
    };
    let (id, stop) = (held.id(), CancellationToken::new());
    let (exited, exit) = watch::channel(None);
    scope.spawn(own(held, stop.clone(), exited));
    Ok(OwnedChild { stdin, stdout, stderr, handle: ChildHandle { id, stop, exit } })
}

/// Owns the process until it has ended and nothing of it is left.
async fn own(mut held: Held, stop: CancellationToken, exited: watch::Sender<Option<ExitStatus>>) {
    let status: io::Result<ExitStatus> = tokio::select! {
        status = held.wait() => status,
        () = stop.cancelled() => held.terminate().await,
    };
    held.let_go().await;
    exited.send_replace(Some(status.unwrap_or_default()));
}

impl ChildHandle {
    /// The id of the process that was started: the guard, if there is one.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the child has ended and returns its status; `None` if its scope ended first, and the child with it.
    pub fn exited(&self) -> impl Future<Output = Option<ExitStatus>> + Send + use<> {
        let mut exit = self.exit.clone();
        async move { exit.wait_for(Option::is_some).await.ok().and_then(|status| *status) }
    }

    /// Makes the child end: TERM at once, KILL later. Wait for [`exited`](Self::exited).
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
