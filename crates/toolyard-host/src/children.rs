//! Child processes of packs, each under a guard, with a bound for each pack and a check of trust.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use toolyard_link::child::{ChildHandle, ChildSpec, OwnedChild, start};
use toolyard_model::{BoxFuture, Scope};
use toolyard_tool::host::{Child, ChildCommand, ChildControl, Children};

use crate::{HostSettings, program};

/// How many children one pack may have at a time.
const MOST_CHILDREN: usize = 64;

/// The children of one pack.
pub(crate) struct GuardedChildren {
    settings: Arc<HostSettings>,
    running: Arc<Running>,
}

/// The running children, for `doctor`.
#[derive(Default)]
struct Running {
    next: AtomicU64,
    list: Mutex<Vec<Entry>>,
}

struct Entry {
    number: u64,
    program: String,
    /// `None` while it is being started.
    pid: Option<u32>,
}

impl GuardedChildren {
    pub(crate) fn new(settings: Arc<HostSettings>) -> Self {
        Self { settings, running: Arc::default() }
    }

    pub(crate) fn to_json(&self) -> Vec<Value> {
        let entry = |entry: &Entry| json!({ "program": entry.program, "pid": entry.pid });
        self.running.list().iter().map(entry).collect()
    }

    fn start_now(&self, pack: &str, command: &ChildCommand, owner: &Scope) -> io::Result<Child> {
        for project in program::projects(command) {
            if !self.trusts(&project) {
                return Err(not_trusted(&project));
            }
        }
        let listed = self.running.add(pack, command)?;
        let OwnedChild { stdin, stdout, stderr, handle } = start(&self.spec(command), owner)?;
        self.running.set_pid(&listed, handle.id());
        tracing::debug!(pack, program = %command.program.display(), pid = handle.id(), "started");
        Ok(Child {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            control: Box::new(Control { handle, _listed: listed }),
        })
    }

    fn spec(&self, command: &ChildCommand) -> ChildSpec {
        let mut spec = ChildSpec {
            args: command.args.clone(),
            cwd: command.folder.clone(),
            guard: self.settings.guard.clone(),
            inherits_env: command.inherited.is_none(),
            grace: command.grace,
            ..ChildSpec::new(command.program.clone())
        };
        let inherited = command.inherited.iter().flatten().cloned().chain([OsString::from("PATH")]);
        if command.inherited.is_some() {
            spec.env.extend(inherited.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))));
        }
        spec.env.extend(command.env.iter().cloned());
        spec
    }
}

impl Children for GuardedChildren {
    fn start(&self, pack: &str, command: ChildCommand, owner: &Scope) -> BoxFuture<io::Result<Child>> {
        let started = self.start_now(pack, &command, owner);
        Box::pin(async { started })
    }

    fn trusts(&self, project: &Path) -> bool {
        (self.settings.trusts)(project)
    }
}

fn not_trusted(project: &Path) -> io::Error {
    let project = project.display();
    let why = format!(
        "programs of the project {project} are not run, because you have not trusted it: run `toolyard trust {project}`"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// One child, and its place in the list.
struct Control {
    handle: ChildHandle,
    _listed: Listed,
}

impl ChildControl for Control {
    fn pid(&self) -> u32 {
        self.handle.id()
    }

    fn wait(&mut self) -> BoxFuture<io::Result<Option<i32>>> {
        let exited = self.handle.exited();
        Box::pin(async { Ok(exited.await.and_then(|status| status.code())) })
    }

    fn stop(&mut self) -> BoxFuture<()> {
        self.handle.stop();
        let exited = self.handle.exited();
        Box::pin(async {
            exited.await;
        })
    }
}

impl Running {
    fn add(self: &Arc<Self>, pack: &str, command: &ChildCommand) -> io::Result<Listed> {
        let mut list = self.list();
        if list.len() >= MOST_CHILDREN {
            let why = format!("the pack `{pack}` has {MOST_CHILDREN} child processes already");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        list.push(Entry { number, program: command.program.to_string_lossy().into_owned(), pid: None });
        Ok(Listed { number, running: self.clone() })
    }

    fn set_pid(&self, listed: &Listed, pid: u32) {
        if let Some(entry) = self.list().iter_mut().find(|entry| entry.number == listed.number) {
            entry.pid = Some(pid);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.list.lock()
    }
}

/// Takes a child off the list when it is dropped.
struct Listed {
    number: u64,
    running: Arc<Running>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.running.list().retain(|entry| entry.number != self.number);
    }
}
