//! Windows: there is nothing to do, or nothing that safe code can do.

use std::io;

/// The program that starts us detaches us.
pub(crate) fn leave_session() {}

/// There is no such limit.
pub(crate) fn allow_many_files() {}

/// The console shows what is typed: only unsafe code can change that.
pub(crate) fn without_echo<T>(read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    read()
}
