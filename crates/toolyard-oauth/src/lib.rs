//! OAuth on both sides of the gateway: the client that signs in at upstreams and providers, and the checks of the
//! tokens that clients present to the gateway.
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
