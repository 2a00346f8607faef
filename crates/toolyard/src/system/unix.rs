//! Unix: a session is left by a call, and the number of open files has a limit that a program may raise.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

/// The program that started us may end, and the signals of its terminal are not meant for us. It fails only if we
/// lead a session already.
pub(crate) fn leave_session() {
    let _ = nix::unistd::setsid();
}

/// Raises the limit of open files to the most that the system allows.
pub(crate) fn allow_many_files() {
    if let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && now < most
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, most, most)
    {
        tracing::debug!(%error, "the number of open files stays at {now}");
    }
}

/// Asks a process of this user to end.
pub(crate) fn end_process(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGTERM)?)
}

/// Reads from the terminal on stdin while it does not show what is typed.
pub(crate) fn without_echo<T>(read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = tcgetattr(io::stdin())?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    silent.local_flags.insert(LocalFlags::ECHONL);
    tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &silent)?;
    let value = read();
    tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &before)?;
    value
}

/// Reports a state to systemd, if systemd started us and asked for it. Errors are only logged.
pub(crate) fn report_to_service_manager(state: &str) {
    let Some(place) = std::env::var("NOTIFY_SOCKET").ok().filter(|place| !place.is_empty()) else { return };
    let reported = address(&place).and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = reported {
        tracing::debug!(%error, "the service manager was not sent {state}");
    }
}

/// A path, or after `@` an abstract name, which only Linux has.
fn address(place: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = place.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(place)
}

/// Programs that open a file with the user's program for it, with their first arguments, the preferred one first.
pub(crate) const OPENERS: &[(&str, &[&str])] =
    if cfg!(target_os = "macos") { &[("open", &[])] } else { &[("xdg-open", &[]), ("gio", &["open"])] };

/// The name of this machine.
#[cfg(feature = "cluster")]
pub(crate) fn host_name() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty())
}
