//! placeholder

pub mod name;
pub mod uri;
