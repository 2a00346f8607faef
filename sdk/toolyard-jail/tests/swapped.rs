//! Another process swaps a folder for a link to the outside, over and over, while paths through it are used. Nothing
//! outside is ever read or changed.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use toolyard_jail::{Existing, Jail, Symlinks};

const ROUNDS: usize = 3_000;

#[test]
fn a_folder_swapped_for_a_link_during_the_call_leads_nowhere() {
    for symlinks in [Symlinks::Forbid, Symlinks::Follow] {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a/deep")).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        for place in [&root.join("a"), &outside] {
            fs::write(place.join("deep/kept"), place.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        symlink("../outside", root.join("swap")).unwrap();
        let jail = Jail::new(&root, symlinks).unwrap();
        let (is_over, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| swap(&root, &is_over, &swaps));
            let insides = (0..ROUNDS).filter(|round| use_paths(&jail, *round)).count();
            is_over.store(true, Ordering::Relaxed);
            assert!(insides > 0, "not one path led inside");
        });
        assert!(swaps.load(Ordering::Relaxed) > 10, "it was hardly swapped");
        let names = |path: &Path| -> Vec<_> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(&outside), ["deep"]);
        assert_eq!(names(&outside.join("deep")), ["kept"]);
        assert_eq!(fs::read(outside.join("deep/kept")).unwrap(), b"outside");
    }
}

/// The folder `a` and the link `swap` change places in one step.
fn swap(root: &Path, is_over: &AtomicBool, swaps: &AtomicUsize) {
    while !is_over.load(Ordering::Relaxed) {
        renameat_with(CWD, root.join("a"), CWD, root.join("swap"), RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads, writes, makes and removes below `a`. Whether reading led inside.
fn use_paths(jail: &Jail, round: usize) -> bool {
    let path = |text: &str| jail.path(text).unwrap();
    let _ = jail.write(&path("a/deep/new"), Existing::Replace, |file| {
        Ok::<_, toolyard_jail::JailError>(file.write_all(b"new")?)
    });
    let _ = jail.edit(&path("a/deep/kept"), |_| Ok::<_, toolyard_jail::JailError>(()));
    let _ = jail.make_folders(&path(&format!("a/deep/folder{}", round % 2)));
    let _ = jail.rename(&path("a/deep/new"), &path("a/moved"), Existing::Replace);
    let _ = jail.remove_tree(&path(&format!("a/deep/folder{}", round % 2)), &mut || true);
    let _ = jail.remove_file(&path("a/moved"));
    let Ok(mut file) = jail.open(&path("a/deep/kept")) else { return false };
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "a", "what is outside was read");
    true
}
