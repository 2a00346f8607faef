//! Where an agent works: the project itself if it only reads, else a git worktree of its own, which is removed if nothing
//! was changed in it.

use std::path::{Path, PathBuf};

use toolyard_tool::host::Git;

use super::Job;

pub(super) enum Place {
    Project(PathBuf),
    Worktree {
        folder: PathBuf,
        /// The worktree's own git directory, from before the agent could change what names it.
        dir: PathBuf,
        head: String,
    },
}

impl Place {
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Project(folder) | Self::Worktree { folder, .. } => folder,
        }
    }

    /// Removes a worktree without changes. One with changes stays, and is named.
    pub(super) async fn finish(self, job: &Job, project: &Path) -> Option<String> {
        let Self::Worktree { folder, dir, head } = self else { return None };
        let worktree = job.host.git(&folder).with_dir(dir);
        // A submodule has a config of its own, which may run programs.
        let changes = text(&worktree, &["status", "--porcelain", "--ignore-submodules=all"]).await;
        let now = text(&worktree, &["rev-parse", "HEAD"]).await;
        let is_clean =
            changes.is_ok_and(|changes| changes.trim().is_empty()) && now.is_ok_and(|now| now.trim() == head);
        if !is_clean {
            return Some(folder.display().to_string());
        }
        let path = folder.display().to_string();
        match text(&job.host.git(project), &["worktree", "remove", "--force", &path]).await {
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(target: "agents", error, "could not remove a worktree");
                Some(path)
            }
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
    let folder = job.store.folder().join("worktrees").join(&job.run.id);
    let path = folder.display().to_string();
    text(&git, &["worktree", "add", "--detach", &path]).await?;
    let dir = text(&job.host.git(&folder), &["rev-parse", "--absolute-git-dir"]).await?;
    Ok(Place::Worktree { folder, dir: PathBuf::from(dir.trim()), head: head.trim().to_owned() })
}

async fn text(git: &Git, arguments: &[&str]) -> Result<String, String> {
    let output = git.run(arguments).await?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}
