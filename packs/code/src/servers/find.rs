//! Whether a server's program is there and runs.
//!
//! A program on `PATH` proves nothing: rustup puts proxies there for components that are not installed. So a program
//! counts only if it shows its version, and what it showed is remembered until the file changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use toolyard_tool::Host;
use toolyard_tool::host::ChildCommand;

use super::known::Server;

const PROBE_LIMIT: Duration = Duration::from_secs(10);
const MAX_OUTPUT: u64 = 16 * 1024;
/// Folders below a project in which package managers put programs.
const PROJECT_FOLDERS: [&str; 3] = ["node_modules/.bin", ".venv/bin", "venv/bin"];

/// A program that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    /// The first line of its version, if it shows one.
    pub(crate) version: Option<String>,
}

/// What is known of programs that were tried.
#[derive(Debug, Default)]
pub(crate) struct Finder(Mutex<HashMap<PathBuf, Tried>>);

#[derive(Clone, Debug)]
struct Tried {
    changed: Option<SystemTime>,
    outcome: Result<Found, String>,
}

impl Finder {
    /// The program of a server, or why there is none. `project` is the root of a trusted project, whose own programs
    /// come first.
    pub(crate) async fn find(
        &self,
        host: &Host,
        server: &Server,
        project: Option<&Path>,
    ) -> Result<Found, String> {
        let Some(name) = server.command.first() else { return Err("it has no command".to_owned()) };
        let Some(program) = on_path(name, project) else {
            return Err(format!("`{name}` is not installed"));
        };
        let Some(probe) = &server.probe else { return Ok(Found { program, version: None }) };
        let changed = program.metadata().and_then(|metadata| metadata.modified()).ok();
        let known = self.0.lock().get(&program).cloned();
        if let Some(tried) = known.filter(|tried| tried.changed == changed) {
            return tried.outcome;
        }
        let outcome = probed(host, &program, probe).await.and_then(|version| match server.version_prefix {
            Some(prefix) if !version.starts_with(prefix) => Err(format!("`{name}` is too old: {version}")),
            _ => Ok(Found { program: program.clone(), version: Some(version) }),
        });
        // A program that failed may work after something else was installed.
        if outcome.is_ok() {
            let tried = Tried { changed, outcome: outcome.clone() };
            self.0.lock().insert(program, tried);
        }
        outcome
    }
}

/// The path of a program, from the project's own folders or from `PATH`.
fn on_path(name: &str, project: Option<&Path>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let own = project.into_iter().flat_map(|root| PROJECT_FOLDERS.map(|folder| root.join(folder)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.chain(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The first line that a program writes about its version, or why it does not run.
async fn probed(host: &Host, program: &Path, arguments: &[String]) -> Result<String, String> {
    let command = arguments.iter().fold(ChildCommand::new(program), ChildCommand::arg);
    let mut child = host.child(command).await.map_err(|error| error.to_string())?;
    let read = async {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) =
            ((&mut child.stdout).take(MAX_OUTPUT), (&mut child.stderr).take(MAX_OUTPUT));
        let _ = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
        let code = child.control.wait().await;
        (code, first_line(&out), first_line(&err))
    };
    let ended = tokio::time::timeout(PROBE_LIMIT, read).await;
    let shown = program.display();
    match ended {
        Err(_) => {
            child.control.stop().await;
            Err(format!("`{shown}` did not show its version within {} s", PROBE_LIMIT.as_secs()))
        }
        Ok((Ok(Some(0)), out, err)) => Ok(if out.is_empty() { err } else { out }),
        Ok((_, out, err)) => {
            let why = if err.is_empty() { out } else { err };
            Err(format!("`{shown}` does not run: {why}"))
        }
    }
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    crate::search::shorten(line.trim(), 200)
}
