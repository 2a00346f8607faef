//! Several real gateways as one, over a real nats-server. `cargo xtask cluster` installs it and runs these tests.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "figures for people")]

#[path = "../cli/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod http;
mod world;

mod calls;
mod failures;
mod sessions;
