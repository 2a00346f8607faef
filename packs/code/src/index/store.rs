//! The index on disk: one SQLite database per project and model, shared by all gateways of the user. A file and its
//! chunks are written in one transaction, so an interrupted run loses only what it had not written yet. Gateways with
//! different models use different databases, so that vectors of different models are never compared.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, params};
use sha2::{Digest as _, Sha256};

use super::chunk::{CHUNKER, Chunk};

/// Changed whenever the tables are.
const SCHEMA: u32 = 1;
/// How long another process may hold the database.
const BUSY: Duration = Duration::from_secs(10);
/// A database of another model, chunker or table layout is removed if it was not opened or changed for this long.
const UNUSED: Duration = Duration::from_hours(30 * 24);

/// Identifies the version of a file, to detect changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: i64,
    pub(crate) modified: i64,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        let modified =
            metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            size: i64::try_from(metadata.len()).ok()?,
            modified: i64::try_from(modified.as_nanos()).ok()?,
        })
    }
}

/// A file with its chunks and their vectors, as stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    pub(crate) chunks: Vec<StoredChunk>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredChunk {
    pub(crate) chunk: Chunk,
    /// Missing until it is computed.
    pub(crate) vector: Option<Box<[i8]>>,
}

#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
}

/// The folder of a project's index below the cache folder. Projects of the same name differ in the rest.
pub(crate) fn folder(cache: &Path, root: &Path) -> PathBuf {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let name = root.file_name().map_or("root".into(), |name| name.to_string_lossy());
    cache.join(format!("{name}-{}", &data_encoding::HEXLOWER.encode(&digest)[..16]))
}

impl Store {
    /// Opens the index in `folder` that belongs to this model, chunker and table layout.
    pub(crate) fn open(folder: &Path, model: &str) -> rusqlite::Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| {
            rusqlite::Error::ToSqlConversionFailure(
                format!("cannot make `{}`: {error}", folder.display()).into(),
            )
        })?;
        let identity = identity(model);
        let path = folder.join(file_name(&identity));
        let mut connection = Connection::open(&path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if identity_of(&transaction)?.as_deref() != Some(identity.as_str()) {
            reset(&transaction, &identity)?;
        }
        transaction.commit()?;
        touch(&path);
        remove_unused(folder, UNUSED);
        Ok(Self { connection, path })
    }

    /// Everything that is stored.
    pub(crate) fn load(&self) -> rusqlite::Result<Vec<StoredFile>> {
        let mut files =
            self.connection.prepare("SELECT id, path, size, modified FROM files ORDER BY path")?;
        let mut chunks =
            self.connection.prepare("SELECT body, vector FROM chunks WHERE file = ? ORDER BY id")?;
        let rows = files.query_map([], |row| {
            let stamp = Stamp { size: row.get(2)?, modified: row.get(3)? };
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, stamp))
        })?;
        let mut out = Vec::new();
        for row in rows {
            let (id, path, stamp) = row?;
            let chunks = chunks
                .query_map([id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)))?;
            let chunks = chunks.collect::<rusqlite::Result<Vec<_>>>()?;
            let chunks = chunks.into_iter().filter_map(|(body, vector)| {
                let vector = vector.map(|bytes| bytes.into_iter().map(u8::cast_signed).collect());
                Some(StoredChunk { chunk: serde_json::from_str(&body).ok()?, vector })
            });
            out.push(StoredFile { path: path.into(), stamp, chunks: chunks.collect() });
        }
        Ok(out)
    }

    /// Replaces or removes files, all in one transaction.
    pub(crate) fn write(&mut self, changed: &[StoredFile], removed: &[PathBuf]) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for path in removed.iter().chain(changed.iter().map(|file| &file.path)) {
            remove(&transaction, path)?;
        }
        for file in changed {
            insert(&transaction, file)?;
        }
        transaction.commit()
    }

    /// Empties this database, as [`clear`] empties all.
    pub(crate) fn clear(&self) -> rusqlite::Result<bool> {
        if self.is_gone() { Ok(false) } else { clear_or_remove(&self.path) }
    }

    /// Whether the database was removed: what this writes is seen by no one else then.
    pub(crate) fn is_gone(&self) -> bool {
        !self.path.exists()
    }

    /// Changes whenever another connection has written.
    pub(crate) fn version(&self) -> rusqlite::Result<i64> {
        self.connection.pragma_query_value(None, "data_version", |row| row.get(0))
    }
}

