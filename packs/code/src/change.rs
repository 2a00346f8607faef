//! Changes to several files at once: all of them or none, also if the process is killed in between.
//!
//! What is to be written goes into a journal first. Once the journal is on the disk, the change is decided: files are
//! replaced one by one, and the journal is removed. A journal that is found later belongs to a process that was killed:
//! its change is carried out to the end. A file that another process changed in the meantime is left alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;
use toolyard_jail::{Existing, JailError};
use toolyard_tool::ToolError;

use crate::project::{Project, Projects, jail_error};
use crate::search::ast::Rewritten;

/// Lines around a change in a diff.
const CONTEXT: usize = 3;

/// One file of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileChange {
    /// Relative to the project's root.
    pub(crate) path: PathBuf,
    /// The checksum of the text that is replaced.
    pub(crate) before: String,
    pub(crate) after: String,
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
}

impl FileChange {
    pub(crate) fn of(rewritten: &Rewritten) -> Self {
        Self {
            path: rewritten.path.clone(),
            before: checksum(&rewritten.before),
            after: rewritten.after.clone(),
        }
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
        Self { folder }
    }

    /// Carries out a change, unless a file differs from what the change was made for.
    pub(crate) fn apply(&self, project: &Project, files: &[FileChange]) -> Result<(), ToolError> {
        project.writable()?;
        for file in files {
            if current(project, &file.path).as_deref() != Some(file.before.as_str()) {
                return Err(ToolError::new(format!(
                    "`{}` has changed; nothing was written",
                    file.path.display()
                ))
                .hint("preview the change again"));
            }
        }
        let journal = self.commit(&Journal { root: project.root().to_owned(), files: files.to_vec() })?;
        write_all(project, files)?;
        std::fs::remove_file(&journal).map_err(|error| journal_error(&journal, &error))
    }

    /// Finishes the changes of processes that were killed. Projects that may no longer be changed are left alone.
    pub(crate) fn recover(&self, projects: &Projects) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension().is_some_and(|extension| extension == "journal")
                && let Err(error) = recover_one(&path, projects)
            {
                tracing::warn!(target: "code", journal = %path.display(), %error, "could not finish a change");
            }
        }
    }

    /// Brings the journal to the disk under its final name.
    fn commit(&self, journal: &Journal) -> Result<PathBuf, ToolError> {
        let name = preview_id(&journal.files);
        let (draft, path) =
            (self.folder.join(format!("{name}.draft")), self.folder.join(format!("{name}.journal")));
        let write = || {
            std::fs::create_dir_all(&self.folder)?;
            let mut file = std::fs::File::create(&draft)?;
            file.write_all(&serde_json::to_vec(journal)?)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            std::fs::File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| journal_error(&path, &error))?;
        Ok(path)
    }
}

fn journal_error(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::new(format!("cannot write the journal `{}`: {error}", path.display()))
}

fn recover_one(path: &Path, projects: &Projects) -> Result<(), ToolError> {
    let broken = |error: &dyn std::fmt::Display| ToolError::new(format!("cannot read the journal: {error}"));
    let bytes = std::fs::read(path).map_err(|error| broken(&error))?;
    let journal: Journal = serde_json::from_slice(&bytes).map_err(|error| broken(&error))?;
    let project = projects.of_journal(&journal.root)?;
    project.writable()?;
    let pending: Vec<FileChange> = journal
        .files
        .into_iter()
        .filter(|file| current(&project, &file.path).as_deref() == Some(file.before.as_str()))
        .collect();
    write_all(&project, &pending)?;
    std::fs::remove_file(path).map_err(|error| journal_error(path, &error))
}

fn write_all(project: &Project, files: &[FileChange]) -> Result<(), ToolError> {
    for file in files {
        let path = project.inside(&file.path)?;
        let write = |into: &mut std::fs::File| -> Result<(), JailError> {
            Ok(into.write_all(file.after.as_bytes())?)
        };
        project.jail().write(&path, Existing::Replace, write).map_err(jail_error)?;
    }
    Ok(())
}

/// The checksum of a file as it is now.
fn current(project: &Project, path: &Path) -> Option<String> {
    project.text(path).map(|text| checksum(&text))
}

pub(crate) fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        folder: tempfile::TempDir,
        projects: Projects,
        journals: Journals,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        for (path, text) in [("a", "one\n"), ("b", "two\n"), ("c", "three\n")] {
            std::fs::write(project.join(path), text).unwrap();
        }
        let projects = Projects::new(vec![project], true);
        let journals = Journals::new(folder.path().join("journals"));
        Scene { folder, projects, journals }
    }

    fn change(path: &str, before: &str, after: &str) -> FileChange {
        FileChange { path: path.into(), before: checksum(before), after: after.into() }
    }

    impl Scene {
        fn project(&self) -> Project {
            self.projects.locate(".", None).unwrap().project
        }

        fn texts(&self) -> [String; 3] {
            ["a", "b", "c"]
                .map(|name| std::fs::read_to_string(self.folder.path().join("project").join(name)).unwrap())
        }
    }

    #[test]
    fn a_change_replaces_all_its_files_and_leaves_no_journal() {
        let scene = scene();
        scene
            .journals
            .apply(&scene.project(), &[change("a", "one\n", "1\n"), change("b", "two\n", "2\n")])
            .unwrap();
        assert_eq!(scene.texts(), ["1\n", "2\n", "three\n"]);
        assert_eq!(std::fs::read_dir(scene.folder.path().join("journals")).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_written_if_a_file_has_changed_since_the_preview() {
        let scene = scene();
        let changes = [change("a", "one\n", "1\n"), change("b", "other\n", "2\n")];
        let error = scene.journals.apply(&scene.project(), &changes).unwrap_err();
        assert_eq!(error.message(), "`b` has changed; nothing was written");
        assert_eq!(scene.texts(), ["one\n", "two\n", "three\n"]);
    }

    #[test]
    fn a_change_that_was_cut_off_is_finished_but_later_edits_are_kept() {
        let scene = scene();
        let root = scene.project().root().to_owned();
        let files =
            vec![change("a", "one\n", "1\n"), change("b", "two\n", "2\n"), change("c", "three\n", "3\n")];
        scene.journals.commit(&Journal { root: root.clone(), files }).unwrap();
        // The process was killed after the first file, and the last one was edited.
        std::fs::write(root.join("a"), "1\n").unwrap();
        std::fs::write(root.join("c"), "edited\n").unwrap();
        scene.journals.recover(&scene.projects);
        assert_eq!(scene.texts(), ["1\n", "2\n", "edited\n"]);
        assert_eq!(std::fs::read_dir(scene.folder.path().join("journals")).unwrap().count(), 0);
    }

    #[test]
    fn a_read_only_project_is_not_changed() {
        let scene = scene();
        let read_only = Projects::new(vec![scene.project().root().to_owned()], false);
        let project = read_only.locate(".", None).unwrap().project;
        let error = scene.journals.apply(&project, &[change("a", "one\n", "1\n")]).unwrap_err();
        assert!(error.message().ends_with("is read-only"), "{}", error.message());
        assert_eq!(scene.texts()[0], "one\n");
    }

    #[test]
    fn a_preview_id_names_exactly_one_change() {
        let one = [change("a", "x", "y")];
        assert_eq!(preview_id(&one), preview_id(&one));
        assert_ne!(preview_id(&one), preview_id(&[change("a", "x", "z")]));
        assert_ne!(preview_id(&one), preview_id(&[change("b", "x", "y")]));
    }
}
