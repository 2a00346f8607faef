//! Where things are kept between runs: one folder per set of config files, readable by its owner only.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::Variables;

const GATEWAY_FILE: &str = "gateway.json";

/// The folder for these config files: `asked` as it is, or one of their own under `$XDG_STATE_HOME`.
pub(crate) fn open(asked: Option<&Path>, files: &[PathBuf], variables: &Variables<'_>) -> Result<PathBuf> {
    let folder = asked.map_or_else(|| usual(files, variables), |asked| Ok(asked.to_owned()))?;
    // An existing folder keeps its permissions: it may be somebody else's.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

fn usual(files: &[PathBuf], variables: &Variables<'_>) -> Result<PathBuf> {
    let base = base(variables).context("neither XDG_STATE_HOME nor HOME says where: use --state-dir")?;
    Ok(base.join(set_hash(files, &base)))
}

fn base(variables: &Variables<'_>) -> Option<PathBuf> {
    let absolute = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(home.join("toolyard"))
}

/// 16 hex digits over the paths of the files, not over what they say: a set stays itself when it is edited.
fn set_hash(files: &[PathBuf], base: &Path) -> String {
    let mut hash = Sha256::new();
    let canonical = |file: &PathBuf| fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    for path in files.iter().map(canonical).chain([base.to_owned()]) {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0]);
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

/// Tells other programs that the gateway runs and where; taken back when dropped.
#[derive(Debug)]
pub(crate) struct Announcement {
    path: PathBuf,
}

/// The content of `gateway.json`.
#[derive(Debug, Deserialize, Serialize)]
struct Running {
    http: String,
    pid: u32,
    /// Seconds since 1970.
    started: u64,
}

impl Announcement {
    pub(crate) fn write(folder: &Path, http: &str) -> Result<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let running = Running { http: http.to_owned(), pid: std::process::id(), started };
        let path = folder.join(GATEWAY_FILE);
        replace(&path, &serde_json::to_vec(&running)?)
            .with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path })
    }

    /// Another gateway may have come since.
    fn is_ours(&self) -> bool {
        let running =
            fs::read(&self.path).ok().and_then(|text| serde_json::from_slice::<Running>(&text).ok());
        running.is_some_and(|running| running.pid == std::process::id())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// In one step, so that nobody reads half of it.
pub(crate) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension(format!("json.{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_set_of_files_has_a_folder_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "XDG_STATE_HOME").then(|| home.path().display().to_string());
        let none = open(None, &[], &variables).unwrap();
        let one = open(None, &[PathBuf::from("/a")], &variables).unwrap();
        assert_ne!(none, one);
        assert_eq!(one, open(None, &[PathBuf::from("/a")], &variables).unwrap());
        assert!(one.starts_with(home.path().join("toolyard")));
        assert_eq!(one.file_name().unwrap().len(), 16);
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_announcement_takes_only_itself_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(GATEWAY_FILE);
        let own = Announcement::write(folder.path(), "http://a").unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("http://a"));
        drop(own);
        assert!(!path.exists());
        let own = Announcement::write(folder.path(), "http://a").unwrap();
        fs::write(&path, r#"{"http":"http://b","pid":1,"started":0}"#).unwrap();
        drop(own);
        assert!(path.exists());
    }
}
