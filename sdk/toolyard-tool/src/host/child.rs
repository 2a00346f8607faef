//! Child processes of packs.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use toolyard_model::{BoxFuture, Scope};

/// A program to start.
///
/// ```
/// use toolyard_tool::host::ChildCommand;
///
/// let command = ChildCommand::new("rust-analyzer").arg("--version").folder("/srv/project").env("LANG", "C");
/// assert_eq!(command.program, "rust-analyzer");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ChildCommand {
    /// A path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables that are set for it.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub folder: Option<PathBuf>,
    /// The variables of the hosting program that it inherits, if not all. It always inherits `PATH`.
    pub inherited: Option<Vec<OsString>>,
    /// The project whose code it runs, if it runs any.
    pub project: Option<PathBuf>,
    /// How long it may take to end when it is stopped, before it is killed. 1.5 s, unless it is set.
    pub grace: Duration,
}

impl ChildCommand {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            folder: None,
            inherited: None,
            project: None,
            grace: Duration::from_millis(1500),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Lets it inherit only these variables, and `PATH`.
    pub fn inherit_only(mut self, names: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.inherited = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// States that it runs code of this project, such as build scripts or plugins. It is started only if the user
    /// trusts the project ([`Host::trusts`](crate::Host::trusts)).
    pub fn runs_code_of(mut self, project: impl Into<PathBuf>) -> Self {
        self.project = Some(project.into());
        self
    }

    /// Sets how long it may take to end when it is stopped, before it is killed.
    pub fn ends_within(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the working directory.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// Starts child processes so that none outlives the program.
pub trait Children: Send + Sync + 'static {
    /// Starts one for this pack; it ends with `owner` at the latest.
    fn start(&self, pack: &str, command: ChildCommand, owner: &Scope) -> BoxFuture<io::Result<Child>>;

    /// Whether the user lets packs run programs and code of this project.
    fn trusts(&self, project: &Path) -> bool;
}

/// A running child process. Dropping it stops the process with all its descendants.
pub struct Child {
    /// Its input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its error output.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Waits for the child and stops it.
    pub control: Box<dyn ChildControl>,
}

/// Waits for a child process and stops it.
pub trait ChildControl: Send + Sync + 'static {
    /// The id of the process that was started, which may be one that watches over the program.
    fn pid(&self) -> u32;

    /// Waits until it has ended: its exit code, or nothing if a signal or the end of the pack ended it.
    fn wait(&mut self) -> BoxFuture<io::Result<Option<i32>>>;

    /// Stops it with all its descendants, and waits until they have ended.
    fn stop(&mut self) -> BoxFuture<()>;
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Child({})", self.control.pid())
    }
}
