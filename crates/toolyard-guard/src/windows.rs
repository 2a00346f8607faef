//! No guards on Windows: a child is in a job of its own, which the system ends with the gateway, however that
//! ends. So nothing is ever left to the next start, either.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::Guard;

/// Guards, if that is what the program was started for. On Windows it never is.
pub fn run(_: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    None
}

/// Whether a sandbox can be enforced here.
pub fn sandbox_support() -> Result<(), String> {
    Err("`sandbox` needs Linux".to_owned())
}

/// The gateway's side: how its children are guarded while it runs.
#[derive(Debug)]
pub struct Guards;

impl Guards {
    pub fn begin(_: Option<&Path>) -> Self {
        Self
    }

    /// The guard for children; Windows needs none.
    #[expect(clippy::unused_self, reason = "elsewhere there is something to say")]
    pub fn guard(&self) -> Option<Guard> {
        None
    }
}
