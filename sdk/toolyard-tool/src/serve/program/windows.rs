//! Console events that end a program.

use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

/// Waits for Ctrl-C, or the end of the console window or of the system.
pub(in crate::serve) async fn end_signal() {
    let (Ok(mut interrupt), Ok(mut stop), Ok(mut close), Ok(mut shut_down)) =
        (ctrl_c(), ctrl_break(), ctrl_close(), ctrl_shutdown())
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = stop.recv() => {}
        _ = close.recv() => {}
        _ = shut_down.recv() => {}
    }
}
