//! Upstreams that misbehave and processes that are killed: no other process notices, nothing is left behind.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

mod account;
mod agent_families;
mod agent_rules;
mod agentic;
mod agents;
mod code;
mod code_costs;
mod faults;
mod flow;
mod folders;
mod guard;
mod home;
mod keyring;
mod kills;
mod model_calls;
mod model_proxy;
mod model_privacy;
mod pack_children;
mod packs;
mod provider;
mod sampling;
mod scripts;
mod secrets;
mod seeds;
mod sessions;
mod shims;
mod skills;
mod tasks;
mod wire;
#[expect(dead_code, reason = "shared with the tests of the command line, which use all of it")]
#[path = "../cli/http.rs"]
mod http;
#[path = "../support/testkit.rs"]
mod testkit;
mod yard;
