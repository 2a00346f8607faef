//! The built-in upstream: what the gateway knows of itself, as tools. Plain functions behind a [`Link`], so
//! that they pass the same steps as everything else.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Greeting, Link, LinkEvent, LinkRequest, Origin, Peer};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Notification, Raw, Reason, Revision};

use crate::catalog::{Catalog, Definitions, Entry, ListKind, Snapshot, ViewCatalog};
use crate::hub::{self, Desk, Reply};
use crate::lean;
use crate::listen::Listeners;
use crate::pipeline::Common;
use crate::plan::{Connect, Connected, UpstreamKind, UpstreamPlan};
use crate::status::{self, Stderr, Totals};

const SEARCH_LIMIT: usize = 10;
/// A model that sees no definitions reads each one that is found.
pub(crate) const LEAN_SEARCH_LIMIT: usize = 5;
const SEARCH_MOST: usize = 50;

/// The gateway's own knowledge, once it is attached to a gateway.
pub(crate) struct Yard {
    started: Instant,
    gateway: OnceLock<(Weak<Catalog>, Weak<Listeners>)>,
    common: OnceLock<Weak<Common>>,
    greeting: Greeting,
    /// Keeps the link's event channel open: the built-in upstream never closes.
    _events: mpsc::Sender<LinkEvent>,
}

/// The plan of the built-in tools, their definitions, and the yard, which receives the gateway later.
pub(crate) fn plan() -> (UpstreamPlan, Arc<Definitions>, Arc<Yard>) {
    let whole = json!({
        "supportedVersions": [Revision::NEWEST.as_str()],
        "capabilities": { "tools": {} },
        "resultType": "complete",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "yard", "version": env!("CARGO_PKG_VERSION") } },
    });
    let greeting = Greeting::read(Revision::NEWEST, whole.into());
    let (events, receiver) = mpsc::channel(1);
    let yard = Arc::new(Yard {
        started: Instant::now(),
        gateway: OnceLock::new(),
        common: OnceLock::new(),
        greeting: greeting.clone(),
        _events: events,
    });
    let mut definitions = Definitions::new(greeting);
    definitions.set(ListKind::Tools, tools());
    let connect =
        Arc::new(YardConnector { yard: yard.clone(), receiver: parking_lot::Mutex::new(Some(receiver)) });
    let plan = UpstreamPlan::new(UpstreamId::yard(), UpstreamKind::BuiltIn, connect);
    (plan, Arc::new(definitions), yard)
}

/// The tool that finds tools. In the lean view, another one calls what it finds.
pub(crate) fn search_tool(limit: usize) -> Raw {
    let is_lean = limit == LEAN_SEARCH_LIMIT;
    let how = if is_lean { "Call a found tool with `call_tool`." } else { "Call a found tool by its name." };
    tool(
        lean::SEARCH,
        "Find tools by words",
        &format!(
            "Finds tools by what they do: give a few words, get the best matching tools with their names, descriptions and input schemas, best first. {how}"
        ),
        &json!({
            "query": { "type": "string", "description": "A few words, e.g. `read file` or `create github issue`" },
            "limit": { "type": "integer", "minimum": 1, "maximum": SEARCH_MOST, "default": limit },
        }),
        &json!(["query"]),
    )
}

fn tool(name: &str, title: &str, description: &str, properties: &Value, required: &Value) -> Raw {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let annotations = json!({ "readOnlyHint": true, "openWorldHint": false });
    let tool = json!({
        "name": name, "title": title, "description": description, "inputSchema": schema, "annotations": annotations,
    });
    Raw::from(tool)
}

fn tools() -> Vec<Raw> {
    let mut tools = vec![
        tool(
            "status",
            "Gateway status",
            "Status of the gateway: version, uptime, how many upstreams are active, how many tools they offer, and how many entries are left out.",
            &json!({}),
            &json!([]),
        ),
        tool(
            "upstreams",
            "Upstreams and their state",
            "Every server behind this gateway: whether it is active, since when, and if not, why; and which of its tools are left out. Look here when a tool is missing or reports that it is not connected.",
            &json!({}),
            &json!([]),
        ),
        search_tool(SEARCH_LIMIT),
    ];
    tools.extend(hub::yard_tools());
    tools
}

struct YardConnector {
    yard: Arc<Yard>,
    receiver: parking_lot::Mutex<Option<mpsc::Receiver<LinkEvent>>>,
}

impl fmt::Debug for YardConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("yard")
    }
}

impl Connect for YardConnector {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let events = self.receiver.lock().take();
        let link = Arc::new(YardLink(self.yard.clone()));
        Box::pin(async move {
            let events = events.ok_or("the built-in tools are connected already")?;
            Ok(Connected { link, events })
        })
    }
}

struct YardLink(Arc<Yard>);

impl Link for YardLink {
    fn greeting(&self) -> &Greeting {
        &self.0.greeting
    }

    fn call(&self, request: LinkRequest, _: Peer) -> BoxFuture<Answer> {
        let yard = self.0.clone();
        Box::pin(async move { yard.answer(&request).await })
    }

    fn notify(&self, _: &Arc<Origin>, _: Notification) {}

    fn close(&self) -> BoxFuture<()> {
        Box::pin(async {})
    }
}

impl Yard {
    pub(crate) fn attach(&self, catalog: &Arc<Catalog>, listeners: &Arc<Listeners>, common: &Arc<Common>) {
        let _ = self.common.set(Arc::downgrade(common));
        let _ = self.gateway.set((Arc::downgrade(catalog), Arc::downgrade(listeners)));
    }

