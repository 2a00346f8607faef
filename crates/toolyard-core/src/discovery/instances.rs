//! Instances that write files about themselves: the gateway connects to each, and keeps it as an upstream as long as
//! its file exists.
//!
//! The folders are read when the system reports a change in them, and from time to time. If the system cannot report
//! changes, they are read twenty times a second.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use toolyard_model::private_file::{is_only_ours, open_plain};

use super::watch::Watch;
use super::{Finder, Instance, Process, Report, Sighting, Way};
use crate::apps::Source;
use crate::dynamic_upstreams::Taken;
use crate::plan::{UpstreamKind, UpstreamPlan};
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// How often the processes behind files are checked.
const LOOK: Duration = Duration::from_secs(5);
/// A process that started this much later than its file was written is another one.
const CLOCKS: u64 = 5;
/// No file about an instance is larger.
const LARGEST: u64 = 64 * 1024;

#[derive(Debug)]
pub struct Instances {
    finder: Finder,
    folders: Vec<PathBuf>,
    seen: HashMap<PathBuf, Seen>,
    looked: Instant,
    watch: Watch,
}

/// A file, and how it is used.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    found: Option<(Instance, Arc<Upstream>)>,
    /// Why it is not used, if it is not.
    why_not: Option<String>,
    /// Because another upstream has its id.
    is_taken: bool,
}

/// A file as it is now; read only if it has changed.
struct Surveyed {
    path: PathBuf,
    stamp: Stamp,
    read: Option<Result<Instance, String>>,
}

impl Instances {
    pub fn new(finder: &Finder, folders: Vec<PathBuf>) -> Self {
        let watch = Watch::over(&folders);
        Self { finder: finder.clone(), folders, seen: HashMap::new(), looked: Instant::now(), watch }
    }

    /// Follows the folders until it is dropped.
    pub async fn watch(mut self) {
        if self.folders.is_empty() {
            return;
        }
        self.report();
        loop {
            if self.scan().await {
                // An id may have become free for another file.
                self.scan().await;
                self.report();
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.clear_stale().await;
                // The upstream that had the id may be gone by now.
                self.seen.values_mut().filter(|seen| seen.is_taken).for_each(|seen| seen.stamp = NEVER);
                self.report();
            }
            self.watch.change().await;
        }
    }

    /// Whether anything has changed. Files are read on a thread for blocking work.
    async fn scan(&mut self) -> bool {
        let known = self.seen.iter().filter(|(_, seen)| !seen.has_ended());
        let known: HashMap<PathBuf, Stamp> = known.map(|(path, seen)| (path.clone(), seen.stamp)).collect();
        let folders = self.folders.clone();
        let looked = tokio::task::spawn_blocking(move || survey(&folders, &known));
        let Ok(files) = looked.await else { return false };
        let gone: Vec<PathBuf> =
            self.seen.keys().filter(|path| files.iter().all(|file| file.path != **path)).cloned().collect();
        let mut is_news = !gone.is_empty();
        for path in gone {
            if let Some((instance, upstream)) = self.seen.remove(&path).and_then(|seen| seen.found) {
                tracing::info!(target: "instances", id = %instance.own_id, "its file is gone");
                self.finder.gateway.remove(&upstream);
            }
            // An id may be free now.
            self.seen.values_mut().filter(|seen| seen.is_taken).for_each(|seen| seen.stamp = NEVER);
        }
        for Surveyed { path, stamp, read } in files {
            if let Some(read) = read {
                self.look_at(path, stamp, read);
                is_news = true;
            }
        }
        is_news
    }

    fn report(&self) {
        let mut report = Report {
            places: self.folders.iter().map(|folder| folder.display().to_string()).collect(),
            every: Some(self.watch.pause()),
            looked: Some(SystemTime::now()),
            ..Report::default()
        };
        for (path, seen) in &self.seen {
            let origin = path.display().to_string();
            if let Some((instance, _)) = &seen.found {
                let (id, endpoint) = (instance.own_id.clone(), instance.dialled_at().to_string());
                report.found.push(Sighting { id, endpoint, origin: origin.clone() });
            }
            if let Some(why) = &seen.why_not {
                report.skip(origin, why);
            }
        }
        self.finder.gateway.sightings().saw(Way::Files, report);
    }

    fn look_at(&mut self, path: PathBuf, stamp: Stamp, read: Result<Instance, String>) {
        let old = self.seen.remove(&path).filter(|seen| !seen.has_ended());
        let (before, was_taken) = old.map_or((None, false), |seen| (seen.found, seen.is_taken));
        let seen = match read {
            Ok(instance) => match self.found(instance, before) {
                Ok(found) => Seen { stamp, found: Some(found), why_not: None, is_taken: false },
                Err(taken) => {
                    if !was_taken {
                        tracing::warn!(target: "instances", file = %path.display(), "not used: {taken}");
                    }
                    Seen { stamp, found: None, why_not: Some(taken.to_string()), is_taken: true }
                }
            },
            Err(reason) => {
                tracing::debug!(target: "instances", file = %path.display(), %reason, "not used");
                Seen { stamp, found: before, why_not: Some(reason), is_taken: false }
            }
        };
        self.seen.insert(path, seen);
    }

