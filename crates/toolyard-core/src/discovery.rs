//! Discovery of instances and apps. A file or a variable is only a hint that a program listens; the connection proves it.

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
