//! The protocol: MCP messages, eras, codecs, names. No IO and no clock, so that every rule here can be
//! tested with data alone.

pub mod raw;
pub mod message;
pub mod method;
pub mod reason;
pub mod visible;
pub mod error;
pub mod era;
pub mod modern;
pub mod legacy;
pub mod splice;
pub mod params;
mod pattern;
mod scan;
pub mod sanitize;
pub mod codec;
pub mod name;
pub mod uri;
pub mod app;
pub mod token;
pub mod calendar;

pub use era::{Era, Revision};
pub use error::{CallError, Fault, Kind, Retry, RpcError};
pub use message::{Id, Incoming, Message, Notification, ParseError, RequestMessage, Response};
pub use method::Method;
pub use params::Params;
pub use pattern::Pattern;
pub use raw::Raw;
pub use reason::Reason;
