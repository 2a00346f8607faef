//! No data is lost if other processes write, too.

use super::*;

fn change<'a>(path: &'a Path, before: Option<&'a str>, text: &'a str) -> Change<'a> {
    Change { path, before, text, readers: Readers::Owner, has_folder_lock: false }
}

#[test]
fn a_change_by_another_program_meanwhile_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    let check = |before: Option<&str>, there: Option<&str>| {
        let _ = fs::remove_file(&path);
        if let Some(text) = there {
            fs::write(&path, text).unwrap();
        }
        let outcome = change(&path, before, "new").write();
        let expected = if before == there { Some("new") } else { there };
        assert_eq!(read(&path).unwrap().as_deref(), expected, "{before:?} {there:?}");
        assert_eq!(outcome.is_ok(), before == there);
        assert!(fs::read_dir(folder.path()).unwrap().count() <= 1, "nothing is left beside it");
    };
    check(Some("old"), Some("old"));
    check(Some("old"), Some("other"));
    check(Some("old"), None);
    check(None, None);
    check(None, Some("other"));
}

#[test]
fn a_file_of_that_name_is_never_taken_for_the_draft() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    let taken = beside(&path, &format!(".{}-0", std::process::id()));
    fs::write(&taken, "mine").unwrap();
    change(&path, None, "new").write().unwrap();
    assert_eq!(read(&taken).unwrap().as_deref(), Some("mine"));
    assert_eq!(read(&path).unwrap().as_deref(), Some("new"));
}

#[test]
fn a_backup_is_what_was_read_and_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, "written meanwhile").unwrap();
    let check = |before: &str, name: &str| {
        let backup = back_up(&path, &path, before).unwrap();
        assert_eq!(backup.path, folder.path().join(name));
        assert_eq!(read(&backup.path).unwrap().as_deref(), Some(before));
    };
    check("one", "mcp.json.bak");
    check("one", "mcp.json.bak");
    check("two", "mcp.json.bak1");
    check("one", "mcp.json.bak2");
    let backup = back_up(&path, &path, "one").unwrap();
    backup.drop_it();
    assert!(backup.path.is_file(), "it was there before");
}

#[test]
fn two_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Neither the file nor its folder is there yet.
    let path = folder.path().join("new").join("file");
    let add = |number: usize| {
        let _lock = lock(&path).unwrap();
        let before = read(&path).unwrap();
        let text = format!("{}{number}\n", before.as_deref().unwrap_or_default());
        change(&path, before.as_deref(), &text).write().unwrap();
    };
    std::thread::scope(|scope| (0..8).for_each(|number| drop(scope.spawn(move || add(number)))));
    let mut found: Vec<usize> =
        read(&path).unwrap().unwrap().lines().map(|line| line.parse().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..8).collect::<Vec<_>>());
}

#[test]
fn while_its_client_writes_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".claude.json");
    fs::write(&path, "old").unwrap();
    let lock = folder.path().join(".claude.json.lock");
    fs::create_dir(&lock).unwrap();
    let change = Change { has_folder_lock: true, ..change(&path, Some("old"), "new") };
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| change.write());
        // The client ends with another text than the one that was read.
        fs::write(&path, "client").unwrap();
        fs::remove_dir(&lock).unwrap();
        writer.join().unwrap()
    });
    assert!(written.is_err());
    assert_eq!(read(&path).unwrap().as_deref(), Some("client"));
    Change { before: Some("client"), ..change }.write().unwrap();
    assert_eq!(read(&path).unwrap().as_deref(), Some("new"));
    assert!(!lock.exists());
    // An abandoned lock folder is ignored and not removed.
    fs::create_dir(&lock).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    File::open(&lock).unwrap().set_modified(long_ago).unwrap();
    Change { before: Some("new"), text: "newer", ..change }.write().unwrap();
    assert_eq!(read(&path).unwrap().as_deref(), Some("newer"));
    assert!(lock.is_dir());
}

#[cfg(unix)]
#[test]
fn the_owner_stays() {
    use std::os::unix::fs::{MetadataExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, "old").unwrap();
    // Only root may give files away; for others there is nothing to lose.
    let is_root = chown(&path, Some(12), Some(34)).is_ok();
    let backup = back_up(&path, &path, "old").unwrap();
    change(&path, Some("old"), "new").write().unwrap();
    let new = folder.path().join("new");
    chown(folder.path(), is_root.then_some(56), is_root.then_some(78)).unwrap();
    change(&new.join("file"), None, "new").write().unwrap();
    let check = |path: &Path, owner: (u32, u32)| {
        let about = fs::metadata(path).unwrap();
        assert!(!is_root || (about.uid(), about.gid()) == owner, "{}", path.display());
    };
    check(&path, (12, 34));
    check(&backup.path, (12, 34));
    check(&new, (56, 78));
    check(&new.join("file"), (56, 78));
}
