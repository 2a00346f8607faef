//! What a jail does for its users: paths, links, writes, moves, removals. That nothing else happens is shown in
//! `hostile.rs` and `swapped.rs`.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use toolyard_jail::{Existing, Jail, JailError, Kind, Symlinks};

/// `root/` with `a/song` and links, beside `outside/secret`.
struct Yard {
    folder: TempDir,
    jail: Jail,
}

impl Yard {
    fn new(symlinks: Symlinks) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(root.join("a/song"), "song").unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        symlink("a", root.join("inside")).unwrap();
        symlink("../song", root.join("a/b/up")).unwrap();
        symlink(root.canonicalize().unwrap().join("a/song"), root.join("absolute")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let jail = Jail::new(&root, symlinks).unwrap();
        Self { folder, jail }
    }

    fn read(&self, path: &str) -> Result<String, JailError> {
        let mut text = String::new();
        self.jail.open(&self.jail.path(path)?)?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn write(&self, path: &str, existing: Existing) -> Result<(), JailError> {
        self.jail.write(&self.jail.path(path)?, existing, |file| Ok(file.write_all(b"new")?))
    }
}

#[test]
fn paths_are_relative_to_the_root_or_absolute_below_it() {
    let yard = Yard::new(Symlinks::Forbid);
    let root = yard.jail.root().to_str().unwrap();
    let check = |text: &str, expected: Result<&str, &str>| {
        let found = yard.jail.path(text).map(|path| path.to_string()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text:?}");
    };
    check("a/song", Ok("a/song"));
    check("./a//song/", Ok("a/song"));
    check(".", Ok("."));
    check(&format!("{root}/a"), Ok("a"));
    check(root, Ok("."));
    check("not/there/yet", Ok("not/there/yet"));
    check("a/../a", Err("path `a/../a` is outside of the root folder"));
    check("..", Err("path `..` is outside of the root folder"));
    check("/etc", Err("path `/etc` is outside of the root folder"));
    check("", Err("path `` is not valid: it is empty; the root folder is `.`"));
    check("a\0b", Err("path `a\0b` is not valid: it holds a NUL character"));
    let sibling = format!("{root}2/a");
    check(&sibling, Err(format!("path `{sibling}` is outside of the root folder").as_str()));
}

#[test]
fn links_are_refused_in_every_part_where_they_are_forbidden() {
    let yard = Yard::new(Symlinks::Forbid);
    assert_eq!(yard.read("a/song").unwrap(), "song");
    for path in ["inside/song", "a/b/up", "absolute", "out/secret", "slash/etc/passwd", "circle"] {
        assert!(matches!(yard.read(path), Err(JailError::Symlink { .. })), "{path}: {:?}", yard.read(path));
        let written = yard.write(path, Existing::Replace);
        assert!(matches!(written, Err(JailError::Symlink { .. })), "{path}: {written:?}");
    }
}

#[test]
fn links_are_followed_as_long_as_they_stay_inside() {
    let yard = Yard::new(Symlinks::Follow);
    for path in ["a/song", "inside/song", "a/b/up", "absolute", "inside/b/up"] {
        assert_eq!(yard.read(path).unwrap(), "song", "{path}");
    }
    for path in ["out/secret", "slash/etc/passwd", "circle", "circle/x"] {
        assert!(matches!(yard.read(path), Err(JailError::LinkOutside { .. })), "{path}");
    }
    yard.write("absolute", Existing::Replace).unwrap();
    assert_eq!(yard.read("a/song").unwrap(), "new");
    assert_eq!(yard.jail.look(&yard.jail.path("absolute").unwrap()).unwrap().kind, Kind::Symlink);
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let yard = Yard::new(Symlinks::Forbid);
    let song = yard.jail.path("a/song").unwrap();
    let failed = yard.jail.edit(&song, |file| {
        file.write_all(b"half")?;
        Err::<(), _>(JailError::RootItself)
    });
    assert!(failed.is_err());
    assert_eq!(yard.read("a/song").unwrap(), "song");
    assert!(matches!(yard.write("a/song", Existing::Keep), Err(JailError::Exists { .. })));
    yard.write("a/song", Existing::Replace).unwrap();
    yard.write("a/other", Existing::Keep).unwrap();
    assert_eq!(yard.read("a/song").unwrap() + &yard.read("a/other").unwrap(), "newnew");
    let names: Vec<_> = yard.jail.folder(&yard.jail.path("a").unwrap()).unwrap().entries().unwrap();
    let names: Vec<_> = names.into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["b", "other", "song"], "no draft is left");
}

