//! OAuth on both sides of the gateway: the client that signs in at upstreams and providers, with the pages that a
//! running gateway offers for it, and the resource server that checks the tokens of the gateway's own clients.
//!
//! Tokens are kept in the user's sealed store. No type of this crate prints one.

mod error;
mod http;
mod url;
mod web;
pub mod client;
pub mod resource;

pub use error::{Error, Kind};
pub use http::Http;
pub use resource::{IntrospectionSettings, ResourceServer, ResourceSettings};
pub use web::Web;
