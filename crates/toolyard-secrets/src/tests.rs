//! What a store promises, on real files.

use std::fs;
use std::thread;

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("secrets")).unwrap();
    (folder, store)
}

fn files(store: &Store) -> Vec<u8> {
    let files = fs::read_dir(&store.folder).unwrap();
    files.flat_map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn reading_an_empty_store_creates_nothing() {
    let (_folder, store) = store();
    assert!(store.names().unwrap().is_empty());
    assert_eq!(store.get("a").unwrap(), None);
    assert!(!store.remove("a").unwrap());
    assert!(!store.folder.exists());
}

#[test]
fn values_are_read_back_and_their_bytes_are_in_no_file() {
    let (_folder, store) = store();
    store.set("github", "correct horse battery".into()).unwrap();
    store.set("binary", Secret::new(vec![0, 255, 7])).unwrap();
    let again = Store::open(&store.folder).unwrap();
    assert_eq!(again.get("github").unwrap().unwrap().text().unwrap(), "correct horse battery");
    assert_eq!(again.get("binary").unwrap().unwrap().expose(), [0, 255, 7]);
    assert_eq!(again.names().unwrap(), ["binary", "github"]);
    let bytes = files(&store);
    for clear in ["correct horse", "github", &data_encoding::BASE64.encode(b"correct horse battery")] {
        assert!(!bytes.windows(clear.len()).any(|window| window == clear.as_bytes()), "{clear}");
    }
    assert_eq!(format!("{:?}", store.get("github").unwrap()), "Some(Secret(********))");
    assert!(again.remove("github").unwrap());
    assert_eq!(store.names().unwrap(), ["binary"]);
}

#[test]
fn a_changed_file_or_another_key_is_refused() {
    let (_folder, store) = store();
    store.set("a", "1".into()).unwrap();
    let sealed = fs::read(store.sealed()).unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        fs::write(store.sealed(), &changed).unwrap();
        assert!(matches!(store.get("a"), Err(Error::Damaged(_))), "byte {at}");
        fs::write(store.sealed(), &sealed[..at]).unwrap();
        assert!(matches!(store.set("b", "2".into()), Err(Error::Damaged(_))), "cut at {at}");
    }
    fs::write(store.sealed(), &sealed).unwrap();
    let key = store.folder.join(KEY);
    let own = fs::read(&key).unwrap();
    fs::write(&key, &*Key::make().unwrap().1).unwrap();
    assert!(matches!(store.get("a"), Err(Error::Damaged(_))));
    fs::remove_file(&key).unwrap();
    assert!(matches!(store.set("a", "2".into()), Err(Error::KeyMissing { .. })), "no second key is made");
    file::replace(&key, &own).unwrap();
    assert_eq!(store.get("a").unwrap().unwrap().expose(), b"1");
}

#[test]
fn concurrent_writers_lose_nothing() {
    let (_folder, store) = store();
    thread::scope(|threads| {
        for writer in 0..4 {
            let store = &store;
            threads.spawn(move || {
                for number in 0..5 {
                    store.set(&format!("{writer}.{number}"), format!("{number}").into()).unwrap();
                }
            });
        }
    });
    assert_eq!(store.names().unwrap().len(), 20);
    assert_eq!(store.get("3.4").unwrap().unwrap().expose(), b"4");
}

#[test]
fn a_draft_left_by_a_killed_program_is_ignored() {
    let (_folder, store) = store();
    store.set("a", "1".into()).unwrap();
    fs::write(store.sealed().with_extension("draft"), "half").unwrap();
    store.set("a", "2".into()).unwrap();
    assert_eq!(store.get("a").unwrap().unwrap().expose(), b"2");
}

#[test]
fn names_and_values_are_bounded() {
    let (_folder, store) = store();
    for name in ["", "a b", "a}", "$a", "-a", "ä", "a\n", &"a".repeat(201)] {
        assert!(matches!(store.set(name, "1".into()), Err(Error::Name(_))), "{name:?}");
    }
    for name in ["a", "A-b_c.d", "oauth/https://example.org:8080/mcp", "ann@example.org"] {
        store.set(name, "1".into()).unwrap();
    }
    let long = Secret::new(vec![0; LONGEST_VALUE + 1]);
    assert!(matches!(store.set("a", long), Err(Error::TooLong)));
    store.set("a", Secret::new(vec![0; LONGEST_VALUE])).unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_files_and_a_readable_key_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, store) = store();
    store.set("a", "1".into()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.folder), 0o700);
    for file in [SEALED, KEY, "lock"] {
        assert_eq!(mode(&store.folder.join(file)), 0o600, "{file}");
    }
    fs::set_permissions(store.folder.join(KEY), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(store.get("a"), Err(Error::ReadableByOthers(_))));
}
