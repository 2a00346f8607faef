//! Several real gateways as one, over a real nats-server. `cargo xtask cluster` installs it and runs these tests.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed test panics")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "figures for people")]

#[path = "../cli/http.rs"]
mod http;
mod world;

mod calls;
mod failures;
mod sessions;
