//! Child processes of packs.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use toolyard_model::BoxFuture;

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
}

impl ChildCommand {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new(), folder: None }
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

    /// Sets the working directory.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// Starts child processes so that none outlives the program.
pub trait Children: Send + Sync + 'static {
    /// Starts one for this pack.
    fn start(&self, pack: &str, command: ChildCommand) -> BoxFuture<io::Result<Child>>;
}

/// A running child process. Dropping it stops the process with all its descendants.
pub struct Child {
    /// Its input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its error output.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// What waits for it and stops it.
    pub control: Box<dyn ChildControl>,
}

/// Waits for a child process and stops it.
pub trait ChildControl: Send + Sync + 'static {
    /// Its process id.
    fn pid(&self) -> u32;

    /// Waits until it has ended: its exit code, or nothing if a signal ended it.
    fn wait(&mut self) -> BoxFuture<io::Result<Option<i32>>>;

    /// Stops it with all its descendants.
    fn stop(&mut self) -> BoxFuture<()>;
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Child({})", self.control.pid())
    }
}
