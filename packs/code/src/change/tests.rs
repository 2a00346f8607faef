//! Changes to a real folder, and what is left of those that were cut off.

use super::*;
use crate::project::Projects;

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
    FileChange::new(Path::new(path), before, after)
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

impl Scene {
    /// The journal of a process that was killed when it had written these texts: of a change of all three files.
    fn cut_off(&self, texts: [&str; 3]) -> PathBuf {
        let root = self.project().root().to_owned();
        let files =
            vec![change("a", "one\n", "1\n"), change("b", "two\n", "2\n"), change("c", "three\n", "3\n")];
        let (journal, _) = self.journals.commit(&Journal { root: root.clone(), files }).unwrap();
        for (name, text) in ["a", "b", "c"].iter().zip(texts) {
            std::fs::write(root.join(name), text).unwrap();
        }
        journal
    }
}

#[test]
fn a_change_that_was_cut_off_is_finished_if_its_files_are_as_it_left_them() {
    for texts in [["1\n", "two\n", "three\n"], ["1\n", "2\n", "three\n"]] {
        let scene = scene();
        scene.cut_off(texts);
        scene.journals.open(&scene.project());
        assert_eq!(scene.texts(), ["1\n", "2\n", "3\n"]);
        assert_eq!(journals(&scene), [""; 0]);
    }
}

#[test]
fn a_change_that_was_cut_off_is_taken_back_if_one_of_its_files_was_edited_since() {
    let scene = scene();
    scene.cut_off(["1\n", "two\n", "edited\n"]);
    scene.journals.open(&scene.project());
    assert_eq!(scene.texts(), ["one\n", "two\n", "edited\n"]);
    assert_eq!(journals(&scene), [""; 0]);
}

#[test]
fn a_change_that_was_reverted_or_completed_by_hand_is_not_made_again_nor_taken_back() {
    for texts in [
        ["one\n", "two\n", "three\n"],
        ["one\n", "edited\n", "three\n"],
        ["1\n", "2\n", "3\n"],
        ["1\n", "2\n", "edited\n"],
    ] {
        let scene = scene();
        scene.cut_off(texts);
        scene.journals.open(&scene.project());
        assert_eq!(scene.texts(), texts);
        assert_eq!(journals(&scene), [""; 0]);
    }
    let scene = scene();
    let journal = scene.cut_off(["1\n", "2\n", "3\n"]);
    std::fs::rename(&journal, journal.with_extension(UNDO)).unwrap();
    scene.journals.open(&scene.project());
    assert_eq!(scene.texts(), ["1\n", "2\n", "3\n"], "the change that had failed was made again");
    assert_eq!(journals(&scene), [""; 0]);
}

