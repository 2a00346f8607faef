//! Unix: a session is left by a call, and the number of open files has a limit that a program may raise.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The program that started us may go, and the signals of its terminal are not meant for us. It fails only where we
/// lead a session already.
pub(crate) fn leave_session() {
    let _ = nix::unistd::setsid();
}

/// As many connections as the system allows, not as many as it gives a program by default.
pub(crate) fn allow_many_files() {
    if let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && now < most
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, most, most)
    {
        tracing::debug!(%error, "the number of open files stays at {now}");
    }
}
