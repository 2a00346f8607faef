//! A hook that is a program: the event as JSON on stdin; exit status 0 passes and may print a verdict, 1 adds what it
//! wrote as a note, 2 blocks with what it wrote as the reason. Everything that it started ends with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use toolyard_link::child::{ChildSpec, Finished, run_to_end};
use toolyard_model::BoxFuture;

use crate::{Event, Hook, Verdict, reply};

/// The longest output that is read.
const LARGEST: usize = 16 * 1024 * 1024;

/// How often one command runs at the same time. Each hook has its own turns: calls that hang in one hook do not delay
/// the others, and the number of processes is bounded by the number of hooks in the config.
const AT_ONCE: usize = 16;

pub(crate) struct Command {
    spec: ChildSpec,
    turns: Arc<Semaphore>,
    limit: Duration,
}

impl Command {
    pub(crate) fn new(spec: ChildSpec, limit: Duration) -> Self {
        Self { spec, turns: Arc::new(Semaphore::new(AT_ONCE)), limit }
    }
}

impl Hook for Command {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let (spec, limit) = (self.spec.clone(), self.limit);
        Box::pin(async move {
            let mut input = event.to_json().to_string().into_bytes();
            input.push(b'\n');
            let finished = run_to_end(&spec, &input, LARGEST, limit).await;
            verdict(&finished.map_err(|reason| reason.to_string())?)
        })
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        Some(self.turns.clone())
    }
}

fn verdict(finished: &Finished) -> Result<Verdict, String> {
    let Finished { code, stdout, stderr, .. } = finished;
    let written = || {
        let text = if stderr.trim_ascii().is_empty() { stdout } else { stderr };
        let text = String::from_utf8_lossy(text).trim().to_owned();
        if text.is_empty() { "it gave no reason".to_owned() } else { text }
    };
    match code {
        Some(0) => reply::read(stdout),
        Some(1) => Ok(Verdict::note(written())),
        Some(2) => Ok(Verdict::block(written())),
        _ => Err(format!("it {}", finished.how)),
    }
}
