//! What the program does to keep tools, servers and clients within bounds: sandboxes, pinned definitions, rules and
//! approvals, tokens of issuers. The real program is started for each test.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

#[expect(dead_code, reason = "shared with other tests")]
#[path = "../cli/gateway.rs"]
mod gateway;
#[path = "../cli/http.rs"]
mod http;
mod approvals;
mod issuers;
mod lean;
mod pins;
mod rules;
#[cfg(target_os = "linux")]
mod sandbox;
