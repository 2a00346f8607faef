//! A proxy between a node and NATS that breaks the connection while the node sends records of its audit.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::world::eventually;

/// What a message with records begins with.
const RECORDS: &[u8] = b"HPUB toolyard.audit.";

pub(crate) struct Cutter {
    /// The address for the node.
    pub(crate) url: String,
    is_armed: Arc<AtomicBool>,
}

impl Cutter {
    /// In front of the server at this address.
    pub(crate) fn before(url: &str) -> Self {
        let server = url.strip_prefix("nats://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let is_armed = Arc::new(AtomicBool::new(false));
        let armed = is_armed.clone();
        std::thread::spawn(move || {
            for node in listener.incoming().flatten() {
                // While the server is away, the connection is closed.
                if let Ok(server) = TcpStream::connect(&server) {
                    join(node, server, armed.clone());
                }
            }
        });
        Self { url, is_armed }
    }

    /// Loses the beginning of what is sent next and breaks the connection; later ones are left alone.
    pub(crate) fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    /// Waits until that has happened.
    pub(crate) fn wait(&self) {
        eventually("a broken connection", || (!self.is_armed.load(Ordering::SeqCst)).then_some(()));
    }
}

fn join(node: TcpStream, server: TcpStream, is_armed: Arc<AtomicBool>) {
    let (to_node, to_server) = (node.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || pass_on(&server, &to_node, |_| true));
    std::thread::spawn(move || {
        let has_records = |bytes: &[u8]| bytes.windows(RECORDS.len()).any(|window| window == RECORDS);
        pass_on(&node, &to_server, |bytes| !(has_records(bytes) && is_armed.swap(false, Ordering::SeqCst)));
    });
}

/// Until one side closes, or `may_pass` refuses bytes. Then both are closed.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream, may_pass: impl Fn(&[u8]) -> bool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !may_pass(&bytes[..count]) || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
