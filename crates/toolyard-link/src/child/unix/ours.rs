//! Which processes this one started itself, and what happens to those it inherits.
//!
//! A process that was made a reaper (`toolyard_guard::Guards`) becomes the parent of whatever a killed guard leaves
//! behind. Among its children, those are the ones it did not start; they are ended and their status fetched.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::process::{Child, Command};

use toolyard_guard::processes::{self, Process};

const GRACE: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(3);

/// The children of this process, so it belongs to the process too. Locked while one is started, so that
/// a new child is not mistaken for an orphan.
static OURS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A child of ours, from its start until its status was fetched.
#[derive(Debug)]
pub(super) struct Ours {
    id: i32,
    start: u64,
}

pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Ours)> {
    let mut ours = OURS.lock();
    let child = command.spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    ours.insert(id);
    let start = processes::find(id).map_or(0, |process| process.start);
    Ok((child, Ours { id, start }))
}

impl Drop for Ours {
    fn drop(&mut self) {
        OURS.lock().remove(&self.id);
    }
}

impl Ours {
    pub(super) fn id(&self) -> Pid {
        Pid::from_raw(self.id)
    }

    /// Ends the orphans of this child, a guard that is gone.
    pub(super) async fn end_orphans(self) {
        if !adopts() {
            return;
        }
        let since = self.start;
        drop(self);
        let ended = tokio::task::spawn_blocking(move || processes::end_all(GRACE, BOUND, || orphans(since)));
        if let Ok(left) = ended.await
            && !left.is_empty()
        {
            tracing::warn!(?left, "processes that a killed guard left behind do not end");
        }
    }
}

fn adopts() -> bool {
    #[cfg(target_os = "linux")]
    return nix::sys::prctl::get_child_subreaper().unwrap_or(false);
    #[cfg(not(target_os = "linux"))]
    false
}

/// Children that we did not start, and all their descendants. The status of those that have ended is fetched.
fn orphans(since: u64) -> Vec<Process> {
    let ours = OURS.lock();
    let all = processes::all();
    let own_id = Pid::this().as_raw();
    let adopted = all.iter().filter(|process| process.parent == own_id && process.start >= since);
    let (dead, mut orphans): (Vec<Process>, Vec<Process>) =
        adopted.filter(|process| !ours.contains(&process.id)).partition(|process| process.is_dead);
    for process in dead {
        let _ = waitpid(Pid::from_raw(process.id), Some(WaitPidFlag::WNOHANG));
    }
    let roots: Vec<i32> = orphans.iter().map(|process| process.id).collect();
    orphans.extend(processes::below(&roots, &all));
    orphans
}
