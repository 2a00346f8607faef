//! The process guard: a small program between the gateway and each of its children, which ends everything the child
//! ever started, however the gateway or the child dies. Why it is built this way is in docs/design/child-guards.md.
//!
//! There is one guard for each child, so nothing here needs a runtime.

mod sandbox;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::OsString;
use std::fmt;

pub use sandbox::{DEVICES, SYSTEM, Sandbox};
#[cfg(unix)]
pub use unix::{Guards, processes, run, sandbox_support};
#[cfg(windows)]
pub use windows::{Guards, run, sandbox_support};

/// A program that runs the child for us. It is given the child's command after its own arguments and must
///
/// - leave stdin, stdout and stderr to the child, and hold none of them itself,
/// - end everything below it when it gets TERM, when its parent is gone, and when the child has ended,
/// - then end as the child did, by its exit code or by its signal.
#[derive(Clone, PartialEq, Eq)]
pub struct Guard {
    pub program: OsString,
    /// Its name in process lists.
    pub title: OsString,
    pub args: Vec<OsString>,
    /// For the guard and everything below it.
    pub env: Vec<(OsString, OsString)>,
}

impl Guard {
    /// The same guard, which confines its child as well.
    #[must_use]
    pub fn sandboxed(mut self, sandbox: &Sandbox) -> Self {
        self.args.extend(sandbox.to_args());
        self
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("program", &self.program).finish_non_exhaustive()
    }
}
