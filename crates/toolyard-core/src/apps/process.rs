//! Whether the process behind a connection is still running. A child that inherited the socket can keep the
//! connection of a dead app open.

use std::fs;
use std::net::SocketAddr;

/// A process, distinguished by its start time from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub(crate) pid: u32,
    started: u64,
}

impl Process {
    /// The process of this number, if there is one and the system reports it.
    pub(crate) fn find(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    /// Whether it is certain that it has ended.
    pub(crate) fn is_gone(self) -> bool {
        lists_processes() && started(self.pid) != Some(self.started)
    }

    /// Whether the process of this number has certainly ended, or is another one that started later than
    /// `started` (seconds since 1970) by more than `tolerance`.
    pub fn is_other(pid: u32, started: Option<u64>, tolerance: u64) -> bool {
        if !lists_processes() {
            return false;
        }
        let Some(process) = Self::find(pid) else { return true };
        let later = |started: u64| process.started_unix().is_some_and(|real| real > started + tolerance);
        started.is_some_and(later)
    }

    /// When it started, in seconds since 1970. A tick is a hundredth of a second on every Linux there is.
    fn started_unix(self) -> Option<u64> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(boot.trim().parse::<u64>().ok()? + self.started / 100)
    }

    /// The process at the other end of a connection on this machine.
    pub(crate) fn behind(theirs: SocketAddr, ours: SocketAddr) -> Option<Self> {
        let inode = inode_of(theirs, ours)?;
        let socket = format!("socket:[{inode}]");
        let pids = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.find(|pid| holds(*pid, &socket)).and_then(Self::find)
    }
}

/// Whether this system reports which processes run.
fn lists_processes() -> bool {
    cfg!(unix) && fs::exists("/proc/self/stat").unwrap_or(false)
}

fn holds(pid: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == socket))
}

/// In ticks since the system started. The second field is a name in parentheses that may hold anything.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let state = fields.next()?;
    // A zombie has ended; its parent has not fetched its status yet.
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// The socket of the other end, from the system's table of connections.
fn inode_of(theirs: SocketAddr, ours: SocketAddr) -> Option<String> {
    let table = if theirs.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let ports = [theirs.port(), ours.port()].map(|port| format!(":{port:04X}"));
    let text = fs::read_to_string(table).ok()?;
    text.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, ..] = fields[..] else { return None };
        let is_it = local.ends_with(&ports[0]) && remote.ends_with(&ports[1]);
        if is_it { fields.get(9).map(|inode| (*inode).to_owned()) } else { None }
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_process_behind_a_connection_is_found_and_its_end_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_accepted, _) = listener.accept().unwrap();
        let ends = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let own = Process::behind(ends.0, ends.1).unwrap();
        assert_eq!(own.pid, std::process::id());
        assert!(!own.is_gone());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(!process.is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.is_gone());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(!Process::is_other(own.pid, Some(now), 5) && Process::is_other(child.id(), Some(now), 5));
        assert!(!Process::is_other(own.pid, None, 5));
        assert!(
            Process::is_other(own.pid, Some(now - 1_000_000), 5),
            "a process that started later is another"
        );
        // Another process of the same number would have started later.
        assert!(Process { pid: own.pid, started: own.started + 1 }.is_gone());
    }
}
