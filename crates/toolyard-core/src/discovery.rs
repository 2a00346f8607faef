//! Instances that are found. A file is a hint that somebody listens; whether that is so, the connection shows.

mod file;

pub use file::{Instance, NotAnInstance};

pub use crate::apps::Process;
