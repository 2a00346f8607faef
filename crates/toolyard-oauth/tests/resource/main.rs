//! The resource server against an issuer on loopback that signs what a test wants.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod flood;
mod issuer;
mod opaque;
mod tokens;
