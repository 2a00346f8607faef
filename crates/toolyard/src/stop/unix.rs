//! Signals: to stop (from the keyboard, by the system, or because the terminal is gone), and to read the config.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for all of them from the moment it is made.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Stop {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal; returns its name.
    pub(crate) async fn signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}

/// SIGUSR1: read the config at once. Not SIGHUP, which means here that the terminal is gone.
pub(crate) struct Nudge(Signal);

impl Nudge {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(signal(SignalKind::user_defined1())?))
    }

    /// Waits for the next signal.
    pub(crate) async fn received(&mut self) {
        let _ = self.0.recv().await;
    }
}