/// Empties all databases of a folder; returns whether there was anything in them. The files stay: a gateway that has one
/// of them open would go on with a removed file, which no one else sees. A damaged file is removed.
pub(crate) fn clear(folder: &Path) -> rusqlite::Result<bool> {
    let mut had_any = false;
    for path in databases(folder) {
        had_any |= clear_or_remove(&path)?;
    }
    Ok(had_any)
}

/// The same for the database with the vectors of one model.
pub(crate) fn clear_one(folder: &Path, model: &str) -> rusqlite::Result<bool> {
    let path = folder.join(file_name(&identity(model)));
    if path.exists() { clear_or_remove(&path) } else { Ok(false) }
}

fn clear_or_remove(path: &Path) -> rusqlite::Result<bool> {
    match clear_database(path) {
        Err(error) if is_damaged(&error) => {
            remove_all(&with_beside(path));
            Ok(true)
        }
        cleared => cleared,
    }
}

fn clear_database(path: &Path) -> rusqlite::Result<bool> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(BUSY)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if identity_of(&transaction)?.is_none() {
        return Ok(false);
    }
    transaction.execute("DELETE FROM chunks", [])?;
    let files = transaction.execute("DELETE FROM files", [])?;
    transaction.commit()?;
    // Without this the file keeps its size; it fails while another gateway reads, and then the space is used again.
    let _ = connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);");
    Ok(files > 0)
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt))
}

fn databases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_database = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sqlite");
    entries.map(|entry| entry.path()).filter(is_database).collect()
}

