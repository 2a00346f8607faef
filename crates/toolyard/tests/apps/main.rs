//! Apps that dial in, through the real program: plain sockets on both sides, so that nothing here shares a
//! mistake with the gateway.

#![expect(clippy::print_stderr, reason = "shows the stderr of the gateway when a test fails")]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

mod support;
#[path = "../support/testkit.rs"]
mod testkit;

mod address_secrets;
mod auth;
mod calls;
mod churn;
mod coming;
mod dialled;
mod figures;
mod health;
mod hub;
mod instances;
mod limits;
mod listening;
mod doctor;
mod logs;
mod offline;
mod other_users;
mod processes;
mod profiles;
mod proxy;
mod registering;
mod reloads;
mod sdk;
mod shim;
mod swapped;
mod transcript;
mod transports;
