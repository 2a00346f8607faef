//! An instance file: JSON that a dev server writes about itself, in either of the two forms there are.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_proto::calendar::days;
use toolyard_proto::name::{UpstreamId, sanitize_upstream_id};

use super::DiscoveredEndpoint;

/// A clock may be a little ahead, but not more.
const AHEAD: Duration = Duration::from_mins(1);

/// The content of an instance file.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    pub id: UpstreamId,
    /// As it was written.
    pub own_id: String,
    pub name: String,
    pub directory: String,
    /// Always there without an `endpoint`.
    pub port: Option<u16>,
    /// The address where the app or instance listens, if that is not MCP over HTTP at the port.
    pub endpoint: Option<DiscoveredEndpoint>,
    pub pid: Option<u32>,
    /// As in the file; without it there, whether there is one in the directory.
    pub has_package_json: bool,
    /// As it was written, an RFC 3339 time.
    pub started: Option<String>,
}

/// Why a file is not used. It may be incomplete, so it is read again when it changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnInstance {
    #[error("it is not JSON of the right form: {0}")]
    Form(String),
    #[error("`{0}` is missing or empty")]
    Missing(&'static str),
    #[error("`port` must be from 1 to 65535")]
    Port,
    #[error("`endpoint` must be on this machine: {0}")]
    DiscoveredEndpoint(String),
    #[error("`{0}` lies in the future")]
    Future(&'static str),
}

#[derive(Deserialize)]
struct Written {
    id: Option<String>,
    name: Option<String>,
    #[serde(alias = "path")]
    directory: Option<String>,
    port: Option<i64>,
    endpoint: Option<String>,
    #[serde(alias = "started")]
    started_at: Option<String>,
    pid: Option<u32>,
    process_info: Option<ProcessInfo>,
    has_package_json: Option<bool>,
    #[serde(alias = "last_seen")]
    last_ping: Option<String>,
}

#[derive(Deserialize)]
struct ProcessInfo {
    pid: Option<u32>,
}

impl Instance {
    pub fn parse(bytes: &[u8], now: SystemTime) -> Result<Self, NotAnInstance> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|error| NotAnInstance::Form(error.to_string()))?;
        let text = |value: Option<String>, key| {
            value.filter(|text| !text.trim().is_empty()).ok_or(NotAnInstance::Missing(key))
        };
        let own_id = text(written.id, "id")?;
        let port = written.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        for (key, time) in [("started_at", &written.started_at), ("last_ping", &written.last_ping)] {
            if time.as_deref().and_then(seconds).is_some_and(|at| at > unix(now + AHEAD)) {
                return Err(NotAnInstance::Future(key));
            }
        }
        let endpoint = written.endpoint.map(|text| own_endpoint(&text)).transpose()?;
        if port.is_none() && (endpoint.is_none() || written.port.is_some()) {
            return Err(NotAnInstance::Port);
        }
        let directory = text(written.directory, "directory")?;
        let has_package_json =
            || Path::new(&directory).is_absolute() && Path::new(&directory).join("package.json").is_file();
        Ok(Self {
            id: sanitize_upstream_id(&own_id, |_| false),
            own_id,
            name: text(written.name, "name")?,
            port,
            endpoint,
            pid: written.process_info.and_then(|info| info.pid).or(written.pid),
            has_package_json: written.has_package_json.unwrap_or_else(has_package_json),
            directory,
            started: written.started_at,
        })
    }

    /// The address to connect to: its endpoint, or MCP over HTTP at its port.
    pub fn dialled_at(&self) -> DiscoveredEndpoint {
        let usual = || DiscoveredEndpoint::at_port(self.port.unwrap_or_default());
        self.endpoint.clone().unwrap_or_else(usual)
    }

    /// When it started, according to its file, in seconds since 1970.
    pub fn started_unix(&self) -> Option<u64> {
        seconds(self.started.as_deref()?)
    }

    /// The data that is shown to clients, under the keys of both forms.
    pub fn about(&self) -> Value {
        json!({
            "id": self.own_id, "name": self.name, "directory": self.directory, "path": self.directory,
            "port": self.port, "pid": self.pid, "process_pid": self.pid,
            "has_package_json": self.has_package_json, "endpoint": self.dialled_at().to_string(),
        })
    }
}

