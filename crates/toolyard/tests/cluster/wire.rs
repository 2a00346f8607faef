//! A wire between two nodes that can be cut: its connections break, and new ones are closed at once.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How soon a connection on which nothing is sent breaks.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Wire(Arc<AtomicBool>);

impl Wire {
    /// Connections to the one port go on to the other.
    pub(crate) fn between(near: u16, far: u16) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let (listener, seen) = (TcpListener::bind(("127.0.0.1", near)).unwrap(), is_cut.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                pass_on(stream, far, &seen);
            }
        });
        Self(is_cut)
    }

    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// New connections pass again.
    pub(crate) fn restore(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Carries bytes both ways until either side ends or the wire is cut.
fn pass_on(near: TcpStream, port: u16, is_cut: &Arc<AtomicBool>) {
    if is_cut.load(Ordering::SeqCst) {
        return;
    }
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { return };
    for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
        let is_cut = is_cut.clone();
        std::thread::spawn(move || carry(from, to, &is_cut));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    from.set_read_timeout(Some(LOOK)).unwrap();
    while !is_cut.load(Ordering::SeqCst) {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(length @ 1..) if to.write_all(&buffer[..length]).is_ok() => {}
            _ => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