    fn found(
        &self,
        instance: Instance,
        before: Option<(Instance, Arc<Upstream>)>,
    ) -> Result<(Instance, Arc<Upstream>), Taken> {
        if let Some((old, upstream)) = &before
            && (&old.id, old.dialled_at()) == (&instance.id, instance.dialled_at())
        {
            self.finder.gateway.describe(upstream, instance.about());
            // A file that is written again shows that the dev server is running, possibly with other tools.
            if upstream.state().phase == Phase::Dead {
                upstream.wake();
            } else {
                upstream.read_again_later();
            }
            return Ok((instance, upstream.clone()));
        }
        let plan = self.plan(&instance);
        let joined = match before {
            Some((_, old)) => self.finder.gateway.succeed(&old, plan),
            None => self.finder.gateway.join(plan),
        };
        joined.map(|upstream| {
            tracing::info!(target: "instances", id = %instance.own_id, port = instance.port, "found");
            (instance, upstream)
        })
    }

    fn plan(&self, instance: &Instance) -> UpstreamPlan {
        let (id, endpoint) = (instance.id.clone(), instance.dialled_at());
        let fingerprint = endpoint.to_string();
        let mut dial = self.finder.dial(&id, endpoint, Source::Hint);
        dial.about = Some(instance.about());
        let connect = self.finder.apps.way_to(&id, dial);
        let mut plan = UpstreamPlan::new(id, UpstreamKind::Instance, connect);
        plan.policy.timeouts = self.finder.apps.timeouts();
        plan.fingerprint = fingerprint;
        plan
    }

    /// Files whose process has certainly ended are removed; the next look takes the upstream out.
    async fn clear_stale(&self) {
        let stale = self.seen.iter().filter_map(|(path, seen)| {
            let (instance, upstream) = seen.found.as_ref()?;
            // The file is being rewritten, or the instance answers.
            let is_used = seen.why_not.is_some() || upstream.state().phase == Phase::Active;
            (!is_used).then(|| (path.clone(), seen.stamp, instance.clone()))
        });
        let stale: Vec<(PathBuf, Stamp, Instance)> = stale.collect();
        let cleared = tokio::task::spawn_blocking(move || stale.iter().for_each(clear_if_ended));
        let _ = cleared.await;
    }
}

fn clear_if_ended((path, seen, instance): &(PathBuf, Stamp, Instance)) {
    if stamp(path) == Some(*seen)
        && instance.pid.is_some_and(|pid| Process::is_other(pid, instance.started_unix(), CLOCKS))
    {
        tracing::info!(target: "instances", id = %instance.own_id, "its process has ended");
        let _ = std::fs::remove_file(path);
    }
}

impl Seen {
    /// Whether its upstream has ended, because a server of the config has its name now.
    fn has_ended(&self) -> bool {
        self.found.as_ref().is_some_and(|(_, upstream)| upstream.state().phase == Phase::Ended)
    }
}

type Stamp = (SystemTime, u64);

/// The stamp of a file that must be read again in any case.
const NEVER: Stamp = (SystemTime::UNIX_EPOCH, u64::MAX);

fn survey(folders: &[PathBuf], known: &HashMap<PathBuf, Stamp>) -> Vec<Surveyed> {
    let files = folders.iter().flat_map(|folder| files_in(folder));
    let surveyed = files.map(|(path, stamp)| {
        let read = (known.get(&path) != Some(&stamp)).then(|| parse(&path));
        Surveyed { path, stamp, read }
    });
    surveyed.collect()
}

fn parse(path: &Path) -> Result<Instance, String> {
    let bytes = read(path).map_err(|error| error.to_string())?;
    Instance::parse(&bytes, SystemTime::now()).map_err(|error| error.to_string())
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = path.symlink_metadata().ok().filter(|about| about.is_file() && about.len() <= LARGEST)?;
    Some((about.modified().ok()?, about.len()))
}

/// A folder that other users can write to or replace is not trusted.
fn is_ours(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|about| about.is_dir()) && is_only_ours(folder).unwrap_or(false)
}

/// Reads a plain file, and nothing that was put in its place.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Instance files, with when and how long they were written. Drafts begin with a dot.
fn files_in(folder: &Path) -> Vec<(PathBuf, Stamp)> {
    if !folder.parent().is_some_and(is_ours) || !is_ours(folder) {
        return Vec::new();
    }
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let file = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        (is_json && !is_draft).then_some(())?;
        let stamp = stamp(&path)?;
        Some((path, stamp))
    };
    entries.flatten().filter_map(file).collect()
}
