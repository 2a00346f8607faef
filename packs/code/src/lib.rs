//! The pack `code`: search and rewrite code, and an index of it that all agents share.

pub mod change;
pub mod config;
pub mod index;
pub mod language;
pub mod model;
pub mod project;
pub mod search;
pub mod walk;
