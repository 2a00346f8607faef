//! The folder in which an agent works: the project itself if it only reads, else a git worktree of its own, which is
//! removed if nothing was changed in it. A worktree is recorded before it is made, so that one whose gateway was killed
//! is found again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolyard_tool::Host;
use toolyard_tool::host::Git;

use super::Job;
use crate::store::Store;

/// How long an agent whose gateway was killed may still write.
const LAST_WRITES: Duration = Duration::from_secs(2);

pub(super) enum Place {
    Project(PathBuf),
    Worktree(Worktree),
}

/// A worktree of a run.
#[derive(Clone, Debug)]
pub(crate) struct Worktree {
    pub(crate) run: String,
    /// The user whose agent it is for.
    pub(crate) owner: String,
    pub(crate) project: PathBuf,
    pub(crate) folder: PathBuf,
    /// The worktree's own git directory, from before the agent could change what names it. Missing as long as no agent
    /// was started in it.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) head: String,
}

impl Place {
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Project(folder) => folder,
            Self::Worktree(worktree) => &worktree.folder,
        }
    }

    /// Removes a worktree without changes. One with changes stays, and is named.
    pub(super) async fn finish(self, job: &Job) -> Option<String> {
        let Self::Worktree(worktree) = self else { return None };
        let stays = !worktree.remove_if_clean(&job.host, &job.store).await;
        stays.then(|| worktree.folder.display().to_string())
    }
}

impl Worktree {
    /// Removes the worktree if nothing was changed in it. Returns whether it was removed.
    pub(crate) async fn remove_if_clean(&self, host: &Host, store: &Store) -> bool {
        if !self.folder.exists() {
            // A user has removed it; the repository may be gone as well.
            let _ = text(&host.git(&self.project), &["worktree", "prune"]).await;
        } else if !self.is_clean(host).await {
            return false;
        } else {
            let path = self.folder.display().to_string();
            let removed = text(&host.git(&self.project), &["worktree", "remove", "--force", &path]).await;
            if let Err(error) = removed {
                tracing::warn!(target: "agents", error, path, "could not remove a worktree");
                return false;
            }
        }
        if let Err(error) = store.forget_worktree(&self.run) {
            tracing::warn!(target: "agents", error = %error.message(), "could not forget a worktree");
        }
        true
    }

    async fn is_clean(&self, host: &Host) -> bool {
        let Some(dir) = &self.dir else { return true };
        let worktree = host.git(&self.folder).with_dir(dir);
        // A submodule has a config of its own, which may run programs.
        let changes = text(&worktree, &["status", "--porcelain", "--ignore-submodules=all"]).await;
        let now = text(&worktree, &["rev-parse", "HEAD"]).await;
        changes.is_ok_and(|changes| changes.trim().is_empty()) && now.is_ok_and(|now| now.trim() == self.head)
    }
}

/// Removes the worktrees of runs whose gateway was killed, if nothing was changed in them, and names the others in
/// their runs.
pub(crate) async fn recover(host: &Host, store: &Store) {
    let left = store.worktrees_left(None).unwrap_or_default();
    if !left.is_empty() {
        // The guard of an agent may still be ending it.
        tokio::time::sleep(LAST_WRITES).await;
    }
    for worktree in left {
        if worktree.remove_if_clean(host, store).await {
            tracing::info!(target: "agents", agent = %worktree.run, "removed the worktree of an agent that was ended with its gateway");
        } else if let Err(error) = store.name_worktree(&worktree.run, &worktree.folder) {
            tracing::warn!(target: "agents", error = %error.message(), "could not record a worktree");
        }
    }
}

pub(super) async fn prepare(job: &Job, project: &Path) -> Result<Place, String> {
    if !job.of.write {
        return Ok(Place::Project(project.to_owned()));
    }
    let git = job.host.git(project);
    let head = text(&git, &["rev-parse", "HEAD"]).await.map_err(|error| {
        format!(
            "an agent that writes needs a git repository with a commit in `{}`: {error}",
            project.display()
        )
    })?;
    let mut worktree = Worktree {
        run: job.run.id.clone(),
        owner: job.user.clone(),
        project: project.to_owned(),
        folder: job.store.folder().join("worktrees").join(&job.run.id),
        dir: None,
        head: head.trim().to_owned(),
    };
    let record =
        |worktree: &Worktree| job.store.record_worktree(worktree).map_err(|error| error.message().to_owned());
    record(&worktree)?;
    let dir = match add(&job.host, &git, &worktree.folder).await {
        Ok(dir) => dir,
        Err(error) => {
            worktree.remove_if_clean(&job.host, &job.store).await;
            return Err(error);
        }
    };
    worktree.dir = Some(dir);
    if let Err(error) = record(&worktree) {
        worktree.remove_if_clean(&job.host, &job.store).await;
        return Err(error);
    }
    Ok(Place::Worktree(worktree))
}

/// Adds a worktree, and returns its git directory.
async fn add(host: &Host, git: &Git, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.display().to_string();
    text(git, &["worktree", "add", "--detach", &path]).await?;
    let dir = text(&host.git(folder), &["rev-parse", "--absolute-git-dir"]).await?;
    Ok(PathBuf::from(dir.trim()))
}

async fn text(git: &Git, arguments: &[&str]) -> Result<String, String> {
    let output = git.run(arguments).await?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}
