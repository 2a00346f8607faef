//! Sockets for programs of the same user on the same machine, under one interface: a Unix socket that only
//! its owner can open, or on Windows a named pipe.
//!
//! The Windows half was built and tested by itself, under Wine: nothing else of this crate builds there yet.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{LocalListener, LocalStream, connect};
#[cfg(windows)]
pub use windows::{LocalListener, LocalStream, connect};

/// A longer path does not fit into a socket address everywhere (104 to 108 bytes), with room for the name
/// that a socket has while it is being made.
pub const LONGEST_PATH: usize = 100;
