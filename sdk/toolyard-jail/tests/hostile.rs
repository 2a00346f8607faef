//! Whatever path is given to whatever operation, nothing outside of the root is read or changed; and what may
//! be read is read.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use toolyard_jail::{Existing, Jail, JailError, Symlinks};

/// Parts of paths that an attacker would use to leave the root, and some that exist.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "b", "song", "in", "out", "abs", "up", "root", "outside", "secret"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["..", ".", "", "\0", "...", "~", "-", " ", "a\\..", "%2e%2e", "ROOT", "/"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    (prop::bool::ANY, prop::collection::vec(part(), 0..7))
        .prop_map(|(is_absolute, parts)| if is_absolute { "/" } else { "" }.to_owned() + &parts.join("/"))
}

/// An operation either succeeds or returns an error.
type Operation = fn(&Jail, &str, &str) -> Result<(), JailError>;

const OPERATIONS: [(&str, Operation); 9] = [
    ("open", |jail, path, _| {
        let mut text = String::new();
        jail.open(&jail.path(path)?)?.read_to_string(&mut text)?;
        assert_ne!(text, "secret", "{path:?} was read");
        Ok(())
    }),
    ("list", |jail, path, _| {
        let entries = jail.folder(&jail.path(path)?)?.entries()?;
        assert!(entries.iter().all(|entry| entry.name != "marker"), "{path:?} was listed");
        Ok(())
    }),
    ("write", |jail, path, _| {
        jail.write(&jail.path(path)?, Existing::Replace, |file| Ok(file.write_all(b"written")?))
    }),
    ("edit", |jail, path, _| jail.edit(&jail.path(path)?, |file| Ok(file.write_all(b"edited")?))),
    ("make", |jail, path, _| jail.make_folders(&jail.path(path)?).map(drop)),
    ("move", |jail, path, other| jail.rename(&jail.path(path)?, &jail.path(other)?, Existing::Replace)),
    ("link", |jail, path, other| jail.link(&jail.path(path)?, &jail.path(other)?)),
    ("remove", |jail, path, _| jail.remove_file(&jail.path(path)?)),
    ("remove all", |jail, path, _| jail.remove_tree(&jail.path(path)?, &mut || true).map(drop)),
];

/// A root with links of all kinds, inside a folder that must stay as it is.
fn prepare(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir_all(folder.join("outside/a")).unwrap();
    fs::write(root.join("a/song"), "song").unwrap();
    fs::write(folder.join("outside/secret"), "secret").unwrap();
    fs::write(folder.join("outside/song"), "secret").unwrap();
    fs::write(folder.join("outside/marker"), "secret").unwrap();
    symlink("a", root.join("in")).unwrap();
    symlink("../outside", root.join("out")).unwrap();
    symlink(folder.join("outside"), root.join("a/abs")).unwrap();
    symlink("..", root.join("a/up")).unwrap();
    symlink("../../../outside/secret", root.join("a/b/secret")).unwrap();
    root
}

/// Everything in the folder except the root.
fn outside(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("root") {
                todo.push(path.clone());
            }
            found.push((path.clone(), fs::read(&path).ok()));
        }
    }
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_is_touched(
        follows: bool,
        calls in prop::collection::vec((0..OPERATIONS.len(), path(), path()), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let root = prepare(&folder);
        let before = outside(&folder);
        let jail = Jail::new(&root, if follows { Symlinks::Follow } else { Symlinks::Forbid }).unwrap();
        for (operation, path, other) in &calls {
            // Half of the absolute paths begin in the right place.
            let path = path.replace("ROOT", root.to_str().unwrap());
            let _ = OPERATIONS[*operation].1(&jail, &path, other);
            prop_assert!(root.is_dir(), "the root was removed by {calls:?}");
        }
        prop_assert_eq!(outside(&folder), before, "{:?}", calls.iter().map(|call| OPERATIONS[call.0].0).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_is_opened_exactly_if_it_is_inside(follows: bool, path in path()) {
        let folder = tempfile::tempdir().unwrap();
        let root = prepare(&folder.path().canonicalize().unwrap());
        let jail = Jail::new(&root, if follows { Symlinks::Follow } else { Symlinks::Forbid }).unwrap();
        let opened = jail.path(&path).and_then(|path| jail.open(&path));
        let plain: PathBuf = root.join(&path).components().collect();
        let may = !path.is_empty()
            && !Path::new(&path).components().any(|part| part == std::path::Component::ParentDir)
            && plain.canonicalize().is_ok_and(|real| {
                real.is_file() && real.starts_with(&root) && (follows || real == plain)
            });
        prop_assert_eq!(opened.is_ok(), may, "{:?}", opened);
    }
}
