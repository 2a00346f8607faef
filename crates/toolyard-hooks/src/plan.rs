//! A hook as the config gives it, and what is made of it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use serde_json::Value;
use toolyard_link::child::{ChildSpec, Guard, Sandbox};

use crate::{Hook, Point, command, shipped, webhook};

#[derive(Clone, Debug, PartialEq)]
pub struct HookPlan {
    pub name: String,
    pub points: Vec<Point>,
    /// Patterns over canonical ids of tools, or over names of models; all where there are none.
    pub matches: Vec<String>,
    /// Smaller runs earlier.
    pub order: i32,
    pub timeout: Duration,
    pub on_failure: OnFailure,
    pub kind: HookKind,
}

impl HookPlan {
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// A hook with the defaults.
    pub fn new(name: &str, point: Point, kind: HookKind) -> Self {
        Self {
            name: name.to_owned(),
            points: vec![point],
            matches: Vec::new(),
            order: 0,
            timeout: Self::TIMEOUT,
            on_failure: OnFailure::Pass,
            kind,
        }
    }
}

/// How the call continues if the hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It continues as if there were no hook.
    #[default]
    Pass,
    /// It is blocked.
    Block,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HookKind {
    Command(CommandHook),
    Web(WebHook),
    /// One of [`shipped`], by its name, with its settings.
    Shipped {
        name: String,
        settings: Value,
    },
    Own(OwnHook),
}

/// A program that reads the event as JSON on stdin and may print a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHook {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    /// The limits of its sandbox; without one it may use everything.
    pub sandbox: Option<Sandbox>,
}

/// A URL that the event is posted to. Headers may hold secrets and are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct WebHook {
    pub url: Uri,
    pub headers: HeaderMap,
}

impl fmt::Debug for WebHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebHook").field("headers", &self.headers.len()).finish_non_exhaustive()
    }
}

/// A hook in Rust, of the program that embeds the gateway.
#[derive(Clone)]
pub struct OwnHook(pub Arc<dyn Hook>);

impl PartialEq for OwnHook {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OwnHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnHook")
    }
}

/// What hooks run with.
#[derive(Clone, Debug, Default)]
pub struct Runtime {
    /// Ends everything that a command has started.
    pub guard: Option<Guard>,
}

impl Runtime {
    pub fn new(guard: Option<Guard>) -> Self {
        Self { guard }
    }

    /// The hook of this kind; an error names what is wrong with it.
    pub(crate) fn make(&self, plan: &HookPlan) -> Result<Arc<dyn Hook>, String> {
        Ok(match &plan.kind {
            HookKind::Command(hook) => {
                let CommandHook { program, args, env, cwd, sandbox } = hook.clone();
                let guard = self.guard.clone().map(|guard| match &sandbox {
                    Some(sandbox) => guard.sandboxed(sandbox),
                    None => guard,
                });
                let spec = ChildSpec { args, env, cwd, guard, ..ChildSpec::new(program) };
                Arc::new(command::Command::new(spec, plan.timeout))
            }
            HookKind::Web(hook) => Arc::new(webhook::Web::new(hook, plan.timeout)),
            HookKind::Shipped { name, settings } => shipped::make(name, settings)?,
            HookKind::Own(hook) => hook.0.clone(),
        })
    }
}
