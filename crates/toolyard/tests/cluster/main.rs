//! Several real gateways as one, over a real nats-server. `cargo xtask cluster` installs it and runs these tests.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed test panics")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "figures for people")]

#[path = "../cli/http.rs"]
mod http;
#[path = "../support/testkit.rs"]
#[expect(dead_code, reason = "some of it is for other tests")]
mod testkit;
mod nats;
mod world;

mod calls;
mod apps;
mod sessions;
mod together;
mod secure;
mod failures;
mod churn;
mod long;