    async fn answer(&self, request: &LinkRequest) -> Answer {
        match request.method.as_str() {
            "tools/list" => {
                Ok(AnswerBody::ours(json!({ "tools": tools(), "resultType": "complete" }).into()))
            }
            "tools/call" => self.call(request).await,
            "server/discover" => Ok(AnswerBody::ours(self.greeting.whole.clone())),
            _ => Err(CallError::unknown_method(request.method.as_str())),
        }
    }

    async fn call(&self, request: &LinkRequest) -> Answer {
        let gone = || CallError::internal("the gateway is shutting down");
        let (catalog, listeners) = self.gateway.get().ok_or_else(gone)?;
        let (catalog, listeners) =
            (catalog.upgrade().ok_or_else(gone)?, listeners.upgrade().ok_or_else(gone)?);
        let snapshot = catalog.snapshot();
        let arguments: Value =
            request.params.member("arguments").and_then(|raw| raw.read().ok()).unwrap_or_default();
        let name = request.params.member("name").and_then(|name| name.as_string());
        let desk = Desk { catalog: &catalog, listeners: &listeners, origin: &request.origin };
        if let Some(reply) = desk.run(name.as_deref().unwrap_or_default(), &arguments).await {
            return reply.map(|Reply { structured, text }| AnswerBody::ours(with_text(&structured, &text)));
        }
        let structured = match name.as_deref() {
            Some("status") => self.status(&catalog, &snapshot, &listeners),
            Some("upstreams") => {
                let common = self.common.get().and_then(Weak::upgrade).ok_or_else(gone)?;
                json!({ "upstreams": status::all(&catalog.rules().upstreams, &common, Stderr::Shown) })
            }
            Some(lean::SEARCH) => return find(snapshot, request.origin.clone(), &arguments).await,
            other => return Err(CallError::invalid_params(format!("unknown tool {other:?}"))),
        };
        Ok(AnswerBody::ours(succeeded(&structured)))
    }

    fn status(&self, catalog: &Catalog, snapshot: &Snapshot, listeners: &Listeners) -> Value {
        let rules = catalog.rules();
        let totals = Totals::new(&rules.upstreams, snapshot);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "upstreams": { "active": totals.active, "total": rules.upstreams.len() },
            "tools": totals.tools,
            "leftOut": totals.left_out,
            "listeners": listeners.count(),
            "tasks": tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        })
    }
}

/// Only what the caller's own view shows is found.
async fn find(snapshot: Arc<Snapshot>, origin: Arc<Origin>, arguments: &Value) -> Answer {
    let view = snapshot.view(&origin.view).cloned();
    let is_lean = view.as_ref().is_some_and(|view| view.is_lean());
    let (query, limit) = match asked(arguments, if is_lean { LEAN_SEARCH_LIMIT } else { SEARCH_LIMIT }) {
        Ok(asked) => asked,
        Err(problem) => return Ok(AnswerBody::ours(failed(&problem))),
    };
    let structured = json!({ "tools": found(snapshot, &origin, &query, limit).await });
    if !is_lean {
        return Ok(AnswerBody::ours(succeeded(&structured)));
    }
    // Here every byte counts.
    Ok(AnswerBody::ours(with_text(&structured, &structured.to_string())))
}

/// The tools of the caller's own view that match, best first, whether or not the view has the gateway's own tools.
pub(crate) async fn found(snapshot: Arc<Snapshot>, origin: &Origin, query: &str, limit: usize) -> Vec<Value> {
    let Some(view) = snapshot.view(&origin.view).cloned() else { return Vec::new() };
    if view.is_unsearched() {
        let view = view.clone();
        // Reading all definitions takes long where there are many.
        let _ = tokio::task::spawn_blocking(move || view.findable().len()).await;
    }
    let visibility = snapshot.rules().steps.visibility(origin);
    let found = view.findable().search(query, limit, |entry| !visibility.hides(entry));
    found.into_iter().map(|entry| described(&view, entry)).collect()
}

fn described(view: &ViewCatalog, entry: &Arc<Entry>) -> Value {
    json!({
        "name": view.name_of_tool(entry),
        "id": &*entry.canonical,
        "title": entry.own.member("title"),
        "description": entry.own.member("description"),
        "inputSchema": entry.own.member("inputSchema"),
    })
}

/// The words to search for, and how many tools to find at most.
fn asked(arguments: &Value, usual: usize) -> Result<(String, usize), String> {
    let query = arguments["query"].as_str().filter(|query| !query.trim().is_empty());
    let query = query.ok_or("`query` must be a text with at least one word")?;
    let limit = match &arguments["limit"] {
        Value::Null => usual,
        limit => limit
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| (1..=SEARCH_MOST).contains(n))
            .ok_or_else(|| format!("`limit` must be a whole number from 1 to {SEARCH_MOST}, not {limit}"))?,
    };
    Ok((query.to_owned(), limit))
}

fn succeeded(structured: &Value) -> Raw {
    let text = serde_json::to_string_pretty(structured).unwrap_or_default();
    with_text(structured, &text)
}

fn with_text(structured: &Value, text: &str) -> Raw {
    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured, "resultType": "complete" }).into()
}

fn failed(problem: &str) -> Raw {
    json!({ "content": [{ "type": "text", "text": problem }], "isError": true, "resultType": "complete" })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_tool_describes_what_it_does_and_takes() {
        for tool in tools() {
            assert!(tool.member("description").is_some() && tool.member("inputSchema").is_some(), "{tool:?}");
        }
    }
}