#[test]
fn folders_are_made_as_far_as_they_are_missing() {
    let yard = Yard::new(Symlinks::Forbid);
    let made = |path: &str| {
        let made = yard.jail.make_folders(&yard.jail.path(path).unwrap());
        made.map(|made| made.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(made("a/x/y").unwrap(), ["a/x", "a/x/y"]);
    assert_eq!(made("a/x/y").unwrap(), [""; 0]);
    assert!(matches!(made("a/song/x"), Err(JailError::NotAFolder { .. })));
    assert!(matches!(made("out/x"), Err(JailError::Symlink { .. })));
}

#[test]
fn a_move_replaces_only_what_it_may() {
    let yard = Yard::new(Symlinks::Forbid);
    let path = |text: &str| yard.jail.path(text).unwrap();
    yard.write("one", Existing::Keep).unwrap();
    let kept = yard.jail.rename(&path("one"), &path("a/song"), Existing::Keep);
    assert!(matches!(kept, Err(JailError::Exists { .. })), "{kept:?}");
    yard.jail.rename(&path("one"), &path("a/song"), Existing::Replace).unwrap();
    assert_eq!(yard.read("a/song").unwrap(), "new");
    let into_itself = yard.jail.rename(&path("a"), &path("a/b/c"), Existing::Keep);
    assert!(into_itself.unwrap_err().to_string().contains("into itself"));
    yard.jail.rename(&path("out"), &path("a/out"), Existing::Keep).unwrap();
    assert_eq!(yard.jail.look(&path("a/out")).unwrap().kind, Kind::Symlink, "the link itself moved");
    for (from, to) in [(".", "x"), ("a", ".")] {
        let moved = yard.jail.rename(&path(from), &path(to), Existing::Replace);
        assert!(matches!(moved, Err(JailError::RootItself)), "{from} → {to}");
    }
}

#[test]
fn removing_takes_the_link_and_never_the_root() {
    let yard = Yard::new(Symlinks::Follow);
    let path = |text: &str| yard.jail.path(text).unwrap();
    yard.jail.remove_file(&path("absolute")).unwrap();
    assert_eq!(yard.read("a/song").unwrap(), "song");
    assert!(yard.jail.remove_tree(&path("out"), &mut || true).is_err());
    symlink("../../outside", yard.jail.root().join("a/b/far")).unwrap();
    assert!(yard.jail.remove_tree(&path("a"), &mut || true).unwrap());
    assert!(yard.folder.path().join("outside/secret").exists());
    assert!(matches!(yard.jail.remove_tree(&path("."), &mut || true), Err(JailError::RootItself)));
    assert!(matches!(yard.jail.remove_folder(&path(".")), Err(JailError::RootItself)));
}

#[test]
fn a_removal_can_be_stopped() {
    let yard = Yard::new(Symlinks::Forbid);
    let mut left = 1;
    let mut go_on = || {
        left -= 1;
        left >= 0
    };
    assert!(!yard.jail.remove_tree(&yard.jail.path("a").unwrap(), &mut go_on).unwrap());
    assert!(yard.jail.root().join("a").exists());
}

#[test]
fn only_files_are_opened_as_files() {
    let yard = Yard::new(Symlinks::Forbid);
    std::process::Command::new("mkfifo").arg(yard.jail.root().join("pipe")).status().unwrap();
    for path in ["pipe", "a", "."] {
        assert!(matches!(yard.read(path), Err(JailError::NotAFile { .. })), "{path}: {:?}", yard.read(path));
    }
}

#[test]
fn a_cancelled_edit_stops_between_two_blocks_and_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let huge = fs::File::create(folder.path().join("huge")).unwrap();
    huge.set_len(100 * 1024 * 1024).unwrap();
    let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
    let looks = std::cell::Cell::new(0);
    let go_on = || {
        looks.set(looks.get() + 1);
        looks.get() < 3
    };
    let edited = jail.edit_while(&jail.path("huge").unwrap(), &go_on, |_| -> Result<(), JailError> {
        panic!("the copy is not complete")
    });
    assert!(matches!(edited, Err(JailError::Cancelled { path }) if path == "huge"));
    assert_eq!(looks.get(), 3, "it went on after the cancellation");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["huge"]);
}

#[test]
fn an_edit_does_not_replace_a_file_that_another_program_has_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("song");
    fs::write(&path, "old").unwrap();
    let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
    let edited = jail.edit(&jail.path("song").unwrap(), |_| -> Result<(), JailError> {
        fs::write(folder.path().join("new"), "theirs")?;
        Ok(fs::rename(folder.path().join("new"), &path)?)
    });
    assert!(matches!(edited, Err(JailError::Changed { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}
