//! One message a line: on stdio, TCP and a Unix socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use super::{Out, Rogue};

struct Line<W> {
    write: W,
    hang_up: fn(&W),
}

impl<W: Write> Line<W> {
    fn put(&mut self, bytes: &[u8]) {
        // The caller may be gone.
        let _ = self.write.write_all(bytes).and_then(|()| self.write.flush());
    }
}

impl<W: Write> Out for Line<W> {
    fn say(&mut self, message: &[u8]) {
        self.put(message);
        self.put(b"\n");
    }

    fn begin(&mut self, part: &[u8]) {
        self.put(part);
    }

    fn hang_up(&mut self) {
        (self.hang_up)(&self.write);
    }
}

fn serve<W: Write>(rogue: &Rogue, read: impl Read, mut out: Line<W>) {
    for line in BufReader::new(read).lines().map_while(Result::ok) {
        if let Ok(message) = serde_json::from_str(&line) {
            rogue.take(&message, &mut out);
        }
    }
}

/// Until stdin ends. A pipe is hung up by ending.
pub fn serve_stdio(rogue: &Rogue) {
    serve(rogue, io::stdin(), Line { write: io::stdout(), hang_up: |_| std::process::exit(3) });
}

pub fn serve_tcp(rogue: &Rogue, listener: &TcpListener) {
    let hang_up = |stream: &TcpStream| drop(stream.shutdown(Shutdown::Both));
    for stream in listener.incoming().flatten() {
        let (rogue, read) = (rogue.clone(), stream.try_clone());
        thread::spawn(move || read.map(|read| serve(&rogue, read, Line { write: stream, hang_up })));
    }
}

pub fn serve_unix(rogue: &Rogue, listener: &UnixListener) {
    let hang_up = |stream: &UnixStream| drop(stream.shutdown(Shutdown::Both));
    for stream in listener.incoming().flatten() {
        let (rogue, read) = (rogue.clone(), stream.try_clone());
        thread::spawn(move || read.map(|read| serve(&rogue, read, Line { write: stream, hang_up })));
    }
}
