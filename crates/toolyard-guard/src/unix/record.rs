//! Which gateways ran on a state directory, so that the next one can end what they left.
//!
//! Only a gateway killed together with its guards leaves anything. What it left is known by a mark: a
//! variable with a name of its own in the environment of every guard and all below it. So one small file per
//! run is enough, written before the first child, and nothing has to be noted as children come and go.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::processes::{self, Process};

const FOLDER: &str = "runs";
const GRACE: Duration = Duration::from_millis(500);
/// The time limit for ending them. Processes that are still running are left to the next start.
const BOUND: Duration = Duration::from_secs(5);
/// How long a gateway that seems to run is watched before it is believed.
const SECOND_LOOK: Duration = Duration::from_millis(60);
const ROUND: Duration = Duration::from_millis(5);

/// One run of a gateway. Its id and start name it until the machine is started again.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Run {
    pid: i32,
    start: u64,
    boot: String,
}

impl Run {
    fn this() -> Option<Self> {
        let pid = i32::try_from(std::process::id()).ok()?;
        Some(Self { pid, start: processes::find(pid)?.start, boot: boot()? })
    }

    fn token(&self) -> String {
        let Self { pid, start, boot } = self;
        HEXLOWER.encode(&Sha256::digest(format!("{pid} {start} {boot}"))[..16])
    }

    /// The variable by which everything it starts is known.
    fn mark(&self) -> String {
        format!("TOOLYARD_RUN_{}", self.token().to_ascii_uppercase())
    }

    /// A process that was killed a moment ago may still look alive. A process that is ending is therefore waited for,
    /// and any other is watched for a moment longer, because the signal may not have arrived yet.
    fn is_over(&self) -> bool {
        let begun = Instant::now();
        while let Some(process) = self.process() {
            let patience = if process.is_ending() { BOUND } else { SECOND_LOOK };
            if begun.elapsed() > patience {
                return false;
            }
            std::thread::sleep(ROUND);
        }
        true
    }

    fn process(&self) -> Option<Process> {
        processes::find(self.pid).filter(|process| process.start == self.start && !process.is_dead)
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The note that this gateway runs; taken back when dropped.
#[derive(Debug)]
pub(super) struct Record {
    run: Run,
    path: Option<PathBuf>,
}

impl Record {
    /// Ends the leftovers of earlier runs first. Without a state directory nothing is noted.
    pub(super) fn begin(state_dir: Option<&Path>) -> Option<Self> {
        let run = Run::this()?;
        let path = state_dir.and_then(|state_dir| {
            let folder = state_dir.join(FOLDER);
            end_leftovers(&folder, &run.boot);
            let path = folder.join(format!("{}.json", run.token()));
            let written = write(&path, &run);
            written.map_err(|error| tracing::warn!("cannot write {}: {error}", path.display())).ok()?;
            Some(path)
        });
        Some(Self { run, path })
    }

    pub(super) fn mark(&self) -> String {
        self.run.mark()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn write(path: &Path, run: &Run) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    // In one step, so that no other gateway reads half of it.
    let draft = path.with_extension(format!("json.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?
        .write_all(&serde_json::to_vec(run)?)?;
    fs::rename(&draft, path)
}

/// Ends the processes that killed gateways left behind. Processes of gateways that still run are not touched.
fn end_leftovers(folder: &Path, boot: &str) {
    let Ok(files) = fs::read_dir(folder) else { return };
    for path in files.flatten().map(|file| file.path()) {
        let run = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Run>(&text).ok());
        let is_done = match &run {
            Some(run) if run.boot != boot => true,
            Some(run) => run.is_over() && end_marked(run),
            None => true,
        };
        if is_done {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether all have ended.
fn end_marked(run: &Run) -> bool {
    let mark = format!("{}=", run.mark());
    let mut ended = 0;
    let left = processes::end_all(GRACE, BOUND, || {
        let left = marked(&mark);
        ended = ended.max(left.len());
        left
    });
    if ended > 0 {
        tracing::info!(count = ended, pid = run.pid, "ended what a killed gateway had left behind");
    }
    if !left.is_empty() {
        tracing::warn!(?left, "left behind by a killed gateway, and they do not end");
    }
    left.is_empty()
}

/// All processes with the mark and their descendants, but never this process or its ancestors.
fn marked(mark: &str) -> Vec<Process> {
    let all = processes::all();
    let mut marked: Vec<Process> = all.iter().copied().filter(|process| has_mark(process, mark)).collect();
    let roots: Vec<i32> = marked.iter().map(|process| process.id).collect();
    marked.extend(processes::below(&roots, &all));
    let lineage = lineage(&all);
    marked.retain(|process| !lineage.contains(&process.id));
    marked
}

fn has_mark(process: &Process, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", process.id)).unwrap_or_default();
    !process.is_dead && environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
}

fn lineage(all: &[Process]) -> Vec<i32> {
    let mut lineage = Vec::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(id) = next.filter(|id| !lineage.contains(id)) {
        lineage.push(id);
        next = all.iter().find(|process| process.id == id).map(|process| process.parent);
    }
    lineage
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(mark: &str) -> Child {
        Command::new("sleep").arg("60").env(mark, "1").spawn().unwrap()
    }

    fn note(folder: &Path, run: &Run) -> PathBuf {
        let path = folder.join(FOLDER).join("old.json");
        write(&path, run).unwrap();
        path
    }

    #[test]
    fn processes_of_a_dead_gateway_are_ended_and_its_note_removed() {
        let folder = tempfile::tempdir().unwrap();
        let this = Run::this().unwrap();
        let over = Run { start: this.start + 1, ..this.clone() };
        let path = note(folder.path(), &over);
        let (mut left, mut other) = (sleeper(&over.mark()), sleeper("TOOLYARD_RUN_OTHER"));
        let record = Record::begin(Some(folder.path())).unwrap();
        assert!(!left.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        assert!(!path.exists() && record.path.as_ref().unwrap().exists());
        let own = record.path.clone().unwrap();
        drop(record);
        assert!(!own.exists());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn processes_of_a_running_gateway_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = note(folder.path(), &Run::this().unwrap());
        let mut theirs = sleeper(&Run::this().unwrap().mark());
        drop(Record::begin(Some(folder.path())));
        assert!(theirs.try_wait().unwrap().is_none() && path.exists());
        theirs.kill().unwrap();
        theirs.wait().unwrap();
    }

    #[test]
    fn notes_from_before_the_machine_was_started_mean_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = Run { boot: "earlier".into(), ..Run::this().unwrap() };
        let path = note(folder.path(), &earlier);
        fs::write(folder.path().join(FOLDER).join("broken.json"), "{").unwrap();
        drop(Record::begin(Some(folder.path())));
        assert!(!path.exists());
        assert_eq!(fs::read_dir(folder.path().join(FOLDER)).unwrap().count(), 0);
    }
}
