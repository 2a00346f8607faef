//! Scripts that run, and those that have ended. Each is a child of the gateway under its guard, so that none outlives
//! it, and is stopped with everything that it has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use toolyard_tool::host::{Child, ChildCommand};
use toolyard_tool::{Host, ToolError};

use crate::Config;
use crate::find::{self, Script};
use crate::log::{LONGEST_LINE, Log, Stream};

/// How many scripts run at a time.
const MOST_RUNNING: usize = 16;
/// How many that have ended are remembered.
const MOST_ENDED: usize = 32;
/// How long what was printed last is read after a script has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The scripts of one project.
pub(crate) struct Runs {
    pub(crate) config: Config,
    host: Host,
    next: AtomicU64,
    all: Mutex<Vec<Arc<Run>>>,
    /// One script is started at a time, so that none is started twice.
    starting: tokio::sync::Mutex<()>,
}

/// A script that was started.
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) script: String,
    pub(crate) pid: u32,
    pub(crate) started: SystemTime,
    pub(crate) log: Log,
    state: watch::Sender<State>,
}

/// Whether a script runs, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It is being stopped.
    Stopping,
    /// It was stopped.
    Stopped,
    /// It ended by itself; without a code it was killed.
    Exited(Option<i32>),
}

impl State {
    fn has_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Exited(_))
    }
}

impl Run {
    pub(crate) fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.has_ended()).await;
    }
}

impl Runs {
    pub(crate) fn new(config: Config, host: Host) -> Self {
        Self {
            config,
            host,
            next: AtomicU64::new(1),
            all: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Run>>> {
        self.all.lock()
    }

    /// The running scripts and the last ones that have ended, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Run>> {
        self.all().iter().rev().cloned().collect()
    }

    /// The run with this id, or the newest of the script with this name.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Run>, ToolError> {
        let runs = self.list();
        let is_named = |run: &&Arc<Run>| {
            run.id == name
                || run.script == name
                || run.script.split_once(':').is_some_and(|(_, own)| own == name)
        };
        runs.iter().find(is_named).cloned().ok_or_else(|| {
            ToolError::not_found(format!("no script `{name}` was started"))
                .hint("`status` shows the scripts that were started, `run` starts one")
        })
    }

    /// Starts a script. One that runs already is not started a second time.
    pub(crate) async fn start(&self, name: &str) -> Result<Arc<Run>, ToolError> {
        let script = find::find(&find::scripts(&self.config), name).map_err(ToolError::not_found)?;
        let _one_at_a_time = self.starting.lock().await;
        self.check(&script)?;
        let Some((program, arguments)) = script.command.split_first() else {
            return Err(ToolError::new(format!("the command of `{}` is empty", script.id)));
        };
        let root = &self.config.root;
        let command = ChildCommand::new(program).folder(root).runs_code_of(root);
        let command = arguments.iter().fold(command, ChildCommand::arg);
        let child = self.host.child(command).await;
        let child =
            child.map_err(|error| ToolError::new(format!("`{}` cannot be started: {error}", script.id)))?;
        let run = Arc::new(Run {
            id: format!("{}#{}", script.id, self.next.fetch_add(1, Ordering::Relaxed)),
            script: script.id,
            pid: child.control.pid(),
            started: SystemTime::now(),
            log: Log::new(),
            state: watch::Sender::new(State::Running),
        });
        self.host.spawn(&run.id, attend(run.clone(), child));
        let mut all = self.all();
        all.push(run.clone());
        if all.iter().filter(|run| run.state().has_ended()).count() > MOST_ENDED
            && let Some(oldest) = all.iter().position(|run| run.state().has_ended())
        {
            all.remove(oldest);
        }
        Ok(run)
    }

    fn check(&self, script: &Script) -> Result<(), ToolError> {
        let all = self.all();
        let mut running = all.iter().filter(|run| !run.state().has_ended());
        if let Some(run) = running.clone().find(|run| run.script == script.id) {
            return Err(ToolError::new(format!("`{}` runs already, as `{}`", script.id, run.id))
                .hint("read its log with `logs`, or `stop` it first"));
        }
        if running.nth(MOST_RUNNING - 1).is_some() {
            return Err(
                ToolError::new(format!("{MOST_RUNNING} scripts run already")).hint("`stop` one first")
            );
        }
        Ok(())
    }

    /// Stops a script with everything that it has started, and waits for its end.
    pub(crate) async fn stop(&self, name: &str) -> Result<Arc<Run>, ToolError> {
        let run = self.get(name)?;
        run.state.send_if_modified(|state| {
            let runs = *state == State::Running;
            if runs {
                *state = State::Stopping;
            }
            runs
        });
        run.ended().await;
        Ok(run)
    }
}

/// Reads what a script prints until it has ended, by itself or because it is stopped.
async fn attend(run: Arc<Run>, child: Child) {
    // Some programs end when their input does, so it stays open.
    let Child { stdin: _stdin, stdout, stderr, mut control } = child;
    let printed = async {
        tokio::join!(read(&run, Stream::Stdout, stdout), read(&run, Stream::Stderr, stderr));
    };
    let (mut printed, mut is_read) = (Box::pin(printed), false);
    let mut states = run.state.subscribe();
    let exited = control.wait();
    let ended = async {
        tokio::select! {
            code = exited => Some(code),
            _ = states.wait_for(|state| *state == State::Stopping) => None,
        }
    };
    let mut ended = Box::pin(ended);
    let code = loop {
        tokio::select! {
            code = &mut ended => break code,
            () = &mut printed, if !is_read => is_read = true,
        }
    };
    // Also what a script that has ended by itself left behind.
    control.stop().await;
    if !is_read {
        let _ = tokio::time::timeout(DRAIN, printed).await;
    }
    run.state.send_replace(match code {
        None => State::Stopped,
        Some(code) => State::Exited(code.ok().flatten()),
    });
}

async fn read(run: &Run, stream: Stream, mut from: impl AsyncRead + Unpin) {
    let (mut chunk, mut line) = (vec![0; 8 * 1024], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        for piece in chunk[..length].split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST_LINE.saturating_sub(line.len());
            line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                run.log.push(stream, &line);
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        run.log.push(stream, &line);
    }
}
