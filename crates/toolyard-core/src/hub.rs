//! Instances on demand: which session of the hub view is connected to which instance, the handles that
//! clients without a session use, and the tools for both.

mod call;
mod connect;
mod handles;
mod report;
mod result;
mod schema;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;
use toolyard_model::{ClientKey, Origin};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Reason};

use crate::catalog::{Catalog, Entry};
use crate::keys::StateKeys;
use crate::listen::Listeners;
use crate::upstream::Upstream;

pub(crate) use call::{InstanceCall, resolve_instances_call};
pub(crate) use result::{may_need_wrapping, wrapped};
pub(crate) use tools::{hub_tools, with_slash, yard_tools};

/// The hint for a session that is not connected.
const HOW: &str = "`instances_list` shows the instances, and `instances_connect` with an `instance_id` connects this session to one";

/// Which client is connected to which instance. An instance is identified by its id, so it is the same after a restart.
#[derive(Debug)]
pub(crate) struct Hub {
    sessions: Mutex<HashMap<ClientKey, Target>>,
    handles: handles::Handles,
}

/// The instance that a session is connected to.
#[derive(Debug)]
struct Target {
    instance: UpstreamId,
    /// Whether the session was connected before this process began, and the instance has not been found since.
    is_awaited: bool,
}

impl Hub {
    pub(crate) fn new(keys: Arc<StateKeys>) -> Self {
        Self { sessions: Mutex::default(), handles: handles::Handles::new(keys) }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<ClientKey, Target>> {
        self.sessions.lock()
    }

    /// The instance that a session is connected to.
    pub(crate) fn target(&self, client: &ClientKey) -> Option<UpstreamId> {
        self.sessions().get(client).map(|target| target.instance.clone())
    }

    /// Connects a session; returns the instance that it was connected to before.
    fn connect(&self, client: &ClientKey, instance: UpstreamId) -> Option<UpstreamId> {
        let target = Target { instance, is_awaited: false };
        self.sessions().insert(client.clone(), target).map(|before| before.instance)
    }

    fn disconnect(&self, client: &ClientKey) -> Option<UpstreamId> {
        self.sessions().remove(client).map(|before| before.instance)
    }

    /// Restores a session of an earlier process. If its instance has not been found yet, the session is connected as
    /// soon as the instance is found.
    pub(crate) fn restore(&self, client: &ClientKey, instance: UpstreamId, is_there: bool) {
        self.sessions().insert(client.clone(), Target { instance, is_awaited: !is_there });
    }

    /// Whether a session was connected before this process began, to an instance that was not found since.
    pub(crate) fn is_awaited(&self, client: &ClientKey) -> bool {
        self.sessions().get(client).is_some_and(|target| target.is_awaited)
    }

    /// An instance has been found; returns the clients that were waiting for it.
    pub(crate) fn found(&self, id: &UpstreamId) -> Vec<ClientKey> {
        let mut sessions = self.sessions();
        let theirs = sessions.iter_mut().filter(|(_, target)| target.instance == *id);
        let awaiting = |(client, target): (&ClientKey, &mut Target)| {
            std::mem::take(&mut target.is_awaited).then(|| client.clone())
        };
        theirs.filter_map(awaiting).collect()
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, client: &ClientKey) {
        self.sessions().remove(client);
    }

    /// How many sessions and handles refer to the instance.
    fn connections(&self, id: &UpstreamId) -> usize {
        let sessions = self.sessions().values().filter(|target| target.instance == *id).count();
        sessions + self.handles.count(id, Instant::now())
    }

    /// Why a session cannot call a tool of an instance.
    pub(crate) fn not_connected(&self, client: &ClientKey) -> CallError {
        CallError::unavailable(match self.sessions().get(client) {
            None => format!("not connected to an instance: {HOW}"),
            Some(Target { instance, is_awaited: true }) => format!(
                "not connected to an instance: `{instance}` has not been found again since the gateway restarted; this session reconnects to it when it is. {HOW}"
            ),
            Some(Target { instance, .. }) => {
                format!("not connected to an instance: `{instance}` is no longer there; {HOW}")
            }
        })
    }
}

/// Whether calls of this tool go to an instance rather than to the gateway.
pub(crate) fn is_instances_call(entry: &Entry) -> bool {
    entry.own_name == tools::CALL && *entry.upstream.id() == UpstreamId::yard()
}

/// Why nothing can be called at an instance whose definitions were never received.
pub(crate) fn silent(instance: &Upstream) -> CallError {
    let state = instance.state();
    let why = state.reason.unwrap_or_else(|| "it has not answered yet".into());
    let subject = format!("instance `{}`", own_id(instance));
    CallError::unavailable(Reason::of(subject, format!("is {}", state.phase)).caused_by(&why))
}

/// The result of a tool about instances.
pub(crate) struct Reply {
    pub(crate) structured: Value,
    pub(crate) text: String,
}

impl Reply {
    /// Makes a reply whose text is the structured content as JSON.
    pub(crate) fn json(structured: Value) -> Self {
        let text = serde_json::to_string_pretty(&structured).unwrap_or_default();
        Self { structured, text }
    }
}

/// The state that the tools about instances use.
pub(crate) struct Desk<'a> {
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) listeners: &'a Arc<Listeners>,
    pub(crate) origin: &'a Arc<Origin>,
}

impl Desk<'_> {
    /// Runs one of the tools about instances; `None` if the name is not one of theirs.
    pub(crate) async fn run(&self, tool: &str, arguments: &Value) -> Option<Result<Reply, CallError>> {
        Some(match tool {
            tools::LIST => Ok(self.list()),
            tools::CONNECT => self.connect(arguments).await,
            tools::DISCONNECT => self.disconnect(arguments),
            tools::HEALTH => self.health(arguments).map(Reply::json),
            _ => return None,
        })
    }
}

/// The instance with this id: its own id, or that of its upstream.
fn find<'a>(upstreams: &'a [Arc<Upstream>], id: &str) -> Result<&'a Arc<Upstream>, CallError> {
    let mut instances = upstreams.iter().filter(|upstream| upstream.is_instance());
    let is_it = |one: &&Arc<Upstream>| one.id().as_str().eq_ignore_ascii_case(id) || own_id(one) == id;
    instances.find(is_it).ok_or_else(|| {
        CallError::unavailable(format!("instance not found: {id}; `instances_list` lists the available ones"))
    })
}

/// The id that an instance gave itself.
fn own_id(upstream: &Upstream) -> String {
    let described = upstream.described();
    let own = described.as_ref().and_then(|about| about["id"].as_str());
    own.unwrap_or(upstream.id().as_str()).to_owned()
}

/// An argument that is a text, if it is given.
fn text<'a>(arguments: &'a Value, key: &str) -> Result<Option<&'a str>, CallError> {
    match &arguments[key] {
        Value::Null => Ok(None),
        Value::String(text) if !text.is_empty() => Ok(Some(text)),
        other => Err(refused(format!("`{key}` must be a text that is not empty, not {other}"))),
    }
}

fn needed<'a>(arguments: &'a Value, key: &str) -> Result<&'a str, CallError> {
    text(arguments, key)?.ok_or_else(|| refused(format!("`{key}` is missing")))
}

fn refused(reason: impl Into<Reason>) -> CallError {
    CallError::turned_away(toolyard_proto::Retry::Never, reason)
}
