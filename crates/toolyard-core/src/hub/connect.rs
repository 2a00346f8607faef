//! Connecting and disconnecting: a session of the hub view, or a handle.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_model::View;
use toolyard_proto::CallError;
use toolyard_proto::name::legal_name;

use super::handles::IDLE;
use super::{Desk, Reply, find, needed, own_id, refused};
use crate::catalog::{Definitions, ListKind};
use crate::levels;
use crate::upstream::Upstream;

/// How long an instance that has just been connected may take to send its definitions.
const FIRST_LIST_WITHIN: Duration = Duration::from_secs(5);

/// How long the lists of an instance that announces no changes are waited for before it is shown as it was.
const READ_AGAIN: Duration = Duration::from_secs(2);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Desk<'_> {
    pub(super) async fn connect(&self, arguments: &Value) -> Result<Reply, CallError> {
        let id = needed(arguments, "instance_id")?;
        let upstream = self.found(id).await.map_err(failed)?;
        let own_id = own_id(&upstream);
        reach(&upstream).await.map_err(failed)?;
        self.catalog.show(&upstream).await;
        let (hub, origin) = (&self.catalog.rules().hub, self.origin);
        let mut tools = self.tools_of(&upstream);
        if origin.view == View::Hub {
            tools = tools.iter().map(|name| legal_name(name).into_owned()).collect();
        }
        let mut text = format!("Connected to instance {own_id}");
        let mut result = json!({
            "message": text,
            "instance_id": own_id, "upstream": upstream.id().as_str(), "state": upstream.state().phase.as_str(),
            "tools": tools,
        });
        if origin.view == View::Hub {
            let before = hub.connect(&origin.client, upstream.id().clone());
            let before = before.and_then(|id| self.catalog.snapshot().find(&id).cloned());
            self.switch(before.as_ref(), Some(&upstream));
        } else {
            let handle = hub.handles.issue(&origin.principal, upstream.id(), Instant::now());
            text = format!("{text}\nhandle: {handle}");
            result["handle"] = json!(handle);
            result["expires_after_idle_seconds"] = json!(IDLE.as_secs());
        }
        Ok(Reply { structured: result, text })
    }

    /// The names of its tools that the client sees.
    fn tools_of(&self, upstream: &Upstream) -> Vec<String> {
        let snapshot = self.catalog.snapshot();
        let seen = snapshot.rules().steps.visibility(self.origin);
        let view = snapshot.view(&View::Upstream(upstream.name().clone()));
        let is_hidden = |name: &String| {
            let found = view.and_then(|view| view.tool(name));
            found.is_some_and(|found| seen.hides(&found.entry))
        };
        let mut names = upstream.definitions().map_or_else(Vec::new, |definitions| names(&definitions));
        names.retain(|name| !is_hidden(name));
        names
    }

    /// Right after the start an instance may not have been found yet.
    async fn found(&self, id: &str) -> Result<Arc<Upstream>, CallError> {
        loop {
            let found = find(&self.catalog.rules().upstreams, id).cloned();
            if found.is_ok() || !self.catalog.is_new() {
                return found;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(super) fn disconnect(&self, arguments: &Value) -> Result<Reply, CallError> {
        let (hub, origin) = (&self.catalog.rules().hub, self.origin);
        let snapshot = self.catalog.snapshot();
        if origin.view != View::Hub {
            let handle = needed(arguments, "handle")?;
            let id = hub.handles.retract(handle, &origin.principal, Instant::now());
            let id = id.ok_or_else(|| {
                refused("the handle was released, has expired or belongs to another client; `instances_connect` returns a new one")
            })?;
            return Ok(disconnected(
                json!({ "message": format!("Disconnected from instance {id}"), "upstream": id.as_str() }),
            ));
        }
        let Some(id) = hub.disconnect(&origin.client) else {
            return Ok(disconnected(json!({ "message": "This session was not connected to an instance" })));
        };
        let before = snapshot.find(&id);
        self.switch(before, None);
        let own_id = before.map_or_else(|| id.to_string(), |before| own_id(before));
        Ok(disconnected(
            json!({ "message": format!("Disconnected from instance {own_id}"), "instance_id": own_id }),
        ))
    }

    /// Ends what a session of the hub view has set up at one instance, and notifies it of the lists that change.
    fn switch(&self, before: Option<&Arc<Upstream>>, after: Option<&Arc<Upstream>>) {
        let is_same = before.zip(after).is_some_and(|(before, after)| before.id() == after.id());
        if is_same {
            return;
        }
        if let Some(before) = before {
            self.listeners.let_go(&self.origin.client, before);
            before.leave(&self.origin.client);
        }
        if let Some(after) = after {
            let hub = self.catalog.rules().hub.clone();
            levels::catch_up(after, self.origin, hub);
        }
        let listed = |one: Option<&Arc<Upstream>>| one.filter(|one| one.is_listed())?.definitions();
        let (before, after) = (listed(before), listed(after));
        let list = |definitions: &Option<Arc<Definitions>>, kind| {
            definitions.as_ref().map_or_else(Vec::new, |definitions| definitions.list(kind).to_vec())
        };
        let changed = ListKind::ALL.into_iter().filter(|kind| list(&before, *kind) != list(&after, *kind));
        self.listeners.switched(&self.origin.client, &changed.collect::<Vec<_>>());
    }
}

/// Waits for a link, and for the definitions behind it.
async fn reach(upstream: &Upstream) -> Result<(), CallError> {
    upstream.try_now().await;
    if let Err(error) = upstream.link().await {
        let message = format!("instance not active: {}: {error}", upstream.state().phase);
        return Err(error.with_reason(message));
    }
    // Definitions that arrive later are announced then.
    let _ = tokio::time::timeout(FIRST_LIST_WITHIN, upstream.life.settled()).await;
    if upstream.life.is_unannounced() {
        let _ = tokio::time::timeout(READ_AGAIN, upstream.read_again()).await;
    }
    Ok(())
}

/// The text is the same whether or not the session was connected: disconnecting is idempotent.
fn disconnected(structured: Value) -> Reply {
    Reply { structured, text: "Disconnected from instance".into() }
}

fn failed(error: CallError) -> CallError {
    let message = format!("Failed to connect: {error}");
    error.with_reason(message)
}

fn names(definitions: &Definitions) -> Vec<String> {
    let tools =
        definitions.sanitized_list(ListKind::Tools).iter().filter_map(|sanitized| sanitized.entry.as_ref());
    tools.filter_map(|tool| tool.member("name")?.as_string()).collect()
}
