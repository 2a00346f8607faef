//! Links to upstreams: child processes, streams and HTTP servers, and the probe that finds out which era an
//! upstream speaks. Implements [`Link`](toolyard_model::Link); does not know tools.

pub mod child;
pub mod http;
pub mod probe;
pub mod stream;

mod asks;
mod events;
mod held_back;
mod inflight;
mod levels;
mod own;

pub use connect::{
    ConnectError, SocketSpec, Target, Timeouts, Trouble, UpstreamTarget, connect, connect_counterpart,
};
pub use probe::connect;
pub use probe::{EraPin, Offer};
