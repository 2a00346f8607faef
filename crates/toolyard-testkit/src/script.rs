//! Peers that speak exactly one revision of the protocol, written from its specification and not from our own
//! code: a server with one tool for each feature, over stdio or HTTP, and a client that insists on the forms
//! of its revision. With them every pair of revisions can be put on both sides of a gateway.

mod ask;
mod client;
mod doors;
mod look;
mod server;
mod task;
mod tools;
mod visit;

pub use client::{Begun, Client, Wire};
pub use doors::{serve_http, serve_lines};
pub use server::{Manner, Server};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TASKS: &str = "io.modelcontextprotocol/tasks";
