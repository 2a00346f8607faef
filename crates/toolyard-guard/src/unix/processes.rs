//! The system's processes, as far as ending them needs: parents and children, and signals that reach only the intended
//! process. A process is identified by its id and its start time, because ids are reused.
//!
//! Read from `/proc`. Without `/proc` no process is ever found, and only process groups are ended.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

/// How long to wait before looking again who is left.
const ROUND: Duration = Duration::from_millis(20);

/// A process at the moment it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub id: i32,
    /// In ticks since the machine was started.
    pub start: u64,
    pub parent: i32,
    /// It has ended, and only its status is left to be fetched.
    pub is_dead: bool,
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(find).collect()
}

pub fn find(id: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
    parse(id, &String::from_utf8_lossy(&stat))
}

/// The second field is the program's name in parentheses, in which anything may stand.
fn parse(id: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    Some(Process { id, start: fields.get(19)?.parse().ok()?, parent: fields.get(1)?.parse().ok()?, is_dead })
}

/// The flag that the kernel sets when a process begins to end.
fn has_begun_to_end(stat: &str) -> bool {
    const EXITING: u64 = 0x4;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let flags = fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Whether a KILL is on its way, to the process or to its first thread.
fn is_killed(status: &str) -> bool {
    const KILL: u64 = 1 << (Signal::SIGKILL as u64 - 1);
    let pending =
        |line: &str| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")).map(str::trim).map(hex);
    status.lines().filter_map(pending).any(|pending| pending & KILL != 0)
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or(0)
}

/// The living among `all` whose parent, or parent's parent, and so on, is one of `roots`.
pub fn below(roots: &[i32], all: &[Process]) -> Vec<Process> {
    let mut family: HashSet<i32> = roots.iter().copied().collect();
    let mut found = Vec::new();
    loop {
        let known = found.len();
        for process in all.iter().filter(|process| !process.is_dead) {
            if family.contains(&process.parent) && family.insert(process.id) {
                found.push(*process);
            }
        }
        if found.len() == known {
            return found;
        }
    }
}

impl Process {
    /// Killed, but not gone yet: on a busy machine the end of a process takes a while, and until then it looks
    /// alive.
    pub fn is_ending(&self) -> bool {
        let read = |file| fs::read(format!("/proc/{}/{file}", self.id)).unwrap_or_default();
        let (stat, status) = (read("stat"), read("status"));
        has_begun_to_end(&String::from_utf8_lossy(&stat)) || is_killed(&String::from_utf8_lossy(&status))
    }

    /// Sends a signal to this process, and never to another one that has its id by now.
    pub fn signal(&self, signal: Signal) {
        let (Some(id), Some(signal)) =
            (Pid::from_raw(self.id), rustix::process::Signal::from_named_raw(signal as i32))
        else {
            return;
        };
        let handle = pidfd_open(id, PidfdFlags::empty());
        if find(self.id).is_none_or(|now| now.start != self.start) {
            return;
        }
        // Kernels before 5.3 have no handles; there, the check just made is all there is.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(_) => rustix::process::kill_process(id, signal),
        };
    }
}

/// Ends processes: TERM once to each, later KILL to those that remain.
#[derive(Debug)]
pub struct Ending {
    term_at: Instant,
    kill_at: Instant,
    terminated: HashSet<(i32, u64)>,
}

impl Ending {
    /// `alone` is the time for processes to end by themselves, `grace` the time between TERM and KILL.
    pub fn new(now: Instant, alone: Duration, grace: Duration) -> Self {
        Self { term_at: now + alone, kill_at: now + alone + grace, terminated: HashSet::new() }
    }

    /// Less patience than before, never more.
    pub fn hasten(&mut self, now: Instant, alone: Duration, grace: Duration) {
        self.term_at = self.term_at.min(now + alone);
        self.kill_at = self.kill_at.min(now + alone + grace);
    }

    /// Whether the time of those who end by themselves is over.
    pub fn has_begun(&self, now: Instant) -> bool {
        now >= self.term_at
    }

    pub fn round(&mut self, now: Instant, left: &[Process]) {
        for process in left {
            if now >= self.kill_at {
                process.signal(Signal::SIGKILL);
            } else if now >= self.term_at && self.terminated.insert((process.id, process.start)) {
                process.signal(Signal::SIGTERM);
            }
        }
    }
}

/// Ends the processes that `left` finds, until it finds none or `bound` is over; returns those that remain.
pub fn end_all(grace: Duration, bound: Duration, mut left: impl FnMut() -> Vec<Process>) -> Vec<Process> {
    let begun = Instant::now();
    let mut ending = Ending::new(begun, Duration::ZERO, grace);
    loop {
        let still = left();
        if still.is_empty() || begun.elapsed() > bound {
            return still;
        }
        ending.round(Instant::now(), &still);
        std::thread::sleep(ROUND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: i32, parent: i32) -> Process {
        Process { id, start: 1, parent, is_dead: false }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0";
        let expected = Some(Process { id: 5, start: 4242, parent: 7, is_dead: false });
        for name in ["sh", "a b", "x) Z 1 (y"] {
            assert_eq!(parse(5, &format!("5 ({name}) {rest}")), expected, "{name}");
        }
        assert!(parse(5, &format!("5 (sh) Z{}", &rest[1..])).is_some_and(|process| process.is_dead));
        assert_eq!(parse(5, "5 (sh"), None);
    }

    #[test]
    fn a_killed_process_is_seen_to_end_before_it_has_ended() {
        let rest = "S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0";
        assert!(!has_begun_to_end(&format!("5 (sh) {rest}")));
        assert!(has_begun_to_end(&format!("5 (sh) {}", rest.replace("4194560", "4194564"))));
        let status = |own: &str, shared: &str| format!("Name:\tsh\nSigPnd:\t{own}\nShdPnd:\t{shared}\n");
        assert!(!is_killed(&status("0000000000000000", "0000000000004000")));
        assert!(is_killed(&status("0000000000000100", "0000000000000000")));
        assert!(is_killed(&status("0000000000000000", "0000000000000100")));
    }

    #[test]
    fn all_descendants_are_found_in_any_order() {
        let all = [process(4, 3), process(3, 2), process(2, 1), process(9, 8), process(1, 0)];
        let mut ids: Vec<i32> = below(&[1], &all).iter().map(|process| process.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [2, 3, 4]);
        assert_eq!(below(&[7], &all), []);
    }

    #[test]
    fn a_signal_does_not_reach_a_later_process_of_the_same_id() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let process = find(i32::try_from(child.id()).unwrap()).unwrap();
        Process { start: process.start + 1, ..process }.signal(Signal::SIGKILL);
        assert!(child.try_wait().unwrap().is_none());
        process.signal(Signal::SIGKILL);
        assert!(!child.wait().unwrap().success());
    }
}
