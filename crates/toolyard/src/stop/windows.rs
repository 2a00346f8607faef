//! Console events that stop a program: from the keyboard, because its window is closed, or because
//! the machine is shut down.

use anyhow::Result;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// Listens for all of them from the moment it is made.
pub(crate) struct Stop {
    interrupt: CtrlC,
    pause: CtrlBreak,
    close: CtrlClose,
    shut_down: CtrlShutdown,
}

impl Stop {
    pub(crate) fn new() -> Result<Self> {
        let (interrupt, pause) = (ctrl_c()?, ctrl_break()?);
        Ok(Self { interrupt, pause, close: ctrl_close()?, shut_down: ctrl_shutdown()? })
    }

    /// Waits for the next event; returns its name.
    pub(crate) async fn signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl+C",
            _ = self.pause.recv() => "Ctrl+Break",
            _ = self.close.recv() => "CTRL_CLOSE",
            _ = self.shut_down.recv() => "CTRL_SHUTDOWN",
        }
    }
}

/// There is no such signal on Windows; the files are read every second anyway.
pub(crate) struct Nudge;

impl Nudge {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    /// Never returns.
    pub(crate) async fn received(&mut self) {
        std::future::pending::<()>().await;
    }
}
