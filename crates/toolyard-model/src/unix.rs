//! What only Unix systems have.

pub mod processes;
