//! Windows: there is nothing to do, or nothing that safe code can do.

use std::io;

/// The program that starts us detaches us.
pub(crate) fn leave_session() {}

/// Only systemd wants to know.
pub(crate) fn report_to_service_manager(_: &str) {}

/// There is no such limit.
pub(crate) fn allow_many_files() {}

/// The console shows what is typed: only unsafe code can change that.
pub(crate) fn without_echo<T>(read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    read()
}

/// Programs that open a file with the user's program for it, with their first arguments, the preferred one first.
pub(crate) const OPENERS: &[(&str, &[&str])] = &[("explorer", &[])];

/// The name of this machine.
#[cfg(feature = "cluster")]
pub(crate) fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok().filter(|name| !name.is_empty())
}

/// Windows has no signal that asks a process of another console to end.
pub(crate) fn end_process(pid: u32) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("end the process {pid} with Ctrl-C in its window"),
    ))
}
