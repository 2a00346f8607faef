//! A library on two file systems: what cannot be renamed is copied, then deleted, and undone the same way.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::doors::wav;
use crate::program::{Client, toolyard};

/// The pack in a mount namespace of its own, where `library/other` is another file system. The files there can only
/// be seen through the program.
fn with_a_mount(home: &Path) -> Client {
    let script = "mount -t tmpfs tmpfs library/other && exec \"$@\"";
    let program = toolyard(home, &["pack", "music", "--root", "library"]);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh"]).arg(program.get_program()).args(program.get_args());
    command.current_dir(home).env("HOME", home).env("XDG_CACHE_HOME", home.join("cache"));
    Client::of(command)
}

fn structured(answer: &Value) -> &Value {
    assert_ne!(answer["isError"], true, "{answer}");
    &answer["structuredContent"]
}

#[test]
#[ignore = "needs a mount namespace; `cargo xtask test` runs it where it can"]
fn moves_between_two_file_systems_copy_and_delete_and_are_undone() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("library/album/disc")).unwrap();
    fs::create_dir_all(home.path().join("library/other")).unwrap();
    for path in ["song.wav", "album/one.wav", "album/disc/two.wav"] {
        fs::write(home.path().join("library").join(path), wav()).unwrap();
    }
    let mut music = with_a_mount(home.path());
    let list = json!({ "path": ".", "recursive_depth": -1, "detailed": true });
    let before = structured(&music.call("fs_list_dir", &list))["entries"].clone();
    for (from, to) in [("song.wav", "other/song.wav"), ("album", "other/album")] {
        let moved = music.call("fs_move", &json!({ "from": from, "to": to }));
        assert_eq!(structured(&moved)["strategy"], "copy_then_delete");
        assert!(!home.path().join("library").join(from).exists(), "{from} is still there");
        let back = music.call("fs_move", &json!({ "from": to, "to": from }));
        assert_eq!(structured(&back)["strategy"], "copy_then_delete");
    }
    assert_eq!(structured(&music.call("fs_list_dir", &list))["entries"], before);
    assert_eq!(fs::read(home.path().join("library/album/disc/two.wav")).unwrap(), wav());

    let operations = json!([
        { "op": "write_metadata", "path": "song.wav", "title": "Song" },
        { "op": "move", "from": "song.wav", "to": "other/a/song.wav", "mkdir_parents": true },
        { "op": "move", "from": "album", "to": "other/album" },
        { "op": "write_metadata", "path": "other/album/one.wav", "title": "One" },
        { "op": "move", "from": "other/album/disc/two.wav", "to": "other/a/song.wav", "overwrite": true },
    ]);
    let done = music.call("apply_plan", &json!({ "operations": operations }));
    assert_eq!(structured(&done)["error_count"], 0, "{done}");
    let undone = music.call("undo_plan", &json!({}));
    assert_eq!(structured(&undone)["complete"], true, "{undone}");
    assert_eq!(structured(&music.call("fs_list_dir", &list))["entries"], before);
    for path in ["song.wav", "album/one.wav", "album/disc/two.wav"] {
        assert_eq!(fs::read(home.path().join("library").join(path)).unwrap(), wav(), "{path}");
    }
}

/// From the test's folder to the memory disk, in a library that is the whole system: needs no mount.
#[test]
fn a_move_to_another_file_system_copies_and_deletes() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fs::create_dir_all(home.join("library")).unwrap();
    fs::write(home.join("library/song.wav"), wav()).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let devices = [home, memory.path()].map(|folder| fs::metadata(folder).unwrap().dev());
    assert_ne!(
        devices[0], devices[1],
        "there is only one file system here: see `relocate` for an injected error"
    );
    let (from, to) = (home.join("library/song.wav").canonicalize().unwrap(), memory.path().join("song.wav"));
    fs::set_permissions(&from, fs::Permissions::from_mode(0o640)).unwrap();
    let (mut music, _) = Client::stdio(home, &["pack", "music", "--root", "/"]);
    let moved = music.call("fs_move", &json!({ "from": from, "to": to }));
    assert_eq!(structured(&moved)["strategy"], "copy_then_delete");
    assert!(!from.exists());
    assert_eq!(fs::read(&to).unwrap(), wav());
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o640);
}
