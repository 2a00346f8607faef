//! Language servers: which exist, where their programs are, and the warm ones that all clients share.

mod find;
mod known;
mod pool;
mod run;
mod watch;

pub(crate) use find::Found;
pub(crate) use known::{Role, Server, servers};
pub(crate) use pool::{Limits, Pool, Status};
pub(crate) use run::Running;

#[cfg(test)]
mod tests;
