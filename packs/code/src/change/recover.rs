//! Handles the journals of a process that was killed, or that could not undo a change.
//!
//! They are handled when the first call that may change a project opens it, and only for that project. A change is
//! finished only if it was cut off in the middle and its files were not edited since. If one of them was edited, the
//! others are restored, as if the edit had been made during the change. If all files have their old texts, or all have
//! their new ones, the journal is only removed: the change had not begun, was reverted, or is complete.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use toolyard_tool::ToolError;

use super::{DECIDED, FileChange, Journal, Journals, NotReplaced, UNDO, checksum, current, journal_error};
use crate::project::{Project, jail_error};

/// The roots of the projects whose journals were handled.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<HashSet<PathBuf>>);

/// What to do about a change that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Finish,
    TakeBack,
    Drop,
}

impl Journals {
    /// Whether the journals of a project still have to be handled. Those who may not change it leave them alone.
    pub(crate) fn is_unopened(&self, project: &Project) -> bool {
        project.writable().is_ok() && !self.opened.0.lock().contains(project.root())
    }

    /// Handles the journals of a project, once for each project.
    pub(crate) fn open(&self, project: &Project) {
        // Calls that come at the same time wait until this has ended.
        let mut opened = self.opened.0.lock();
        if project.writable().is_ok() && opened.insert(project.root().to_owned()) {
            self.recover(project);
        }
    }

    /// A journal that cannot be handled is kept for the next process.
    pub(super) fn recover(&self, project: &Project) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let is_undo = match path.extension().and_then(|extension| extension.to_str()) {
                Some(DECIDED) => false,
                Some(UNDO) => true,
                _ => continue,
            };
            if let Err(error) = recover_one(&path, is_undo, project) {
                tracing::warn!(target: "code", journal = %path.display(), %error, "could not finish a change");
            }
        }
    }
}

fn recover_one(path: &Path, is_undo: bool, project: &Project) -> Result<(), ToolError> {
    // The lock is held until the journal is removed.
    let Some((journal, _lock)) = read(path)? else { return Ok(()) };
    if journal.root != project.root() {
        return Ok(());
    }
    let verdict = verdict(&journal.files, is_undo, project);
    for file in &journal.files {
        let done = match verdict {
            Verdict::Finish => file.make(project),
            Verdict::TakeBack => file.take_back(project),
            Verdict::Drop => break,
        };
        if let Err(NotReplaced::Failed(error)) = done {
            return Err(jail_error(error));
        }
    }
    std::fs::remove_file(path).map_err(|error| journal_error(path, &error))?;
    let (project, files) = (project.root().display(), journal.files.len());
    match verdict {
        Verdict::Finish => {
            tracing::warn!(target: "code", %project, files, "finished a change that was cut off");
        }
        Verdict::TakeBack => {
            tracing::warn!(target: "code", %project, files, "took back a change that was cut off");
        }
        Verdict::Drop => {
            tracing::info!(target: "code", %project, files, "dropped the journal of a change: nothing is left to do");
        }
    }
    Ok(())
}

/// A journal with its lock. `None` if the process that wrote it is still at work, or has just ended its work.
fn read(path: &Path) -> Result<Option<(Journal, File)>, ToolError> {
    let broken = |error: &dyn std::fmt::Display| ToolError::new(format!("cannot read the journal: {error}"));
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| broken(&error))?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        locked => locked.map_err(|error| broken(&error))?,
    }
    if !path.exists() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
    let journal = serde_json::from_slice(&bytes).map_err(|error| broken(&error))?;
    Ok(Some((journal, file)))
}

fn verdict(files: &[FileChange], is_undo: bool, project: &Project) -> Verdict {
    let now: Vec<Option<String>> = files.iter().map(|file| current(project, &file.path)).collect();
    let count = |text: fn(&FileChange) -> String| {
        files.iter().zip(&now).filter(|(file, now)| now.as_ref() == Some(&text(file))).count()
    };
    let old = count(|file| file.before.clone());
    let new = count(|file| checksum(&file.after));
    let has_edits = old + new < files.len();
    match (is_undo, old > 0, new > 0, has_edits) {
        (false, true, true, false) => Verdict::Finish,
        (false, true, true, true) => Verdict::TakeBack,
        // The caller received an error. If all files have the new text, it was made again.
        (true, _, true, _) if new < files.len() => Verdict::TakeBack,
        _ => Verdict::Drop,
    }
}
