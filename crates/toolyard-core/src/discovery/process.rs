//! Processes whose environment states where they listen. A variable is a hint that any process can inherit: it counts
//! only in processes of our own user, never in our own children, and leads nowhere but to this machine.
//!
//! Environments are read once per process and program: the process's line in the system's table shows whether it is
//! still the same one.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use toolyard_proto::name::{UpstreamId, sanitize_upstream_id};

use super::DiscoveredEndpoint;

/// The variables, as pairs of endpoint and app id; an earlier pair wins.
pub const VARIABLES: [(&str, &str); 2] =
    [("TOOLYARD_ENDPOINT", "TOOLYARD_APP_ID"), ("AVALONIA_MCP_ENDPOINT", "AVALONIA_MCP_APP_ID")];
/// How much of an environment is read.
const LONGEST: u64 = 1024 * 1024;

/// Scans processes. The environment of each process is read only once.
#[derive(Debug)]
pub struct Processes {
    root: PathBuf,
    uid: u32,
    own_pid: u32,
    known: HashMap<u32, KnownProcess>,
}

/// A process whose environment states where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub id: UpstreamId,
    pub endpoint: DiscoveredEndpoint,
    pub pid: u32,
    /// Its start time in ticks of the system, which distinguishes it from a later process of the same number.
    pub started: u64,
}

/// The result of one look at the processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// One for each endpoint and each id, from the oldest process.
    pub hints: Vec<Hint>,
    /// Processes whose hint is not used, with the reason.
    pub skipped: Vec<(u32, String)>,
    /// Processes whose environment cannot be read; they are not reported.
    pub unreadable: usize,
    /// How many environments were read this time.
    pub read: usize,
}

#[derive(Debug)]
struct KnownProcess {
    stat: Stat,
    environment: Environment,
}

/// The hint in an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Environment {
    Nothing,
    Unreadable,
    DiscoveredEndpoint { endpoint: String, app_id: Option<String> },
}

/// The entry of a process in the system's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    started: u64,
    /// The address of its environment, which differs after it has become another program.
    environment: (u64, u64),
}

impl Processes {
    /// A scan of the processes of this user, except this process and its children.
    pub fn new(uid: u32, own_pid: u32) -> Self {
        Self::at(Path::new("/proc"), uid, own_pid)
    }

    fn at(root: &Path, uid: u32, own_pid: u32) -> Self {
        Self { root: root.to_owned(), uid, own_pid, known: HashMap::new() }
    }

    /// Whether this system shows environments at all.
    pub fn can_look(&self) -> bool {
        cfg!(unix) && self.root.join("self/stat").exists()
    }

    /// `refuse` returns why a listener is not used, if it is not.
    pub fn look(&mut self, refuse: impl Fn(&DiscoveredEndpoint) -> Option<String>) -> Look {
        let read = self.refresh();
        let mut look = Look { read, ..Look::default() };
        let mut found: Vec<(u64, u32, Environment)> = self
            .known
            .iter()
            .map(|(pid, known)| (known.stat.started, *pid, known.environment.clone()))
            .collect();
        found.sort_by_key(|(started, pid, _)| (*started, *pid));
        let (mut listeners, mut ids) = (HashMap::new(), HashSet::new());
        for (started, pid, environment) in found {
            let (endpoint, app_id) = match environment {
                Environment::Nothing => continue,
                Environment::Unreadable => {
                    look.unreadable += 1;
                    continue;
                }
                Environment::DiscoveredEndpoint { endpoint, app_id } => (endpoint, app_id),
            };
            let hint = judge(&endpoint, app_id.as_deref(), &refuse);
            let hint = hint.and_then(|(id, endpoint)| match listeners.get(&endpoint.listener()) {
                Some(first) if *first == id.fold() => Ok(None),
                Some(first) => {
                    Err(format!("{endpoint} already has the id `{first}`, from an earlier process"))
                }
                None if ids.contains(&id.fold()) => {
                    Err(format!("the id `{id}` is that of an older process, which listens elsewhere"))
                }
                None => Ok(Some(Hint { id, endpoint, pid, started })),
            });
            match hint {
                Ok(Some(hint)) => {
                    listeners.insert(hint.endpoint.listener(), hint.id.fold());
                    ids.insert(hint.id.fold());
                    look.hints.push(hint);
                }
                // A child that inherited it.
                Ok(None) => {}
                Err(why) => look.skipped.push((pid, why)),
            }
        }
        look
    }

