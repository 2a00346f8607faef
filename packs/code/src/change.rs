//! Changes to several files at once: all of them or none, also if the process is killed in between.
//!
//! What is to be written goes into a journal first. Once the journal is on the disk, the change is decided: files are
//! replaced one by one, and the journal is removed. The process locks its journal, so that one that is found without a
//! lock belongs to a process that was killed (`recover`).
//!
//! If a file cannot be replaced, the journal is renamed first, from `.journal` to `.undo`: from then on the change is
//! to be taken back, by this process or by the next one. Renaming needs no space on a full disk.

mod recover;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;
use toolyard_jail::JailError;
use toolyard_tool::ToolError;

use crate::project::Project;
use crate::search::ast::Rewritten;
use recover::Opened;

/// Lines around a change in a diff.
const CONTEXT: usize = 3;

/// The extension of a journal whose change is to be made.
const DECIDED: &str = "journal";
/// The extension of a journal whose change is to be taken back.
const UNDO: &str = "undo";

/// One file of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileChange {
    /// Relative to the project's root.
    pub(crate) path: PathBuf,
    /// The checksum of the text that is replaced.
    before: String,
    /// The text that is replaced. Journals of earlier versions have none, and cannot be taken back.
    #[serde(default)]
    original: String,
    after: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    root: PathBuf,
    files: Vec<FileChange>,
}

/// Where journals are kept.
#[derive(Clone, Debug)]
pub(crate) struct Journals {
    folder: PathBuf,
    opened: Arc<Opened>,
}

/// Why a file was not replaced.
#[derive(Debug)]
enum NotReplaced {
    /// Its text is neither the old nor the new one.
    Edited,
    Failed(JailError),
}

impl FileChange {
    pub(crate) fn new(path: &Path, before: &str, after: &str) -> Self {
        Self {
            path: path.to_owned(),
            before: checksum(before),
            original: before.to_owned(),
            after: after.to_owned(),
        }
    }

    pub(crate) fn of(rewritten: &Rewritten) -> Self {
        Self::new(&rewritten.path, &rewritten.before, &rewritten.after)
    }

    fn make(&self, project: &Project) -> Result<(), NotReplaced> {
        replace(project, &self.path, &self.before, &self.after)
    }

    fn take_back(&self, project: &Project) -> Result<(), NotReplaced> {
        if checksum(&self.original) != self.before {
            return Err(NotReplaced::Edited);
        }
        replace(project, &self.path, &checksum(&self.after), &self.original)
    }
}

/// Identifies a change: the same files, from the same text to the same text.
pub(crate) fn preview_id(files: &[FileChange]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        for part in [file.path.to_string_lossy().as_bytes(), file.before.as_bytes(), file.after.as_bytes()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
    }
    hex(&hash.finalize())[..16].to_owned()
}

/// The unified diff of a change, as `git apply` takes it.
pub(crate) fn diff(files: &[Rewritten]) -> String {
    let mut out = String::new();
    for file in files {
        let path = file.path.display();
        let diff = TextDiff::from_lines(&file.before, &file.after);
        let unified = diff
            .unified_diff()
            .context_radius(CONTEXT)
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string();
        out.push_str(&unified);
    }
    out
}

impl Journals {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, opened: Arc::default() }
    }

    /// Carries out a change, unless a file differs from what the change was made for. If a file cannot be written,
    /// those before it are restored.
    pub(crate) fn apply(&self, project: &Project, files: &[FileChange]) -> Result<(), ToolError> {
        project.writable()?;
        for file in files {
            if current(project, &file.path).as_deref() != Some(file.before.as_str()) {
                return Err(has_changed(&file.path));
            }
        }
        let journal = Journal { root: project.root().to_owned(), files: files.to_vec() };
        let (journal, _lock) = self.commit(&journal)?;
        carry_out(project, files, &journal)
    }

    /// Brings the journal to the disk under its final name. It is this process's own while the lock is held.
    fn commit(&self, journal: &Journal) -> Result<(PathBuf, File), ToolError> {
        let name = journal.name();
        let (draft, path) =
            (self.folder.join(format!("{name}.draft")), self.folder.join(format!("{name}.{DECIDED}")));
        let write = || {
            std::fs::create_dir_all(&self.folder)?;
            let mut file = File::create(&draft)?;
            file.lock()?;
            file.write_all(&serde_json::to_vec(journal)?)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            File::open(&self.folder)?.sync_all()?;
            Ok(file)
        };
        let lock = write().map_err(|error| {
            // What fails here must not be found by the next start.
            let _ = std::fs::remove_file(&draft);
            let _ = std::fs::remove_file(&path);
            journal_error(&path, &error)
        })?;
        Ok((path, lock))
    }
}

