//! The signals that end a program.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for the interrupt or terminate signal.
pub(in crate::serve) async fn end_signal() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