    /// Brings what is known up to date; returns how many environments were read.
    fn refresh(&mut self) -> usize {
        let stats = self.stats();
        self.known.retain(|pid, known| stats.get(pid) == Some(&known.stat));
        let mut read = 0;
        for (pid, stat) in &stats {
            if self.known.contains_key(pid) || self.is_ours(*pid, &stats) {
                continue;
            }
            read += 1;
            let environment = read_environment(&self.root.join(pid.to_string()).join("environ"));
            self.known.insert(*pid, KnownProcess { stat: *stat, environment });
        }
        read
    }

    /// Every process of our user.
    fn stats(&self) -> HashMap<u32, Stat> {
        let Ok(entries) = fs::read_dir(&self.root) else { return HashMap::new() };
        let stat = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let is_own = is_of(self.uid, &entry.metadata().ok()?);
            let text = is_own.then(|| fs::read_to_string(entry.path().join("stat")).ok()).flatten()?;
            Some((pid, Stat::parse(&text)?))
        };
        entries.flatten().filter_map(stat).collect()
    }

    /// Whether it is this process or one that it has started, however indirectly.
    fn is_ours(&self, pid: u32, stats: &HashMap<u32, Stat>) -> bool {
        let mut at = pid;
        for _ in 0..=stats.len() {
            if at == self.own_pid {
                return true;
            }
            let Some(stat) = stats.get(&at) else { return false };
            at = stat.parent;
        }
        false
    }
}

impl Stat {
    /// The second field is a name in parentheses that may hold anything. A zombie has ended.
    fn parse(text: &str) -> Option<Self> {
        let (_, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        if matches!(fields.first(), Some(&("Z" | "X"))) {
            return None;
        }
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let environment = (number(47).unwrap_or(0), number(48).unwrap_or(0));
        Some(Self { parent: u32::try_from(number(1)?).ok()?, started: number(19)?, environment })
    }
}

#[cfg(unix)]
fn is_of(user: u32, about: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(about) == user
}

#[cfg(not(unix))]
fn is_of(_: u32, _: &fs::Metadata) -> bool {
    false
}

fn read_environment(path: &Path) -> Environment {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    if read.is_err() {
        return Environment::Unreadable;
    }
    let find = |name: &str| {
        let text = bytes.split(|byte| *byte == 0).find_map(|entry| {
            entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(String::from_utf8_lossy)
        })?;
        (!text.trim().is_empty()).then(|| text.into_owned())
    };
    let hint = VARIABLES.iter().find_map(|(endpoint, app_id)| Some((find(endpoint)?, find(app_id))));
    hint.map_or(Environment::Nothing, |(endpoint, app_id)| Environment::DiscoveredEndpoint {
        endpoint,
        app_id,
    })
}

fn judge(
    endpoint: &str,
    app_id: Option<&str>,
    refuse: impl Fn(&DiscoveredEndpoint) -> Option<String>,
) -> Result<(UpstreamId, DiscoveredEndpoint), String> {
    let endpoint =
        DiscoveredEndpoint::parse(endpoint).map_err(|error| format!("its endpoint is not used: {error}"))?;
    if !endpoint.is_local() {
        return Err(format!("{endpoint} is not on this machine"));
    }
    let id = match app_id {
        Some(app_id) => {
            UpstreamId::parse(app_id).map_err(|error| format!("its app id is not used: {error}"))?
        }
        None => id_of(&endpoint),
    };
    match refuse(&endpoint) {
        Some(why) => Err(why),
        None => Ok((id, endpoint)),
    }
}

/// A name for an app without an id, the same for every process that inherited the variable.
fn id_of(endpoint: &DiscoveredEndpoint) -> UpstreamId {
    let name = match endpoint {
        DiscoveredEndpoint::Local(path) => {
            path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
        }
        DiscoveredEndpoint::Pipe(name) => name.clone(),
        DiscoveredEndpoint::Tcp(_) | DiscoveredEndpoint::Http(_) => {
            let listener = endpoint.listener();
            // The usual name of this machine is left out.
            format!("app-{}", listener.strip_prefix("localhost:").unwrap_or(&listener))
        }
    };
    sanitize_upstream_id(&name, |_| false)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
