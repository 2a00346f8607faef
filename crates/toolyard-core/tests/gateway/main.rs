//! The gateway through its own boundary: clients and upstreams are doubles, time is virtual.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test's runtime owns its tasks")]

mod support;
mod starting;
mod api;
mod calls;
mod catalog;
mod eras;
mod events;
mod fallbacks;
mod freshness;
mod health;
mod hooks;
mod hop;
mod hub;
mod lean;
mod legacy_task_proxy;
mod limits;
mod lifecycle;
mod network;
mod metrics;
mod model;
mod approvals;
mod pool;
mod questions;
mod reload;
mod rules;
mod renewal;
mod retry;
mod room;
mod steps;
mod tasks;
mod validation;
mod watching;
