//! Discovery of instances and apps. A file or a variable is only a hint that a program listens; the connection proves it.

mod endpoint;
mod file;
mod port;
mod process;
mod sightings;
mod finder;
mod endpoints;
mod instances;
mod scan;
mod watch;

pub use endpoint::{BadEndpoint, DiscoveredEndpoint};
pub use endpoints::{Endpoints, NamedEndpoint};
pub use file::{Instance, NotAnInstance};
pub use finder::{ConnectTo, Finder};
pub use instances::Instances;
pub(crate) use port::Holder;
pub use process::{Hint, Look, Processes, VARIABLES};
pub use scan::{Scan, WhyKnown};
pub use sightings::{Report, Sighting, Sightings, Skipped, Way};

pub use crate::apps::Process;
