//! Answers that are cached for a while, in one SQLite file that several processes may share. Without a file,
//! every request goes to the service.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    path: Option<PathBuf>,
    opened: Arc<OnceLock<Option<Mutex<Connection>>>>,
}

impl Cache {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path: path.or_else(usual_place), opened: Arc::default() }
    }

    /// The cached value of a key, if it has not expired. `now` is in seconds since 1970.
    pub(crate) fn get(&self, key: &str, now: u64) -> Option<Vec<u8>> {
        let connection = self.connection()?.lock();
        let mut query =
            connection.prepare("SELECT value FROM cache WHERE key = ?1 AND expires_at > ?2").ok()?;
        query.query_row(params![key, i64::try_from(now).ok()?], |row| row.get(0)).optional().ok()?
    }

    /// An answer that cannot be stored is requested again; this is not reported.
    pub(crate) fn put(&self, key: &str, value: &[u8], now: u64, time: Duration) {
        let Some(connection) = self.connection() else { return };
        let connection = connection.lock();
        let (Ok(now), Ok(expires)) = (i64::try_from(now), i64::try_from(now + time.as_secs())) else {
            return;
        };
        let _ = connection.execute("DELETE FROM cache WHERE expires_at <= ?1", params![now]);
        let _ = connection.execute(
            "INSERT OR REPLACE INTO cache (key, value, expires_at) VALUES (?1, ?2, ?3)",
            params![key, value, expires],
        );
    }

    fn connection(&self) -> Option<&Mutex<Connection>> {
        self.opened
            .get_or_init(|| self.path.as_deref().and_then(|path| open(path).ok()).map(Mutex::new))
            .as_ref()
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(2))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute(
        "CREATE TABLE IF NOT EXISTS cache (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at INTEGER NOT NULL)",
        [],
    )?;
    Ok(connection)
}

fn usual_place() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(folder.join("toolyard/music.sqlite"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_answers_are_there_until_they_expire() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/music.sqlite");
        let cache = Cache::new(Some(path.clone()));
        assert!(!path.exists(), "nothing is opened before it is needed");
        assert_eq!(cache.get("a", 1000), None);
        cache.put("a", b"one", 1000, Duration::from_mins(1));
        assert_eq!(cache.get("a", 1059).as_deref(), Some(&b"one"[..]));
        assert_eq!(cache.get("a", 1060), None);
        let other = Cache::new(Some(path));
        assert_eq!(other.get("a", 1059).as_deref(), Some(&b"one"[..]), "it outlives the process");
        other.put("b", b"two", 2000, Duration::from_mins(1));
        assert_eq!(other.get("a", 1059), None, "what is over is removed");
    }

    #[test]
    fn without_a_file_nothing_is_cached_and_nothing_fails() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let cache = Cache::new(Some(folder.path().join("file/music.sqlite")));
        cache.put("a", b"one", 1, Duration::from_mins(1));
        assert_eq!(cache.get("a", 2), None);
    }
}
