//! The OAuth client that signs in at upstreams and providers, and the pages that a running gateway offers for it.
//!
//! Tokens are kept in the user's sealed store. No type of this crate prints one.

mod error;
mod http;
mod url;
mod web;
pub mod client;

pub use error::{Error, Kind};
pub use http::Http;
pub use web::Web;
