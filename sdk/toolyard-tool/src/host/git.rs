//! Git in repositories that are not trusted: nothing that a repository configures is run. Git itself offers no such
//! mode, so hooks and the file monitor are replaced, filters of the repository are emptied one by one, and nothing is
//! fetched. Filters of the user's own config stay, such as those of Git LFS.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{ChildCommand, Host};

/// The rest of the output is dropped.
const MOST_OUTPUT: u64 = 16 << 20;
/// How long git may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs git in one folder, without anything that the repository there configures.
///
/// ```no_run
/// # async fn example(host: toolyard_tool::Host) -> Result<(), String> {
/// let head = host.git("/srv/project").run(["rev-parse", "HEAD"]).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Git {
    host: Host,
    folder: PathBuf,
    dir: Option<PathBuf>,
}

impl Host {
    /// Git in this folder.
    pub fn git(&self, folder: impl Into<PathBuf>) -> Git {
        Git { host: self.clone(), folder: folder.into(), dir: None }
    }
}

impl Git {
    /// Uses this git directory, whatever the folder names as its own.
    pub fn with_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Runs git and returns its output, up to 16 MiB, within two minutes; its error output if it fails.
    pub async fn run(
        &self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Vec<u8>, String> {
        let settings = self.settings().await?;
        let command = arguments.into_iter().fold(self.command(), ChildCommand::arg);
        let (code, output, errors) = self.output(with_settings(command, &settings)).await?;
        if code == Some(0) { Ok(output) } else { Err(errors) }
    }

    /// The settings that switch off what the repository configures.
    async fn settings(&self) -> Result<Vec<(String, &'static str)>, String> {
        let mut settings = vec![
            ("core.hooksPath".to_owned(), "/dev/null"),
            ("core.fsmonitor".to_owned(), "false"),
            ("core.pager".to_owned(), "cat"),
        ];
        // Reading the config runs nothing. Without a filter, or outside of a repository, this fails.
        let listing =
            ["config", "--includes", "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\."];
        let command = listing.iter().fold(self.command(), ChildCommand::arg);
        let (_, listed, _) = self.output(command).await?;
        for filter in filters_of_repository(&listed)? {
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                settings.push((format!("{filter}.{key}"), value));
            }
        }
        Ok(settings)
    }

    fn command(&self) -> ChildCommand {
        let command = ChildCommand::new("git")
            .folder(&self.folder)
            .inherit_only(["HOME"])
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none");
        match &self.dir {
            Some(dir) => command.env("GIT_DIR", dir).env("GIT_WORK_TREE", &self.folder),
            None => command,
        }
    }

    async fn output(&self, command: ChildCommand) -> Result<(Option<i32>, Vec<u8>, String), String> {
        let mut child =
            self.host.child(command).await.map_err(|error| format!("cannot start git: {error}"))?;
        child.stdin = Box::new(tokio::io::sink());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let working = async {
            tokio::join!(read(&mut child.stdout, &mut output), read(&mut child.stderr, &mut errors));
            child.control.wait().await
        };
        let Ok(ended) = tokio::time::timeout(PATIENCE, working).await else {
            child.control.stop().await;
            return Err(format!("git did not end within {} s", PATIENCE.as_secs()));
        };
        let code = ended.map_err(|error| error.to_string())?;
        Ok((code, output, String::from_utf8_lossy(&errors).trim().to_owned()))
    }
}

/// Settings go into the environment: the name of a filter may contain `=`, which an argument could not carry.
fn with_settings(command: ChildCommand, settings: &[(String, &str)]) -> ChildCommand {
    let command = command.env("GIT_CONFIG_COUNT", settings.len().to_string());
    settings.iter().enumerate().fold(command, |command, (at, (key, value))| {
        command.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value)
    })
}

