//! By the boot of the machine, the process id and when the process started.

use std::sync::OnceLock;

use toolyard_model::processes;

use crate::record::ProcessRecord;

/// Nothing where the system does not tell.
pub(crate) fn own() -> Option<ProcessRecord> {
    let pid = std::process::id();
    let process = processes::find(i32::try_from(pid).ok()?)?;
    Some(ProcessRecord { boot: boot()?, pid, started: process.start })
}

/// Whether the process ran on this machine since the last boot, and has ended.
pub(crate) fn has_ended(process: &ProcessRecord) -> bool {
    let Ok(pid) = i32::try_from(process.pid) else { return false };
    let is_here = boot().is_some_and(|boot| boot == process.boot);
    is_here && processes::find(pid).is_none_or(|now| now.start != process.started || now.is_dead)
}

/// Containers share the boot id of their machine but not its process ids, so the namespace is part of it.
fn boot() -> Option<String> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    BOOT.get_or_init(read_boot).clone()
}

fn read_boot() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}
