//! Which files changed together, from the last commits of a repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use toolyard_tool::Host;
use toolyard_tool::host::ChildCommand;

/// How many commits are read.
const MOST_COMMITS: &str = "1000";
/// How much output of git is read.
const MOST_OUTPUT: u64 = 8 << 20;
/// How long git may take.
const WITHIN: Duration = Duration::from_secs(30);
/// After this time, a search reads the history again.
const FRESH: Duration = Duration::from_mins(5);
/// After this time, what was read leaves memory.
const UNUSED: Duration = Duration::from_hours(1);
/// A commit that touches more files is a sweep through the tree and shows no relation.
const MOST_FILES: usize = 30;
/// Fewer common commits are chance.
const FEWEST: usize = 2;
/// Files that are named for each result.
const MOST_NAMED: usize = 3;

/// A file that often changes when another one does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ChangedWith {
    pub(crate) file: String,
    /// In how many of the last commits both changed.
    pub(crate) commits: usize,
}

/// The histories that were read lately, by the root of the repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histories(Arc<Mutex<HashMap<PathBuf, Known>>>);

#[derive(Debug, Default)]
struct Known {
    history: Arc<History>,
    /// When it was read.
    read: Option<Instant>,
    is_reading: bool,
}

impl Known {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.read.is_some_and(|read| read.elapsed() < age)
    }
}

/// The files of each commit.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<Vec<String>>);

impl Histories {
    /// The known history of a project. It is read in the background, so that no search waits for git. It is empty at
    /// first, and if the project is not a repository or git cannot be run.
    pub(crate) fn of(&self, host: &Host, root: &Path) -> Arc<History> {
        let mut all = self.0.lock();
        let known = all.entry(root.to_owned()).or_default();
        let history = known.history.clone();
        if !known.is_reading && !known.is_younger_than(FRESH) {
            known.is_reading = true;
            drop(all);
            self.read(host, root.to_owned());
        }
        history
    }

    fn read(&self, host: &Host, root: PathBuf) {
        let (histories, own) = (self.clone(), host.downgrade());
        host.spawn("read the history", async move {
            let output = match own.upgrade() {
                Some(host) if root.join(".git").exists() => log(&host, &root).await,
                _ => None,
            };
            let history = Arc::new(History::parse(&output.unwrap_or_default()));
            let mut all = histories.0.lock();
            all.retain(|_, known| known.is_reading || known.is_younger_than(UNUSED));
            all.insert(root, Known { history, read: Some(Instant::now()), is_reading: false });
        });
    }
}

impl History {
    /// Commits start with a NUL; each following line is a file.
    fn parse(log: &str) -> Self {
        let commits = log.split('\0').map(|commit| {
            commit.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        });
        Self(commits.filter(|files| (2..=MOST_FILES).contains(&files.len())).collect())
    }

    /// The files that changed most often together with a file.
    pub(crate) fn changed_with(&self, file: &str) -> Vec<ChangedWith> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for files in self.0.iter().filter(|files| files.iter().any(|other| other == file)) {
            for other in files.iter().filter(|other| *other != file) {
                *counts.entry(other).or_default() += 1;
            }
        }
        let mut all: Vec<(&str, usize)> = counts.into_iter().filter(|(_, count)| *count >= FEWEST).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let named = all.into_iter().take(MOST_NAMED);
        named.map(|(file, commits)| ChangedWith { file: file.to_owned(), commits }).collect()
    }
}

/// The log of a repository. Nothing that the repository configures is run.
async fn log(host: &Host, root: &Path) -> Option<String> {
    let arguments = [
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.quotePath=false",
        "-c",
        "log.showSignature=false",
        "log",
        "--max-count",
        MOST_COMMITS,
        "--no-merges",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-show-signature",
        "--name-only",
        "--format=%x00",
    ];
    let command = ChildCommand::new("git").folder(root).inherit_only(["HOME"]);
    let command =
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_TERMINAL_PROMPT", "0").env("GIT_PAGER", "cat");
    let command = arguments.into_iter().fold(command, ChildCommand::arg);
    let mut child = host.child(command).await.ok()?;
    let read = async {
        let mut bytes = Vec::new();
        (&mut child.stdout).take(MOST_OUTPUT).read_to_end(&mut bytes).await.ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let output = tokio::time::timeout(WITHIN, read).await.ok().flatten();
    child.control.stop().await;
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_same_commits_are_counted_and_sweeps_are_left_out() {
        let sweep = "other\n".repeat(40);
        let log = format!(
            "\0\n\na.rs\nb.rs\nc.rs\n\0\n\na.rs\nb.rs\n\0\n\na.rs\n\0\n\n{sweep}a.rs\n\0\n\nb.rs\nc.rs\n"
        );
        let history = History::parse(&log);
        let named = |file: &str, commits: usize| ChangedWith { file: file.to_owned(), commits };
        assert_eq!(history.changed_with("a.rs"), [named("b.rs", 2)]);
        assert_eq!(history.changed_with("b.rs"), [named("a.rs", 2), named("c.rs", 2)]);
        assert_eq!(history.changed_with("other"), []);
    }

    #[tokio::test]
    async fn a_search_does_not_wait_for_the_history_and_it_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (host, histories) = (Host::inert("code"), Histories::default());
        for _ in 0..3 {
            assert_eq!(histories.of(&host, folder.path()).changed_with("a.rs"), []);
            assert_eq!(host.running(), ["read the history"]);
        }
        while !host.running().is_empty() {
            tokio::task::yield_now().await;
        }
        histories.of(&host, folder.path());
        assert_eq!(host.running(), Vec::<String>::new(), "it is still fresh");
    }
}
