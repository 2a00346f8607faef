//! Runs a command to its end, with one input, and keeps what it printed.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use toolyard_proto::Reason;

use super::system::{Held, describe};
use super::{ChildSpec, STATUS_WAIT, cannot_start};

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    /// How it ended, as a predicate.
    pub how: String,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs a command with this input until it has ended, or for as long as it may take. Of each output, `most` bytes are
/// kept and the rest is dropped. When the time is over or the future is dropped, the command is ended, and under a
/// guard everything that it has started.
pub async fn run_to_end(
    spec: &ChildSpec,
    input: &[u8],
    most: usize,
    limit: Duration,
) -> Result<Finished, Reason> {
    let mut held = Held::start(spec).map_err(|error| cannot_start(spec, &error))?;
    let Some(pipes) = held.pipes() else {
        return Err(Reason::new(format!("the pipes of `{}` could not be opened", spec.program.display())));
    };
    let ended = timeout(limit, until_end(&mut held, pipes, input, most)).await;
    let Ok(finished) = ended else {
        return Err(Reason::new(format!("it was not finished after {} s", limit.as_secs_f32())));
    };
    held.let_go().await;
    finished.map_err(|error| Reason::new("its end could not be awaited").because(error.to_string()))
}

async fn until_end(
    held: &mut Held,
    (stdin, stdout, stderr): (ChildStdin, ChildStdout, ChildStderr),
    input: &[u8],
    most: usize,
) -> std::io::Result<Finished> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let talking = async {
            tokio::join!(write(stdin, input), read(stdout, most, &mut out), read(stderr, most, &mut err))
        };
        let mut talking = Box::pin(talking);
        let mut is_over = false;
        let status = loop {
            tokio::select! {
                status = held.wait() => break status?,
                _ = &mut talking, if !is_over => is_over = true,
            }
        };
        if !is_over {
            // Reads what is still in the pipes. A process that the command left behind may hold them open.
            let _ = timeout(STATUS_WAIT, talking).await;
        }
        status
    };
    Ok(Finished { code: status.code(), how: describe(status), stdout: out, stderr: err })
}

/// Errors are ignored: a command need not read its input.
async fn write(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input).await;
    let _ = stdin.shutdown().await;
}

async fn read(mut pipe: impl AsyncRead + Unpin, most: usize, kept: &mut Vec<u8>) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        let room = most - kept.len();
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}
