//! The instance file of an app that listens: written in one step once it can be dialled, removed when it ends.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::net::TcpStream;
use toolyard_model::local;
use toolyard_proto::calendar::date;

use crate::system;

/// How long the program that wrote a file of the same name may take to accept a connection.
const ALIVE_WITHIN: Duration = Duration::from_millis(500);

/// The file, for as long as this lives.
#[derive(Debug)]
pub(crate) struct InstanceFile {
    path: PathBuf,
    text: String,
}

impl InstanceFile {
    /// The folder that Toolyard looks in.
    pub(crate) fn usual_folder() -> PathBuf {
        system::runtime_folder().join("toolyard").join("instances")
    }

    /// One file per name, so that an app that was killed and starts again takes its own place at once.
    pub(crate) async fn write(folder: &Path, name: &str, endpoint: &str) -> io::Result<Self> {
        system::create_folder(folder)?;
        let path = folder.join(format!("{name}.json"));
        if let Some(other) = alive(&path).await {
            let why = format!("an app named `{name}` listens at {other} already; choose another name");
            return Err(io::Error::new(ErrorKind::AddrInUse, why));
        }
        let text = describe(name, endpoint).to_string();
        let draft = folder.join(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let written = system::private(options.write(true).create_new(true)).open(&draft);
        let written = written
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        Ok(Self { path, text })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless another program has replaced it.
    pub(crate) fn remove(&self) {
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for InstanceFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The endpoint in the file, if a program listens there.
async fn alive(path: &Path) -> Option<String> {
    let written: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let endpoint = written["endpoint"].as_str()?;
    let is_answered = if let Some(socket) = endpoint.strip_prefix("unix://") {
        local::is_answered(Path::new(socket))
    } else {
        let dialled = tokio::time::timeout(ALIVE_WITHIN, TcpStream::connect(address(endpoint)?)).await;
        dialled.is_ok_and(|dialled| dialled.is_ok())
    };
    is_answered.then(|| endpoint.to_owned())
}

/// The address of an endpoint over TCP or HTTP.
fn address(endpoint: &str) -> Option<SocketAddr> {
    let (_, rest) = endpoint.split_once("://").filter(|(scheme, _)| ["tcp", "http"].contains(scheme))?;
    rest.split('/').next()?.parse().ok()
}

fn describe(name: &str, endpoint: &str) -> Value {
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let executable = std::env::current_exe().unwrap_or_default();
    let now = rfc3339(SystemTime::now());
    json!({
        "id": name, "name": name, "directory": directory, "port": address(endpoint).map(|at| at.port()),
        "endpoint": endpoint, "started_at": now, "last_ping": now,
        "has_package_json": directory.join("package.json").is_file(),
        "process_info": { "pid": std::process::id(), "executable": executable },
    })
}

fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or(0));
    let hour = seconds / 3600 % 24;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_rfc_3339() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_794_718_800), "2026-11-15T05:00:00Z");
    }

    #[tokio::test]
    async fn a_name_is_taken_while_an_instance_listens_under_it_and_free_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/mcp", listener.local_addr().unwrap());
        let first = InstanceFile::write(folder.path(), "App", &endpoint).await.unwrap();
        let second = InstanceFile::write(folder.path(), "App", &endpoint).await.unwrap_err();
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        drop(listener);
        let third = InstanceFile::write(folder.path(), "App", "tcp://127.0.0.1:1").await.unwrap();
        // The file belongs to another program by now, and stays.
        drop(first);
        assert!(third.path().exists());
        drop(third);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
