//! A TCP proxy that can stop forwarding without closing anything, or refuse and cut connections like a balancer whose
//! other servers are gone.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

const LOOK: Duration = Duration::from_millis(5);

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    held: AtomicBool,
    refuses: AtomicBool,
    /// All requests so far.
    asked: Mutex<String>,
    /// Each connection, and whether its last bytes were a request.
    pairs: Mutex<Vec<(TcpStream, TcpStream, Arc<AtomicBool>)>>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let inner = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if inner.ended.load(Ordering::SeqCst) {
                    return;
                }
                inner.accept(client, port);
            }
        });
        Self { port: own, state }
    }

    /// Stops the traffic without closing connections, or resumes it.
    pub(crate) fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::SeqCst);
    }

    /// Whether a request with this word has gone through.
    pub(crate) fn has_passed(&self, word: &str) -> bool {
        self.state.asked.lock().contains(word)
    }

    /// Forgets the requests so far.
    pub(crate) fn forget(&self) {
        self.state.asked.lock().clear();
    }

    /// Cuts every connection without a request under way, and closes new ones at once.
    pub(crate) fn refuse_and_cut_idle(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
        self.state.pairs.lock().retain(|(client, server, is_asked)| {
            let keep = is_asked.load(Ordering::SeqCst);
            if !keep {
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            }
            keep
        });
    }

    pub(crate) fn accept_again(&self) {
        self.state.refuses.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        for (client, server, _) in self.state.pairs.lock().drain(..) {
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }
}

impl State {
    fn accept(self: &Arc<Self>, client: TcpStream, port: u16) {
        if self.refuses.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let is_asked = Arc::new(AtomicBool::new(false));
        for (from, to, asks) in [(&client, &server, true), (&server, &client, false)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (state, is_asked) = (self.clone(), is_asked.clone());
            std::thread::spawn(move || state.copy(from, to, asks, &is_asked));
        }
        self.pairs.lock().push((client, server, is_asked));
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, asks: bool, is_asked: &AtomicBool) {
        let mut buffer = [0; 16 * 1024];
        loop {
            match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    while self.held.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst) {
                        std::thread::sleep(LOOK);
                    }
                    is_asked.store(asks, Ordering::SeqCst);
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                    if asks {
                        self.asked.lock().push_str(&String::from_utf8_lossy(&buffer[..count]));
                    }
                }
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
