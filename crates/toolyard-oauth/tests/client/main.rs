//! The client against a scripted server with its authorization server, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod server;
mod discovery;
mod refresh;
mod shared;
mod signing_in;
