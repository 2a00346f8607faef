//! The state directory: one folder per config set, readable by its owner only.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Variables;
use crate::system;

pub const GATEWAY_FILE: &str = "gateway.json";
const OTHER_FOLDERS: &str = "other-folders";

/// The folder for these config files: `asked` as it is, or one of their own under `$XDG_STATE_HOME`.
pub fn open(asked: Option<&Path>, files: &[PathBuf], variables: &Variables<'_>) -> io::Result<PathBuf> {
    let folder = locate(asked, files, variables)?;
    create(&folder)?;
    Ok(folder)
}

/// The same folder, which may not be there.
pub fn locate(asked: Option<&Path>, files: &[PathBuf], variables: &Variables<'_>) -> io::Result<PathBuf> {
    asked.map_or_else(|| usual(files, variables), |asked| Ok(asked.to_owned()))
}

/// An existing folder keeps its permissions: it may belong to another user.
pub fn create(folder: &Path) -> io::Result<()> {
    system::create_folder(folder).map_err(|error| attempted(&error, "create", folder))
}

/// An error that names what was attempted, and on which file.
pub(crate) fn attempted(error: &io::Error, verb: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{verb} {}: {error}", path.display()))
}

fn usual(files: &[PathBuf], variables: &Variables<'_>) -> io::Result<PathBuf> {
    let nowhere = || io::Error::other("neither XDG_STATE_HOME nor HOME is set: use --state-dir");
    let base = base(variables).ok_or_else(nowhere)?;
    Ok(base.join(set_hash(files, &base)))
}

/// The name of a config set: its files, and where its state is.
pub fn set(asked: Option<&Path>, files: &[PathBuf], variables: &Variables<'_>) -> String {
    let asked = asked.map(|asked| fs::canonicalize(asked).unwrap_or_else(|_| asked.to_owned()));
    set_hash(files, &asked.or_else(|| base(variables)).unwrap_or_default())
}

/// The folder with the state directories of all config sets.
pub fn base(variables: &Variables<'_>) -> Option<PathBuf> {
    Some(system::state_folder(variables)?.join("toolyard"))
}

/// The folder for caches of packs, shared by all config sets.
pub fn cache(variables: &Variables<'_>) -> Option<PathBuf> {
    Some(system::cache_folder(variables)?.join("toolyard"))
}

/// The folder of the user's secrets.
pub fn secrets(variables: &Variables<'_>) -> Option<PathBuf> {
    Some(base(variables)?.join("secrets"))
}

/// 16 hex digits over the paths of the files, not over what they say: a set stays itself when it is edited.
fn set_hash(files: &[PathBuf], base: &Path) -> String {
    let mut hash = Sha256::new();
    for path in files.iter().map(|file| canonical(file)).chain([base.to_owned()]) {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0]);
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

/// A file may not be there yet; then the folders that are there decide.
fn canonical(file: &Path) -> PathBuf {
    let there = fs::canonicalize(file).ok();
    there.unwrap_or_else(|| match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) if !folder.as_os_str().is_empty() => canonical(folder).join(name),
        _ => file.to_owned(),
    })
}

/// The file by which other programs find the running gateway; removed when dropped.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
    set: String,
    config: Vec<PathBuf>,
    /// Seconds since 1970.
    started: u64,
}

/// The addresses of a running gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub http: String,
    pub tcp: Option<String>,
    /// Where models are asked without MCP.
    pub models: Option<String>,
    pub socket: Option<PathBuf>,
    /// Where apps register.
    pub apps: Option<String>,
    pub apps_socket: Option<PathBuf>,
}

/// The content of `gateway.json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Running {
    pub http: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tcp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    models: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apps: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apps_socket: Option<PathBuf>,
    pub pid: u32,
    /// Seconds since 1970.
    started: u64,
    /// The name of its config set. Gateways before 0.2 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Its config files. Gateways before 0.2 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Vec<PathBuf>>,
}

impl Running {
    /// When it was started, as RFC 3339 writes it.
    pub fn started_at(&self) -> String {
        toolyard_proto::calendar::rfc3339(std::time::Duration::from_secs(self.started))
    }

