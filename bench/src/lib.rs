//! What the three measuring tools agree on: the words of the protocol and the text of the `blob` tool.
//!
//! They share no code with the gateway on purpose: a mistake there must not cancel itself out here.

pub mod sample;
pub mod wire;
