//! Prints the name of each step and how long it took.

use std::time::Instant;

use anyhow::{Context as _, Result};

/// Runs one named step. Its name goes in front of its error.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let begin = Instant::now();
    let done = work();
    let verdict = if done.is_ok() { "done" } else { "FAILED" };
    eprintln!("<== {name}: {verdict} after {:.1} s", begin.elapsed().as_secs_f64());
    done.with_context(|| name.to_owned())
}