/// From `scope NUL key NUL …`: the names, with `filter.` before them, that no config of the user or the system has set.
fn filters_of_repository(listed: &[u8]) -> Result<BTreeSet<String>, String> {
    let mut parts = listed.split(|byte| *byte == 0);
    let mut filters = BTreeSet::new();
    while let (Some(scope), Some(key)) = (parts.next(), parts.next()) {
        if [&b"system"[..], b"global", b"command"].contains(&scope) {
            continue;
        }
        let key = std::str::from_utf8(key)
            .map_err(|_| "the repository has a filter whose name is not UTF-8".to_owned())?;
        filters.extend(key.rsplit_once('.').map(|(filter, _)| filter.to_owned()));
    }
    Ok(filters)
}

/// Keeps the first part of what a program writes, and reads the rest away so that it does not wait for a reader.
async fn read(from: &mut (impl AsyncRead + Unpin), to: &mut Vec<u8>) {
    // What cannot be read is missing in the output.
    let _ = (&mut *from).take(MOST_OUTPUT).read_to_end(to).await;
    let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use toolyard_model::{BoxFuture, Scope};

    use super::super::{Child, ChildControl, Children};
    use super::*;

    /// Children whose output is this many bytes, and which end after that, or never.
    struct Scripted {
        bytes: u64,
        ends: bool,
        stopped: Arc<AtomicUsize>,
    }

    struct Control {
        ends: bool,
        stopped: Arc<AtomicUsize>,
    }

    impl Children for Scripted {
        fn start(&self, _: &str, _: ChildCommand, _: &Scope) -> BoxFuture<io::Result<Child>> {
            let output = tokio::io::repeat(b'x').take(self.bytes);
            let stdout: Box<dyn AsyncRead + Send + Unpin> =
                if self.ends { Box::new(output) } else { Box::new(Never) };
            let control = Control { ends: self.ends, stopped: self.stopped.clone() };
            Box::pin(async move {
                Ok(Child {
                    stdin: Box::new(tokio::io::sink()),
                    stdout,
                    stderr: Box::new(tokio::io::empty()),
                    control: Box::new(control),
                })
            })
        }

        fn trusts(&self, _: &Path) -> bool {
            true
        }
    }

    /// Output that is never there.
    struct Never;

    impl AsyncRead for Never {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Pending
        }
    }

    impl ChildControl for Control {
        fn pid(&self) -> u32 {
            1
        }

        fn wait(&mut self) -> BoxFuture<io::Result<Option<i32>>> {
            let ends = self.ends;
            Box::pin(async move { if ends { Ok(Some(0)) } else { std::future::pending().await } })
        }

        fn stop(&mut self) -> BoxFuture<()> {
            self.stopped.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        }
    }

    fn git(bytes: u64, ends: bool) -> (Git, Arc<AtomicUsize>) {
        let stopped = Arc::<AtomicUsize>::default();
        let children = Scripted { bytes, ends, stopped: stopped.clone() };
        (Host::builder("test").children(Arc::new(children)).build().git("/nowhere"), stopped)
    }

    #[tokio::test(start_paused = true)]
    async fn git_that_does_not_end_is_stopped_after_two_minutes() {
        let (git, stopped) = git(0, false);
        let begun = tokio::time::Instant::now();
        let why = git.run(["status"]).await.unwrap_err();
        assert_eq!(why, "git did not end within 120 s");
        assert_eq!((begun.elapsed(), stopped.load(Ordering::SeqCst)), (PATIENCE, 1));
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_read_and_dropped_so_that_git_ends() {
        let command = ChildCommand::new("git");
        let (git, stopped) = git(MOST_OUTPUT + 5_000_000, true);
        let (code, output, _) = git.output(command).await.unwrap();
        assert_eq!((code, output.len() as u64), (Some(0), MOST_OUTPUT));
        assert_eq!(stopped.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn filters_of_the_repository_are_found_and_those_of_the_user_are_kept() {
        let listed = b"global\0filter.lfs.clean\0local\0filter.a=b.c.clean\0worktree\0filter.d.process\0local\0filter.d.smudge\0";
        let found = filters_of_repository(listed).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["filter.a=b.c", "filter.d"]);
        assert!(filters_of_repository(b"local\0filter.\xff.clean\0").is_err());
    }
}