    /// Whether it has exactly these addresses.
    pub fn is_at(&self, addresses: &Addresses) -> bool {
        let Self { http, tcp, socket, apps, apps_socket, .. } = self;
        let Addresses { http: own, .. } = addresses;
        let rest = (&addresses.tcp, &addresses.socket, &addresses.apps, &addresses.apps_socket);
        http == own && (tcp, socket, apps, apps_socket) == rest
    }
}

/// The gateway whose address file is in this folder. It may have been killed since.
pub fn announced(folder: &Path) -> Option<Running> {
    read(&folder.join(GATEWAY_FILE))
}

/// Notes a folder that is not below `base`, so that its gateway is found, too. It is forgotten with the folder.
pub fn note_folder(base: &Path, folder: &Path) -> io::Result<()> {
    let folder = fs::canonicalize(folder)?;
    if folder.starts_with(base) {
        return Ok(());
    }
    let notes = base.join(OTHER_FOLDERS);
    create(&notes)?;
    let name = HEXLOWER.encode(&Sha256::digest(folder.as_os_str().as_encoded_bytes())[..8]);
    replace(&notes.join(name), folder.display().to_string().as_bytes())
}

/// The folders that were noted and are still there.
pub fn other_folders(base: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(base.join(OTHER_FOLDERS)).into_iter().flatten().filter_map(Result::ok) {
        match fs::read_to_string(entry.path()).map(PathBuf::from) {
            Ok(folder) if folder.is_dir() => folders.push(folder),
            _ => drop(fs::remove_file(entry.path())),
        }
    }
    folders
}

/// Folders in which a gateway may have left its address: one for each config set, and those given by `--state-dir`.
pub fn folders(variables: &Variables<'_>) -> Vec<PathBuf> {
    let Some(base) = base(variables) else { return Vec::new() };
    let inside = fs::read_dir(&base).into_iter().flatten();
    let mut folders: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.extend(other_folders(&base));
    folders
}

impl Announcement {
    pub fn write(folder: &Path, set: &str, config: &[PathBuf], addresses: &Addresses) -> io::Result<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (path, config) = (folder.join(GATEWAY_FILE), config.to_owned());
        let own = Self { path, set: set.to_owned(), config, started };
        own.renew(addresses)?;
        Ok(own)
    }

    /// Writes the file again, also if another gateway has replaced it since.
    pub fn renew(&self, addresses: &Addresses) -> io::Result<()> {
        let Addresses { http, tcp, models, socket, apps, apps_socket } = addresses.clone();
        let pid = std::process::id();
        let started = self.started;
        let set = Some(self.set.clone());
        let config = Some(self.config.clone());
        let running = Running { http, tcp, models, socket, apps, apps_socket, pid, started, set, config };
        replace(&self.path, &serde_json::to_vec(&running)?)
            .map_err(|error| attempted(&error, "write", &self.path))
    }

    /// Another gateway may have come since.
    fn is_ours(&self) -> bool {
        read(&self.path).is_some_and(|running| running.pid == std::process::id())
    }
}

fn read(path: &Path) -> Option<Running> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The socket in the address file of this folder.
pub fn announced_socket(folder: &Path) -> Option<PathBuf> {
    announced(folder)?.socket
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Replaces a file in one step, so that no reader sees half of it.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension(format!("json.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = system::private(options.write(true).create(true).truncate(true)).open(&draft)?;
    file.write_all(content)?;
    // Not every system moves a file that is open.
    drop(file);
    fs::rename(&draft, path)
}

#[cfg(test)]
#[cfg(unix)]
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
        let addresses = Addresses { http: "http://a".into(), ..Addresses::default() };
        let own = Announcement::write(folder.path(), "set", &[], &addresses).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("http://a"));
        drop(own);
        assert!(!path.exists());
        let own = Announcement::write(folder.path(), "set", &[], &addresses).unwrap();
        fs::write(&path, r#"{"http":"http://b","pid":1,"started":0}"#).unwrap();
        drop(own);
        assert!(path.exists());
    }
}