#[test]
fn a_journal_is_left_alone_by_other_projects_by_readers_and_while_its_process_is_at_work() {
    let scene = scene();
    let half = ["1\n", "two\n", "three\n"];
    let journal = scene.cut_off(half);
    let other = scene.folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = Projects::new(vec![other], true).locate(".", None).unwrap().project;
    scene.journals.open(&other);
    let read_only = Projects::new(vec![scene.project().root().to_owned()], false);
    scene.journals.open(&read_only.locate(".", None).unwrap().project);
    let mut unproven = scene.project();
    unproven.is_proven = false;
    assert!(!scene.journals.is_unopened(&unproven));
    scene.journals.open(&unproven);
    let at_work = File::open(&journal).unwrap();
    at_work.lock().unwrap();
    scene.journals.recover(&scene.project());
    assert_eq!((scene.texts(), journals(&scene).len()), (half.map(str::to_owned), 1));
    drop(at_work);
    assert!(scene.journals.is_unopened(&scene.project()));
    scene.journals.open(&scene.project());
    assert_eq!((scene.texts(), journals(&scene).len()), (["1\n", "2\n", "3\n"].map(str::to_owned), 0));
    assert!(!scene.journals.is_unopened(&scene.project()));
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

/// The names of the journals that are left.
fn journals(scene: &Scene) -> Vec<String> {
    let entries = std::fs::read_dir(scene.folder.path().join("journals")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Sets the permissions of a folder, and gives up the right of root to ignore them.
#[cfg(target_os = "linux")]
fn permit(folder: &Path, mode: u32) {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::os::unix::fs::PermissionsExt as _;
    let mut own = capabilities(None).unwrap();
    own.effective.remove(CapabilitySet::DAC_OVERRIDE);
    set_capabilities(None, own).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn if_a_file_cannot_be_written_those_before_it_are_restored() {
    let scene = scene();
    let locked = scene.project().root().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::write(locked.join("d"), "four\n").unwrap();
    permit(&locked, 0o555);
    let changes =
        [change("a", "one\n", "1\n"), change("locked/d", "four\n", "4\n"), change("c", "three\n", "3\n")];
    let error = scene.journals.apply(&scene.project(), &changes).unwrap_err();
    permit(&locked, 0o755);
    assert_eq!(
        error.message(),
        "cannot write `locked/d`: path `locked/d`: Permission denied (os error 13); no file was changed"
    );
    assert_eq!(scene.texts(), ["one\n", "two\n", "three\n"]);
    assert_eq!(journals(&scene), [""; 0], "the next start has nothing to finish");
    scene.journals.apply(&scene.project(), &changes).unwrap();
    assert_eq!(scene.texts(), ["1\n", "two\n", "3\n"]);
}

#[test]
fn a_file_that_is_swapped_during_a_change_is_kept_and_the_others_are_restored() {
    type Swap = fn(&Path);
    let swaps: [Swap; 3] = [
        |path| std::fs::write(path, "edited\n").unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
        |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        },
    ];
    for swap in swaps {
        let scene = scene();
        let project = scene.project();
        let files = vec![change("a", "one\n", "1\n"), change("c", "three\n", "3\n")];
        let journal = Journal { root: project.root().to_owned(), files: files.clone() };
        let (journal, _lock) = scene.journals.commit(&journal).unwrap();
        swap(&project.root().join("c"));
        let error = carry_out(&project, &files, &journal).unwrap_err();
        assert_eq!(error.message(), "`c` has changed; nothing was written");
        assert_eq!(std::fs::read_to_string(project.root().join("a")).unwrap(), "one\n");
        let kept = std::fs::read_to_string(project.root().join("c")).ok();
        assert!(kept.is_none_or(|text| text == "edited\n"));
        assert_eq!(journals(&scene), [""; 0]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_restored_is_named_and_restored_by_the_next_start() {
    let scene = scene();
    let project = scene.project();
    let files = vec![change("a", "one\n", "1\n"), change("b", "two\n", "2\n")];
    let journal = Journal { root: project.root().to_owned(), files: files.clone() };
    let (journal, _) = scene.journals.commit(&journal).unwrap();
    files[0].make(&project).unwrap();
    permit(project.root(), 0o555);
    let error = carry_out(&project, &files, &journal).unwrap_err();
    scene.journals.recover(&project);
    assert_eq!(scene.texts(), ["1\n", "two\n", "three\n"]);
    permit(project.root(), 0o755);
    assert_eq!(
        error.to_string(),
        "cannot write `b`: path `b`: Permission denied (os error 13); `a` was changed and cannot be restored: path `a`: \
         Permission denied (os error 13)\nHint: the next start of the pack restores the changed files"
    );
    scene.journals.recover(&project);
    assert_eq!(scene.texts(), ["one\n", "two\n", "three\n"]);
    assert_eq!(journals(&scene), [""; 0]);
}

#[test]
fn a_restore_that_was_cut_off_is_finished_but_later_edits_are_kept() {
    let scene = scene();
    // The process was killed after it had restored the first file, and the last one was edited.
    let journal = scene.cut_off(["one\n", "2\n", "edited\n"]);
    std::fs::rename(&journal, journal.with_extension(UNDO)).unwrap();
    scene.journals.open(&scene.project());
    assert_eq!(scene.texts(), ["one\n", "two\n", "edited\n"]);
    assert_eq!(journals(&scene), [""; 0]);
}

#[test]
#[cfg(unix)]
fn a_changed_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = scene();
    let script = scene.project().root().join("a");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o751)).unwrap();
    scene.journals.apply(&scene.project(), &[change("a", "one\n", "1\n")]).unwrap();
    assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o751);
}
