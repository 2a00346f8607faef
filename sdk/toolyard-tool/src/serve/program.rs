//! A whole program: arguments, runtime, signals, exit code.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use super::arguments::USAGE;
use super::{Door, ServeError, Server};
use crate::ToolSet;

#[cfg(unix)]
pub(super) use unix::end_signal;
#[cfg(windows)]
pub(super) use windows::end_signal;

/// How long a thread that still waits for input may hold up the end of the program.
const LAST_THREADS: Duration = Duration::from_millis(100);

/// The whole `main` of a standalone server: opens the doors that the program's arguments ask for
/// ([`Door::from_args`]) and serves until the client leaves or the process receives a signal to end.
///
/// ```no_run
/// use std::process::ExitCode;
/// use toolyard_tool::{ToolSet, tool};
///
/// /// Returns which way is up.
/// #[tool(read_only)]
/// async fn up() -> &'static str {
///     "the other way"
/// }
///
/// fn main() -> ExitCode {
///     toolyard_tool::run(ToolSet::new("compass", "1.0.0").with::<up>())
/// }
/// ```
pub fn run<S: Send + Sync + 'static>(set: ToolSet<S>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        say(USAGE);
        return ExitCode::SUCCESS;
    }
    match Door::from_args(arguments).map_err(ServeError::from).and_then(|doors| run_on(set, &doors)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            say(&format!("{error}{cause}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Serves a set on these doors until the client on stdio leaves or the process receives a signal to end. For programs
/// with arguments of their own; makes its own runtime, so it must not be called from within one.
///
/// ```
/// # mod example {
/// use toolyard_tool::{Door, ServeError, ToolSet, run_on};
///
/// fn main() -> Result<(), ServeError> {
///     run_on(ToolSet::new("clock", "1.0.0"), &[Door::Http("127.0.0.1:8000".into())])
/// }
/// # }
/// ```
pub fn run_on<S: Send + Sync + 'static>(set: ToolSet<S>, doors: &[Door]) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| ServeError::Listen { door: "anything: there is no runtime".into(), source })?;
    let served = runtime.block_on(async {
        let has_stdio = doors.contains(&Door::Stdio);
        let server = Server::start(set, doors.to_vec()).await?;
        let mut addresses = server.addresses().iter();
        for door in doors {
            match door {
                Door::Http(_) => {
                    if let Some(at) = addresses.next() {
                        listening(&format!("http://{at}/mcp"));
                    }
                }
                Door::Tcp(_) => {
                    if let Some(at) = addresses.next() {
                        listening(&format!("tcp://{at}"));
                    }
                }
                Door::Unix(path) => listening(&format!("unix://{}", path.display())),
                Door::Stdio => {}
            }
        }
        tokio::select! {
            () = server.left(), if has_stdio => {}
            () = end_signal() => {}
        }
        server.end().await;
        Ok(())
    });
    // Reading stdin cannot be interrupted, and must not keep the program alive.
    runtime.shutdown_timeout(LAST_THREADS);
    served
}

/// Prints the address, in the form that clients need in their configs.
fn listening(place: &str) {
    say(&format!("listening on {place}\n"));
}

/// Only stderr is for people: stdout may belong to a client.
fn say(text: &str) {
    // A failure cannot be reported any more.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