/// A database with the files that SQLite keeps beside it.
fn with_beside(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn identity(model: &str) -> String {
    format!("schema {SCHEMA}, chunker {CHUNKER}, model {model}")
}

/// Databases of different identities have different names.
fn file_name(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    format!("index-{}.sqlite", &data_encoding::HEXLOWER.encode(&digest)[..16])
}

/// Marks a database as used now. Without the mark it is only removed, and made again, sooner.
fn touch(path: &Path) {
    if let Ok(file) = std::fs::File::options().write(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn remove_all(files: &[PathBuf]) {
    for path in files {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes databases that no gateway has used for `unused`.
fn remove_unused(folder: &Path, unused: Duration) {
    let modified = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    for files in databases(folder).iter().map(|path| with_beside(path)) {
        let newest = files.iter().filter_map(modified).max();
        if newest.and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= unused) {
            remove_all(&files);
        }
    }
}

fn identity_of(transaction: &Transaction<'_>) -> rusqlite::Result<Option<String>> {
    let has_meta = "SELECT 1 FROM sqlite_master WHERE name = 'meta'";
    if transaction.query_row(has_meta, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    transaction.query_row("SELECT identity FROM meta", [], |row| row.get(0)).optional()
}

fn reset(transaction: &Transaction<'_>, identity: &str) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DROP TABLE IF EXISTS meta; DROP TABLE IF EXISTS chunks; DROP TABLE IF EXISTS files;
         CREATE TABLE meta (identity TEXT NOT NULL);
         CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,
                             modified INTEGER NOT NULL);
         CREATE TABLE chunks (id INTEGER PRIMARY KEY, file INTEGER NOT NULL, body TEXT NOT NULL, vector BLOB);
         CREATE INDEX chunks_by_file ON chunks (file);",
    )?;
    transaction.execute("INSERT INTO meta VALUES (?)", [identity])?;
    Ok(())
}

fn remove(transaction: &Transaction<'_>, path: &Path) -> rusqlite::Result<()> {
    let path = path.to_string_lossy();
    transaction
        .prepare_cached("DELETE FROM chunks WHERE file IN (SELECT id FROM files WHERE path = ?)")?
        .execute([&path])?;
    transaction.prepare_cached("DELETE FROM files WHERE path = ?")?.execute([&path])?;
    Ok(())
}

fn insert(transaction: &Transaction<'_>, file: &StoredFile) -> rusqlite::Result<()> {
    let path = file.path.to_string_lossy();
    transaction
        .prepare_cached("INSERT INTO files (path, size, modified) VALUES (?, ?, ?)")?
        .execute(params![path, file.stamp.size, file.stamp.modified])?;
    let id = transaction.last_insert_rowid();
    let mut statement =
        transaction.prepare_cached("INSERT INTO chunks (file, body, vector) VALUES (?, ?, ?)")?;
    for stored in &file.chunks {
        let body = serde_json::to_string(&stored.chunk)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let vector: Option<Vec<u8>> =
            stored.vector.as_ref().map(|vector| vector.iter().map(|number| number.cast_unsigned()).collect());
        statement.execute(params![id, body, vector])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, name: &str) -> StoredFile {
        let chunk =
            super::super::chunk::chunks(Path::new("a.py"), &format!("def {name}():\n    pass\n")).remove(0);
        let chunks = vec![StoredChunk { chunk, vector: Some(Box::new([1, -2, 127])) }];
        StoredFile { path: path.into(), stamp: Stamp { size: 1, modified: 2 }, chunks }
    }

    fn names(store: &Store) -> Vec<String> {
        let files = store.load().unwrap();
        files.iter().flat_map(|file| file.chunks.iter().map(|stored| stored.chunk.name.clone())).collect()
    }

    #[test]
    fn the_index_is_there_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), "m").unwrap();
        store.write(&[file("a.py", "one"), file("b.py", "two")], &[]).unwrap();
        store.write(&[file("a.py", "three")], &["b.py".into()]).unwrap();
        drop(store);
        let store = Store::open(folder.path(), "m").unwrap();
        assert_eq!(names(&store), ["three"]);
        assert_eq!(store.load().unwrap()[0].chunks[0].vector.as_deref(), Some([1, -2, 127].as_slice()));
    }

    #[test]
    fn vectors_of_another_model_are_never_mixed_in() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), "m").unwrap().write(&[file("a.py", "one")], &[]).unwrap();
        assert_eq!(names(&Store::open(folder.path(), "other").unwrap()), Vec::<String>::new());
    }

    #[test]
    fn two_gateways_with_different_models_never_see_vectors_of_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Store::open(folder.path(), "m").unwrap();
        first.write(&[file("a.py", "one")], &[]).unwrap();
        let mut second = Store::open(folder.path(), "other").unwrap();
        assert_eq!(names(&second), Vec::<String>::new());
        second.write(&[file("a.py", "two"), file("b.py", "three")], &[]).unwrap();
        assert_eq!(names(&first), ["one"]);
        first.write(&[file("c.py", "four")], &["a.py".into()]).unwrap();
        assert_eq!(names(&first), ["four"]);
        assert_eq!(names(&second), ["two", "three"]);
        assert_eq!(names(&Store::open(folder.path(), "m").unwrap()), ["four"]);
    }

    #[test]
    fn a_database_that_is_no_longer_used_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("index.sqlite");
        std::fs::write(&old, "of another version").unwrap();
        let store = Store::open(folder.path(), "m").unwrap();
        assert!(old.exists(), "it is new");
        let long_ago = SystemTime::now() - UNUSED - Duration::from_mins(1);
        std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        drop(Store::open(folder.path(), "other").unwrap());
        assert!(!old.exists());
        assert_eq!(names(&store), Vec::<String>::new(), "the one in use stays");
    }

    #[test]
    fn a_second_gateway_sees_what_the_first_has_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Store::open(folder.path(), "m").unwrap();
        let second = Store::open(folder.path(), "m").unwrap();
        let before = second.version().unwrap();
        first.write(&[file("a.py", "one")], &[]).unwrap();
        assert_ne!(second.version().unwrap(), before);
        assert_eq!(names(&second), ["one"]);
    }

    #[test]
    fn clearing_empties_every_database_for_all_who_have_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Store::open(folder.path(), "m").unwrap();
        let mut second = Store::open(folder.path(), "m").unwrap();
        let other = Store::open(folder.path(), "other").unwrap();
        first.write(&[file("a.py", "one")], &[]).unwrap();
        let before = second.version().unwrap();
        assert!(clear(folder.path()).unwrap());
        assert!(!clear(folder.path()).unwrap(), "there is nothing left");
        assert_ne!(second.version().unwrap(), before);
        assert_eq!([&first, &second, &other].map(names).concat(), Vec::<String>::new());
        second.write(&[file("b.py", "two")], &[]).unwrap();
        assert_eq!(names(&first), ["two"], "both still use the same file");
        assert!(!clear(&folder.path().join("nothing")).unwrap());
    }

    #[test]
    fn clearing_removes_a_damaged_database() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), "m").unwrap();
        let path = store.path.clone();
        assert!(!store.is_gone());
        drop(store);
        std::fs::write(&path, "not a database, but long enough to be read as one".repeat(100)).unwrap();
        assert!(Store::open(folder.path(), "m").is_err());
        assert!(clear(folder.path()).unwrap());
        assert!(!path.exists());
        assert_eq!(names(&Store::open(folder.path(), "m").unwrap()), Vec::<String>::new());
    }

    #[test]
    fn projects_of_the_same_name_have_different_folders() {
        let cache = Path::new("/cache");
        assert_ne!(folder(cache, Path::new("/a/app")), folder(cache, Path::new("/b/app")));
        assert!(folder(cache, Path::new("/a/app")).to_string_lossy().starts_with("/cache/app-"));
    }
}
