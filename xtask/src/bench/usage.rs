//! What a process and its children have used, as the kernel counts it.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process;

/// Resident memory in bytes, now and at most so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) now: u64,
    pub(super) peak: u64,
}

/// The CPU time of a process and its direct children (nginx works in those).
pub(super) fn cpu(process: u32) -> Duration {
    let ticks: u64 = family(process).into_iter().filter_map(ticks).sum();
    Duration::from_secs(1) * u32::try_from(ticks).unwrap_or(u32::MAX) / ticks_per_second()
}

pub(super) fn memory(process: u32) -> Memory {
    family(process)
        .into_iter()
        .map(memory_of_one)
        .fold(Memory::default(), |sum, one| Memory { now: sum.now + one.now, peak: sum.peak + one.peak })
}

fn family(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(process).chain(children).collect()
}

/// A process, its children, their children and so on, whichever of their threads have started them.
pub(super) fn descendants(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(process) = all.get(next) {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// User and system time; the 14th and 15th field of `stat`, after a name that may hold spaces.
fn ticks(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let (user, system): (u64, u64) = (fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?);
    Some(user + system)
}

fn memory_of_one(process: u32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    Memory { now: field("VmRSS:"), peak: field("VmHWM:") }
}

fn ticks_per_second() -> u32 {
    static TICKS: OnceLock<u32> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let answer = process::output(Command::new("getconf").arg("CLK_TCK"));
        answer.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(100)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_usage_is_seen() {
        let memory = memory(std::process::id());
        assert!(memory.now > 0 && memory.peak >= memory.now);
        assert!(ticks(std::process::id()).is_some());
    }
}
