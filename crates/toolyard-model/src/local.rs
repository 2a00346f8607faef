//! Sockets for programs of the same user on the same machine, under one interface: a Unix socket that only
//! its owner can open, or on Windows a named pipe.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{LocalListener, LocalStream, TRANSPORT, connect, is_answered, peer, refuse_strangers};
#[cfg(windows)]
pub use windows::{LocalListener, LocalStream, TRANSPORT, connect, is_answered, peer, refuse_strangers};

/// A longer path does not fit into a socket address everywhere (104 to 108 bytes), with room for the name
/// that a socket has while it is being made.
pub const LONGEST_PATH: usize = 100;
