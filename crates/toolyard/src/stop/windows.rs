//! What a console tells its programs: to stop, from the keyboard, because its window is closed, or because
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

    /// The next time somebody says so; its name.
    pub(crate) async fn signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl+C",
            _ = self.pause.recv() => "Ctrl+Break",
            _ = self.close.recv() => "CTRL_CLOSE",
            _ = self.shut_down.recv() => "CTRL_SHUTDOWN",
        }
    }
}

/// Nobody can tell a program here that its config has changed; it looks by itself.
pub(crate) struct Nudge;

impl Nudge {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }

    /// The next one.
    pub(crate) async fn felt(&mut self) {
        std::future::pending::<()>().await;
    }
}
