//! For tests only. [`fixture`] is a server that offers what the official conformance suite looks for, in
//! both eras; [`client`] calls any `Handler` in memory, as a scripted client of one revision; [`script`] holds
//! clients and servers of exactly one revision; [`rogue`] is a server that does wrong;
//! [`otlp`] receives traces.

pub mod client;
pub mod fixture;
pub mod otlp;
pub mod rogue;
pub mod script;

pub use client::Client;
pub use fixture::Fixture;
