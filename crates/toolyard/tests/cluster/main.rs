//! Several real gateways as one, over a real nats-server. `cargo xtask cluster` installs it and runs these tests.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed test panics")]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "figures for people")]

#[path = "../cli/http.rs"]
mod http;
#[path = "../support/testkit.rs"]
mod testkit;
mod attempt;
mod bare;
mod cutter;
mod nats;
mod tenures;
mod wire;
mod world;

mod calls;
mod crossing;
mod apps;
mod sessions;
mod together;
mod secure;
mod sign_ins;
mod dashboard;
mod failures;
mod churn;
mod long;
mod figures;
