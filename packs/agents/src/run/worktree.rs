//! Where an agent works: the project itself if it only reads, else a git worktree of its own, which is removed if nothing
//! was changed in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use toolyard_tool::host::ChildCommand;

use super::Job;

const MOST_OUTPUT: u64 = 1 << 20;
/// How long git may take.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) enum Place {
    Project(PathBuf),
    Worktree { folder: PathBuf, head: String },
}

impl Place {
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Project(folder) | Self::Worktree { folder, .. } => folder,
        }
    }

    /// Removes a worktree without changes. One with changes stays, and is named.
    pub(super) async fn finish(self, job: &Job, project: &Path) -> Option<String> {
        let Self::Worktree { folder, head } = self else { return None };
        let changes = git(job, &folder, &["status", "--porcelain"]).await;
        let now = git(job, &folder, &["rev-parse", "HEAD"]).await;
        let is_clean =
            changes.is_ok_and(|changes| changes.trim().is_empty()) && now.is_ok_and(|now| now.trim() == head);
        if !is_clean {
            return Some(folder.display().to_string());
        }
        let path = folder.display().to_string();
        match git(job, project, &["worktree", "remove", "--force", &path]).await {
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
    let head = git(job, project, &["rev-parse", "HEAD"]).await.map_err(|error| {
        format!(
            "an agent that writes needs a git repository with a commit in `{}`: {error}",
            project.display()
        )
    })?;
    let folder = job.store.folder().join("worktrees").join(&job.run.id);
    let path = folder.display().to_string();
    git(job, project, &["worktree", "add", "--detach", &path]).await?;
    Ok(Place::Worktree { folder, head: head.trim().to_owned() })
}

/// The output of git. Nothing that the repository configures is run.
async fn git(job: &Job, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
    let command =
        safe.iter().chain(arguments).fold(ChildCommand::new("git"), ChildCommand::arg).folder(folder);
    let mut child = job.host.child(command).await.map_err(|error| format!("cannot start git: {error}"))?;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let working = async {
        tokio::join!(read(&mut child.stdout, &mut output), read(&mut child.stderr, &mut errors));
        child.control.wait().await
    };
    let Ok(ended) = tokio::time::timeout(PATIENCE, working).await else {
        return Err(format!("git did not end within {} s", PATIENCE.as_secs()));
    };
    match ended {
        Ok(Some(0)) => Ok(String::from_utf8_lossy(&output).into_owned()),
        Ok(_) => Err(String::from_utf8_lossy(&errors).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Keeps the first part of what a program writes, and reads the rest away so that it does not wait for a reader.
async fn read(mut from: &mut (impl AsyncRead + Unpin), to: &mut Vec<u8>) {
    // What cannot be read is missing in the output.
    let _ = (&mut from).take(MOST_OUTPUT).read_to_end(to).await;
    let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
}
