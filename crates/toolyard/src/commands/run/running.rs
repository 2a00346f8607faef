//! The current runs of `toolyard run`, for `--status` and `--stop`: one small file for each run, which the process
//! holds locked while it runs. A file that is not locked was left by a process that was killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_config::{save, state_dir};

use crate::failure::{Failure, refused};
use crate::settings::variable;
use crate::{say, system};

/// How long a script may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Run {
    pub(super) script: String,
    /// The `toolyard run` that owns the script.
    pid: u32,
    folder: PathBuf,
    /// Seconds since 1970.
    since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PathBuf>,
    /// Where its log can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) socket: Option<PathBuf>,
}

/// The entry of this run in the folder that other processes read, until it is dropped.
pub(super) struct Entry {
    path: PathBuf,
    _file: File,
}

impl Entry {
    /// Records a run; `None` if the user has no folder for it, so that the run is not shown.
    pub(super) fn new(
        started: &Value,
        root: &Path,
        log: Option<&Path>,
        socket: Option<&Path>,
    ) -> Option<Self> {
        let pid = std::process::id();
        let id = started["id"].as_str().unwrap_or_default();
        let run = Run {
            script: id.split('#').next().unwrap_or_default().to_owned(),
            pid,
            folder: root.to_owned(),
            since: now(),
            log: log.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            socket: socket.map(Path::to_owned),
        };
        Self::make(&folder()?, &run).ok()
    }

    fn make(folder: &Path, run: &Run) -> io::Result<Self> {
        state_dir::create(folder)?;
        let path = folder.join(format!("{}.json", run.pid));
        // Otherwise another process could take the new file for one that was left, and remove it.
        let _alone = save::lock(&path)?;
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        file.lock()?;
        file.write_all(&serde_json::to_vec(run)?)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn folder() -> Option<PathBuf> {
    Some(state_dir::base(&variable)?.join("runs"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The runs whose process holds the lock of its file. Other files are removed.
fn all() -> Vec<(PathBuf, Run)> {
    folder().map(|folder| all_in(&folder)).unwrap_or_default()
}

fn all_in(folder: &Path) -> Vec<(PathBuf, Run)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut runs: Vec<(PathBuf, Run)> = entries.filter_map(|entry| read(entry.path())).collect();
    runs.sort_by_key(|(_, run)| (run.since, run.pid));
    runs
}

fn read(path: PathBuf) -> Option<(PathBuf, Run)> {
    if !is_held(&path) {
        remove_left(&path);
        return None;
    }
    let run = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    Some((path, run))
}

/// Removes a file that no process holds, unless it was just made and is locked by now.
fn remove_left(path: &Path) {
    if let Ok(_alone) = save::lock(path)
        && !is_held(path)
    {
        let _ = fs::remove_file(path);
    }
}

fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

pub(super) fn status(json: bool) -> Result<(), Failure> {
    let runs: Vec<Run> = all().into_iter().map(|(_, run)| run).collect();
    if json {
        return Ok(say::json(&runs)?);
    }
    if runs.is_empty() {
        say::line("nothing runs; `toolyard run SCRIPT` starts a script");
        return Ok(());
    }
    let mut rows = vec![["SCRIPT", "PID", "SINCE", "FOLDER", "LOG"].map(str::to_owned)];
    rows.extend(runs.iter().map(|run| {
        let log = run.log.as_ref().map_or_else(|| "-".to_owned(), |log| log.display().to_string());
        let since = format!("{} s", now().saturating_sub(run.since));
        [run.script.clone(), run.pid.to_string(), since, run.folder.display().to_string(), log]
    }));
    say::table(&rows);
    Ok(())
}

/// The newest run of a script in this folder.
pub(super) fn newest(name: &str, root: &Path) -> Result<Run, Failure> {
    here(name, root)?.pop().map(|(_, run)| run).ok_or_else(|| not_here(name))
}

/// The runs of a script in this folder; at least one.
fn here(name: &str, root: &Path) -> Result<Vec<(PathBuf, Run)>, Failure> {
    let is_it = |run: &Run| {
        let bare = run.script.split_once(':').map_or(run.script.as_str(), |(_, bare)| bare);
        run.folder == root && (run.script == name || bare == name)
    };
    let here: Vec<(PathBuf, Run)> = all().into_iter().filter(|(_, run)| is_it(run)).collect();
    if here.is_empty() { Err(not_here(name)) } else { Ok(here) }
}

fn not_here(name: &str) -> Failure {
    let help = "`toolyard run --status` shows what runs, in every folder";
    refused(format!("no script `{name}` runs in this folder"), help)
}

pub(super) fn stop(name: &str, root: &Path) -> Result<(), Failure> {
    for (path, run) in here(name, root)? {
        system::end_process(run.pid)?;
        let deadline = Instant::now() + PATIENCE;
        while is_held(&path) {
            if Instant::now() >= deadline {
                let message = format!("{} has not ended after {} s", run.script, PATIENCE.as_secs());
                return Err(refused(message, format!("kill the process {}", run.pid)));
            }
            std::thread::sleep(PAUSE);
        }
        say::result(format_args!("{} is stopped", run.script));
    }
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn run() -> Run {
        let (script, folder) = ("npm:dev".to_owned(), PathBuf::from("/web"));
        Run { script, pid: 1, folder, since: 0, log: None, socket: None }
    }

    #[test]
    fn a_run_that_is_being_recorded_is_not_removed_by_a_reader_of_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    all_in(folder.path());
                }
            });
            let made = (0..300).map(|_| Entry::make(folder.path(), &run()));
            let kept = made.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path.exists())).count();
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(kept, 300);
        });
    }

    #[test]
    fn the_file_of_a_run_that_was_killed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Entry::make(folder.path(), &run()).unwrap();
        std::fs::write(folder.path().join("2.json"), "{}").unwrap();
        let scripts: Vec<String> = all_in(folder.path()).into_iter().map(|(_, run)| run.script).collect();
        assert_eq!(scripts, ["npm:dev"]);
        assert!(entry.path.exists() && !folder.path().join("2.json").exists());
    }
}
