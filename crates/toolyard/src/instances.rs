//! Instances that write files about themselves: each is dialled, and is an upstream as long as it is there.
//!
//! The folders are looked at twenty times a second, which costs a few system calls; so nothing depends on
//! whether the system tells of changes, and a new file is seen within a twentieth of a second.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;
use nix::unistd::Uid;
use toolyard_core::discovery::{Instance, Process};
use toolyard_core::upstream::Upstream;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Gateway, Sharing, Timeouts, UpstreamKind, UpstreamPlan};
use toolyard_transport::EraPin;

use crate::config::{Reach, Server, UpstreamConfig, Variables};
use crate::connect::{self, Approach};

const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked whether the processes behind files are still there.
const LOOK: Duration = Duration::from_secs(5);
/// A process that started this much later than its file says is another one.
const CLOCKS: u64 = 5;
/// No file about an instance is larger.
const LARGEST: u64 = 64 * 1024;

pub(crate) struct Instances {
    gateway: Gateway,
    approach: Approach,
    folders: Vec<PathBuf>,
    seen: HashMap<PathBuf, Seen>,
    looked: Instant,
}

/// A file, and what became of it.
struct Seen {
    stamp: (SystemTime, u64),
    found: Option<(Instance, Arc<Upstream>)>,
}

/// Where instances write their files.
pub(crate) fn folders(variables: &Variables<'_>) -> Vec<PathBuf> {
    let absolute = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_RUNTIME_DIR").or_else(|| absolute("TMPDIR"));
    let base = base.unwrap_or_else(|| "/tmp".into());
    ["toolyard", "brummer"].map(|program| base.join(program).join("instances")).to_vec()
}

impl Instances {
    pub(crate) fn new(gateway: &Gateway, approach: &Approach, folders: Vec<PathBuf>) -> Self {
        let (gateway, approach) = (gateway.clone(), approach.clone());
        Self { gateway, approach, folders, seen: HashMap::new(), looked: Instant::now() }
    }

    /// Looks after the folders until it is dropped.
    pub(crate) async fn watch(mut self) {
        while !self.folders.is_empty() {
            self.scan();
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.clear_stale();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn scan(&mut self) {
        let files: Vec<(PathBuf, (SystemTime, u64))> =
            self.folders.iter().flat_map(|folder| files_in(folder)).collect();
        let gone: Vec<PathBuf> =
            self.seen.keys().filter(|path| files.iter().all(|(file, _)| file != *path)).cloned().collect();
        for path in gone {
            if let Some((instance, upstream)) = self.seen.remove(&path).and_then(|seen| seen.found) {
                tracing::info!(target: "instances", id = %instance.own_id, "its file is gone");
                self.gateway.remove(&upstream);
            }
        }
        for (path, stamp) in files {
            if self.seen.get(&path).is_none_or(|seen| seen.stamp != stamp) {
                self.look_at(path, stamp);
            }
        }
    }

    fn look_at(&mut self, path: PathBuf, stamp: (SystemTime, u64)) {
        let before = self.seen.remove(&path).and_then(|seen| seen.found);
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let read = read
            .and_then(|bytes| Instance::parse(&bytes, SystemTime::now()).map_err(|error| error.to_string()));
        let found = match (read, before) {
            (Ok(instance), before) => self.found(instance, before),
            (Err(reason), before) => {
                tracing::debug!(target: "instances", file = %path.display(), %reason, "not used");
                before
            }
        };
        self.seen.insert(path, Seen { stamp, found });
    }

    fn found(
        &self,
        instance: Instance,
        before: Option<(Instance, Arc<Upstream>)>,
    ) -> Option<(Instance, Arc<Upstream>)> {
        if let Some((old, upstream)) = &before
            && (&old.id, old.port) == (&instance.id, instance.port)
        {
            upstream.describe(instance.about());
            // A file that is written again is a sign of life.
            if upstream.state().phase == Phase::Dead {
                upstream.wake();
            }
            return Some((instance, upstream.clone()));
        }
        let plan = self.plan(&instance)?;
        let joined = match before {
            Some((_, old)) => self.gateway.succeed(&old, plan),
            None => self.gateway.join(plan),
        };
        match joined {
            Ok(upstream) => {
                tracing::info!(target: "instances", id = %instance.own_id, port = instance.port, "found");
                upstream.describe(instance.about());
                Some((instance, upstream))
            }
            Err(taken) => {
                tracing::warn!(target: "instances", id = %instance.own_id, "not used: {taken}");
                None
            }
        }
    }

    fn plan(&self, instance: &Instance) -> Option<UpstreamPlan> {
        let server = Server { url: instance.url().parse().ok()?, headers: HeaderMap::new(), sse: false };
        let config = UpstreamConfig {
            id: instance.id.clone(),
            renamed_from: None,
            reach: Reach::Server(server),
            era: EraPin::Auto,
            timeout: None,
            connect_timeout: None,
            roots: Vec::new(),
            sharing: Sharing::Shared,
            ping: false,
        };
        Some(UpstreamPlan {
            id: instance.id.clone(),
            kind: UpstreamKind::Instance,
            connect: Arc::new(connect::Upstream::new(&config, &self.approach)),
            timeouts: Timeouts::LOCAL,
            roots: Vec::new(),
            sharing: Sharing::Shared,
            pinged: true,
            fingerprint: instance.url(),
        })
    }

    /// Files whose process has certainly ended are removed; the next look takes the upstream out.
    fn clear_stale(&self) {
        for (path, seen) in &self.seen {
            let Some((instance, _)) = &seen.found else { continue };
            if instance.pid.is_some_and(|pid| Process::is_other(pid, instance.started_unix(), CLOCKS)) {
                tracing::info!(target: "instances", id = %instance.own_id, "its process has ended");
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Instance files, with when and how long they were written. Drafts begin with a dot.
fn files_in(folder: &Path) -> Vec<(PathBuf, (SystemTime, u64))> {
    // What others may write is no word of ours.
    let is_ours =
        |about: std::fs::Metadata| about.uid() == Uid::current().as_raw() && about.mode() & 0o022 == 0;
    let Some(entries) =
        folder.metadata().ok().filter(|about| is_ours(about.clone())).and_then(|_| folder.read_dir().ok())
    else {
        return Vec::new();
    };
    let file = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let about = entry.metadata().ok().filter(|about| about.is_file() && about.len() <= LARGEST)?;
        (is_json && !is_draft).then_some(())?;
        Some((path, (about.modified().ok()?, about.len())))
    };
    entries.flatten().filter_map(file).collect()
}
