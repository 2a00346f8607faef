//! Instances that are found. A file is a hint that somebody listens; whether that is so, the connection shows.

mod endpoint;
mod file;
mod port;
mod process;
mod sightings;

pub use endpoint::{BadEndpoint, Endpoint};
pub use file::{Instance, NotAnInstance};
pub(crate) use port::Holder;
pub use process::{Hint, Look, Processes, VARIABLES};
pub use sightings::{Report, Sighting, Sightings, Skipped, Way};

pub use crate::apps::Process;