/// A file is only a hint, and a hint may lead only to this machine.
fn own_endpoint(text: &str) -> Result<DiscoveredEndpoint, NotAnInstance> {
    let endpoint = DiscoveredEndpoint::parse(text)
        .map_err(|error| NotAnInstance::DiscoveredEndpoint(error.to_string()))?;
    let is_local = endpoint.is_local();
    // As it is shown: a query may be a secret.
    let shown = endpoint.to_string();
    is_local.then_some(endpoint).ok_or_else(|| NotAnInstance::DiscoveredEndpoint(format!("{shown} is not")))
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970 of an RFC 3339 time, to the second.
fn seconds(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let year = number(0..4)?;
    let month = number(5..7)?;
    let day = number(8..10)?;
    let hour = number(11..13)?;
    let minute = number(14..16)?;
    let second = number(17..19)?;
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone.chars().next()? {
        'Z' | 'z' => 0,
        sign @ ('+' | '-') => {
            let minutes = zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(4..6)?.parse::<i64>().ok()?;
            if sign == '+' { minutes * 60 } else { -minutes * 60 }
        }
        _ => return None,
    };
    u64::try_from(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_794_726_783;

    fn parse(value: &Value) -> Result<Instance, NotAnInstance> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        Instance::parse(value.to_string().as_bytes(), now)
    }

    #[test]
    fn both_forms_of_a_file_are_read() {
        let brummer = json!({ "id": "shop-0011223344556677", "name": "shop", "directory": "/srv/shop", "port": 7777,
            "started_at": "2026-11-15T06:00:00.123456789+01:00", "last_ping": "2026-11-15T05:30:00Z",
            "process_info": { "pid": 42, "executable": "/usr/bin/brum" } });
        let read = parse(&brummer).unwrap();
        assert_eq!((read.id.as_str(), read.port, read.pid), ("shop-0011223344556677", Some(7777), Some(42)));
        assert_eq!(read.started_unix(), Some(1_794_718_800));
        let design = json!({ "id": "7f3d", "pid": 7, "path": "/srv", "port": 1, "started": "2026-11-15T05:00:00Z",
            "name": "x", "has_package_json": true, "last_seen": "2026-11-15T05:00:00Z" });
        let read = parse(&design).unwrap();
        assert_eq!((read.id.as_str(), read.pid, read.has_package_json), ("s-7f3d", Some(7), true));
        assert_eq!(read.dialled_at().to_string(), "http://127.0.0.1:1/mcp");
        let ours =
            json!({ "id": "a", "name": "a", "directory": "/a", "port": 9, "endpoint": "tcp://127.0.0.1:9" });
        assert_eq!(parse(&ours).unwrap().dialled_at().to_string(), "tcp://127.0.0.1:9");
        let local = json!({ "id": "a", "name": "a", "directory": "/a", "endpoint": "unix:///run/a.sock" });
        assert_eq!(parse(&local).unwrap().dialled_at().to_string(), "unix:///run/a.sock");
    }

    #[test]
    fn a_package_json_is_looked_for_if_the_file_does_not_mention_it() {
        let folder = tempfile::tempdir().unwrap();
        let has = |written: Option<bool>| {
            let mut file = json!({ "id": "a", "name": "a", "directory": folder.path(), "port": 1 });
            if let Some(written) = written {
                file["has_package_json"] = json!(written);
            }
            parse(&file).unwrap().has_package_json
        };
        assert!(!has(None));
        std::fs::write(folder.path().join("package.json"), "{}").unwrap();
        assert!(has(None));
        assert!(!has(Some(false)));
    }

    #[test]
    fn partial_and_garbage_files_are_not_used() {
        let good = json!({ "id": "a", "name": "a", "directory": "/a", "port": 1 });
        assert!(parse(&good).is_ok());
        let with = |key: &str, value: Value| {
            let mut file = good.clone();
            file[key] = value;
            parse(&file).unwrap_err()
        };
        assert_eq!(with("id", json!("")), NotAnInstance::Missing("id"));
        assert_eq!(with("name", json!(null)), NotAnInstance::Missing("name"));
        assert_eq!(with("port", json!(0)), NotAnInstance::Port);
        assert_eq!(with("port", json!(65_536)), NotAnInstance::Port);
        for elsewhere in ["tcp://10.0.0.1:9", "127.0.0.1:9"] {
            assert!(
                matches!(with("endpoint", json!(elsewhere)), NotAnInstance::DiscoveredEndpoint(_)),
                "{elsewhere}"
            );
        }
        assert_eq!(with("last_ping", json!("2026-11-15T07:20:00Z")), NotAnInstance::Future("last_ping"));
        for garbage in ["", "{", "[]", "\"x\"", "{\"id\":", "\u{0}"] {
            let read = Instance::parse(garbage.as_bytes(), SystemTime::UNIX_EPOCH);
            assert!(matches!(read, Err(NotAnInstance::Form(_))), "{garbage:?}");
        }
    }
}
