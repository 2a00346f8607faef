//! The pack `code`: search and rewrite code, and an index of it that all agents share.

pub mod model;
