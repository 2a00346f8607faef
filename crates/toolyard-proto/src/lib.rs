//! placeholder

pub mod name;