impl Journal {
    /// A name that no other journal has: the same change may be made in two projects, or twice.
    fn name(&self) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(preview_id(&self.files));
        hash.update(self.root.as_os_str().as_encoded_bytes());
        hash.update(now.as_nanos().to_le_bytes());
        hash.update(std::process::id().to_le_bytes());
        hash.update(MADE.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        hex(&hash.finalize())[..16].to_owned()
    }
}

fn journal_error(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::new(format!("cannot write the journal `{}`: {error}", path.display()))
}

fn has_changed(path: &Path) -> ToolError {
    ToolError::new(format!("`{}` has changed; nothing was written", path.display()))
        .hint("preview the change again")
}

/// Replaces the files of a change, all or none, and removes its journal.
fn carry_out(project: &Project, files: &[FileChange], journal: &Path) -> Result<(), ToolError> {
    for (done, file) in files.iter().enumerate() {
        if let Err(why) = file.make(project) {
            return Err(roll_back(project, &files[..done], journal, &file.path, &why));
        }
    }
    std::fs::remove_file(journal).map_err(|error| {
        ToolError::new(format!(
            "the files were changed, but the journal `{}` was not removed: {error}",
            journal.display()
        ))
        .hint("delete it, or a part of the change may be made again after it was reverted")
    })
}

/// Restores files that were replaced before one that could not be; returns the error for the caller.
fn roll_back(
    project: &Project,
    replaced: &[FileChange],
    journal: &Path,
    path: &Path,
    why: &NotReplaced,
) -> ToolError {
    let undo = journal.with_extension(UNDO);
    let is_marked = std::fs::rename(journal, &undo).is_ok();
    let journal = if is_marked { &undo } else { journal };
    let taken_back = replaced.iter().map(|file| (file, file.take_back(project)));
    let failed: Vec<(&FileChange, NotReplaced)> =
        taken_back.filter_map(|(file, result)| Some((file, result.err()?))).collect();
    let can_be_repeated = failed.iter().any(|(_, why)| matches!(why, NotReplaced::Failed(_)));
    let is_kept = can_be_repeated || std::fs::remove_file(journal).is_err();
    if failed.is_empty() && !is_kept {
        return match why {
            NotReplaced::Edited => has_changed(path),
            NotReplaced::Failed(error) => {
                ToolError::new(format!("cannot write `{}`: {error}; no file was changed", path.display()))
            }
        };
    }
    let reason = |why: &NotReplaced| match why {
        NotReplaced::Edited => "it has changed".to_owned(),
        NotReplaced::Failed(error) => error.to_string(),
    };
    let mut message = format!("cannot write `{}`: {}", path.display(), reason(why));
    for (file, why) in &failed {
        let _ = write!(
            message,
            "; `{}` was changed and cannot be restored: {}",
            file.path.display(),
            reason(why)
        );
    }
    let error = ToolError::new(message);
    match (is_kept, is_marked) {
        (false, _) => error,
        (true, true) => error.hint("the next start of the pack restores the changed files"),
        (true, false) => error
            .hint(format!("delete `{}`, or the next start of the pack makes the change", journal.display())),
    }
}

/// Replaces the text of a file that has the checksum `from`. Its permissions stay. A file that has the new text
/// already was replaced by an earlier attempt.
fn replace(project: &Project, path: &Path, from: &str, text: &str) -> Result<(), NotReplaced> {
    match current(project, path) {
        Some(now) if now == from => {}
        Some(now) if now == checksum(text) => return Ok(()),
        _ => return Err(NotReplaced::Edited),
    }
    let inside = project.jail().path(&path.to_string_lossy()).map_err(NotReplaced::Failed)?;
    let write = |into: &mut File| -> Result<(), JailError> {
        into.set_len(0)?;
        Ok(into.write_all(text.as_bytes())?)
    };
    project.jail().edit(&inside, write).map_err(|error| match error {
        JailError::Changed { .. } => NotReplaced::Edited,
        error => NotReplaced::Failed(error),
    })
}

/// The checksum of a file as it is now.
fn current(project: &Project, path: &Path) -> Option<String> {
    let mut file = BufReader::new(project.open(path)?);
    let mut hash = Sha256::new();
    loop {
        let part = file.fill_buf().ok()?;
        if part.is_empty() {
            return Some(hex(&hash.finalize()));
        }
        hash.update(part);
        let read = part.len();
        file.consume(read);
    }
}

pub(crate) fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests;
