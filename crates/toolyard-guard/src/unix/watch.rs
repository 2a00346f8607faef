//! The work of a guard: wait for the end of the child, of the gateway, or for the word to stop; then end
//! everything below, and be sure of it.
//!
//! Everything the child starts stays below the guard, whatever it does, because orphans come to the guard.
//! So "nothing is left" is exactly "the guard has no children".

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::processes::{self, Ending};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// How often to look who is left while ending them.
const ROUND_MS: u8 = 20;
/// How often to look for the gateway where the system gives no handle to wait on.
const GATEWAY_MS: u8 = 250;
/// How long the child may take to end by itself after the gateway has ended, which closes its input.
const ALONE: Duration = Duration::from_millis(200);
/// Between TERM and KILL for what a child or a gateway leaves behind.
const GRACE: Duration = Duration::from_millis(500);
/// Between TERM and KILL when the gateway asks for it and still waits for the guard.
const GRACE_ON_REQUEST: Duration = Duration::from_millis(1500);

pub(super) struct Gateway {
    pub(super) id: Pid,
    /// Readable when the gateway has ended.
    pub(super) handle: Option<OwnedFd>,
}

/// Signals, received by handlers. Blocking them would be simpler, but the child would inherit the blocked signals.
pub(super) struct News {
    /// A byte for every child that ended.
    ended: UnixStream,
    /// A byte for every signal to end.
    stop_requested: UnixStream,
}

impl News {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { ended: on_signals(&[SIGCHLD])?, stop_requested: on_signals(&[SIGTERM, SIGINT, SIGHUP])? })
    }
}

fn on_signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// How many bytes have come.
fn drain(mut stream: &UnixStream) -> usize {
    stream.read(&mut [0; 64]).unwrap_or(0)
}

pub(super) struct Watch {
    child: Pid,
    status: Option<WaitStatus>,
    gateway: Gateway,
    news: News,
    ending: Option<Ending>,
}

impl Watch {
    pub(super) fn new(child: Pid, gateway: Gateway, news: News) -> Self {
        Self { child, status: None, gateway, news, ending: None }
    }

    /// Until nothing is left; gives how the child ended.
    pub(super) fn run(mut self) -> Option<WaitStatus> {
        while !self.is_alone() {
            self.judge();
            self.signal_the_rest();
            self.wait();
            self.handle_signals();
        }
        self.status
    }

    /// Whether it is time to end.
    fn judge(&mut self) {
        if getppid() != self.gateway.id {
            self.gateway.handle = None;
            self.end(ALONE, GRACE);
        } else if self.status.is_some() {
            self.end(Duration::ZERO, GRACE);
        }
    }

    /// Fetches the status of ended children; true if none is left.
    fn is_alone(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return true,
                Err(Errno::EINTR) => {}
                Ok(WaitStatus::StillAlive) | Err(_) => return false,
                Ok(status) if status.pid() == Some(self.child) => self.status = Some(status),
                Ok(_) => {}
            }
        }
    }

    /// Until there is news, or it is time to look.
    fn wait(&self) {
        let sources = [Some(self.news.ended.as_fd()), Some(self.news.stop_requested.as_fd())];
        let sources = sources.into_iter().chain([self.gateway.handle.as_ref().map(AsFd::as_fd)]);
        let mut sources: Vec<_> = sources.flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let limit = match (&self.ending, &self.gateway.handle) {
            (Some(_), _) => PollTimeout::from(ROUND_MS),
            (None, Some(_)) => PollTimeout::NONE,
            (None, None) => PollTimeout::from(GATEWAY_MS),
        };
        let _ = poll(&mut sources, limit);
    }

    /// A second signal ends everything at once.
    fn handle_signals(&mut self) {
        drain(&self.news.ended);
        for _ in 0..drain(&self.news.stop_requested) {
            let grace = if self.ending.is_none() { GRACE_ON_REQUEST } else { Duration::ZERO };
            self.end(Duration::ZERO, grace);
        }
    }

    fn end(&mut self, alone: Duration, grace: Duration) {
        let now = Instant::now();
        let ending = self.ending.get_or_insert_with(|| Ending::new(now, alone, grace));
        ending.hasten(now, alone, grace);
    }

    fn signal_the_rest(&mut self) {
        let now = Instant::now();
        if let Some(ending) = self.ending.as_mut().filter(|ending| ending.has_begun(now)) {
            let own_id = Pid::this().as_raw();
            ending.round(now, &processes::below(&[own_id], &processes::all()));
        }
    }
}
