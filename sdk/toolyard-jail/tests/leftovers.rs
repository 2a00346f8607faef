//! What a killed writer left goes at the next write into its folder: only that, only when it is old, and only where
//! something is written.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use toolyard_jail::{Existing, Jail, JailError, Symlinks};

fn put(path: &Path, age: Duration) {
    let file = File::create(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

const OLD: Duration = Duration::from_mins(61);
const YOUNG: Duration = Duration::from_mins(58);

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn write(jail: &Jail, path: &str) {
    let written = jail.write(&jail.path(path).unwrap(), Existing::Replace, |file| {
        Ok::<_, JailError>(file.write_all(b"new")?)
    });
    written.unwrap();
}

#[test]
fn leftovers_go_at_the_next_write_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for folder in [&root.join("a"), &root.join("b"), &outside] {
        fs::create_dir_all(folder).unwrap();
        put(&folder.join(".toolyard-tmp-4711-0"), OLD);
    }
    let a = root.join("a");
    put(&a.join(".toolyard-tmp-4711-1"), YOUNG);
    put(&a.join(".toolyard-tmp-4711-2"), OLD);
    let held = File::open(a.join(".toolyard-tmp-4711-2")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    for name in [
        ".toolyard-tmp-mine",
        ".toolyard-tmp-1",
        ".toolyard-tmp-1-x",
        ".toolyard-tmp--1",
        "x.toolyard-tmp-1-1",
    ] {
        put(&a.join(name), OLD);
    }
    fs::create_dir(a.join(".toolyard-tmp-4711-3")).unwrap();
    put(&outside.join("victim"), OLD);
    symlink("../../outside/victim", a.join(".toolyard-tmp-4711-4")).unwrap();
    let before = names(&a);

    let jail = Jail::new(&root, Symlinks::Forbid).unwrap();
    jail.folder(&jail.path("a").unwrap()).unwrap().entries().unwrap();
    assert_eq!(names(&a), before, "reading removes nothing");
    write(&jail, "a/song");
    let expected: Vec<String> = before.into_iter().filter(|name| name != ".toolyard-tmp-4711-0").collect();
    assert_eq!(names(&a).into_iter().filter(|name| name != "song").collect::<Vec<_>>(), expected);
    assert_eq!(names(&root.join("b")), [".toolyard-tmp-4711-0"], "nothing was written there");
    assert_eq!(names(&outside), [".toolyard-tmp-4711-0", "victim"]);
    jail.edit(&jail.path("b/song").unwrap(), |_| Ok::<_, JailError>(())).unwrap_err();
    write(&jail, "b/song");
    assert_eq!(names(&root.join("b")), ["song"]);
}

#[test]
fn a_draft_that_is_being_written_is_never_taken_for_a_leftover() {
    let folder = tempfile::tempdir().unwrap();
    let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
    // As another process that meets it: a jail of its own.
    let other = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
    let written = jail.write(&jail.path("song").unwrap(), Existing::Keep, |file| {
        file.set_modified(SystemTime::now() - OLD)?;
        write(&other, "elsewhere");
        Ok::<_, JailError>(file.write_all(b"song")?)
    });
    written.unwrap();
    assert_eq!(names(folder.path()), ["elsewhere", "song"]);
}

#[test]
fn a_folder_is_swept_of_drafts_whose_writer_is_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (gone, here) =
        (format!(".toolyard-tmp-{}-0", gone.id()), format!(".toolyard-tmp-{}-0", std::process::id()));
    put(&folder.path().join(&gone), Duration::ZERO);
    put(&folder.path().join(&here), OLD);
    put(&folder.path().join("song"), OLD);
    let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
    jail.sweep(&jail.path(".").unwrap()).unwrap();
    assert_eq!(names(folder.path()), [here.as_str(), "song"]);
}
