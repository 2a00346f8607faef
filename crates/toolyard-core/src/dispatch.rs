//! One table: what each method means, and which upstream it goes to.

use std::ops::Range;
use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, Request};
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Method, Params, Raw, Reason};

use crate::call::{Call, Edits};
use crate::catalog::{Entry, ListKind, Snapshot, ViewCatalog};
use crate::gateway::Shared;
use crate::listen::listen;
use crate::pipeline::Next;
use crate::upstream::Upstream;
use crate::{bridge, greet, hub, tasks};

/// Methods that the newest revision removed: nobody is asked, whatever the view.
const REMOVED: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
    "tasks/list",
];

pub(crate) fn dispatch(shared: &Arc<Shared>, request: Request, peer: Peer) -> BoxFuture<Answer> {
    let snapshot = shared.catalog.snapshot();
    match request.method.as_str() {
        "tools/call" if is_unheard_of(&snapshot, &request) => {
            Box::pin(call_late(shared.clone(), request, peer))
        }
        "tools/call" => call_tool(&snapshot, request, peer),
        removed if REMOVED.contains(&removed) && !bridge::has_inbox(&request.origin) => {
            refuse(CallError::unknown_method(removed))
        }
        "tools/list" => list(shared, ListKind::Tools, request),
        "resources/list" => list(shared, ListKind::Resources, request),
        "resources/templates/list" => list(shared, ListKind::Templates, request),
        "prompts/list" => list(shared, ListKind::Prompts, request),
        "prompts/get" => get_prompt(&snapshot, request, peer),
        "resources/read" => read_resource(&snapshot, request, peer),
        "completion/complete" => complete(&snapshot, request, peer),
        "server/discover" => Box::pin(discover(shared.clone(), request)),
        "subscriptions/listen" => {
            let (listeners, catalog) = (shared.listeners.clone(), shared.catalog.clone());
            Box::pin(listen(listeners, catalog, shared.scope.clone(), request, peer))
        }
        "logging/setLevel" => Box::pin(crate::levels::set_level(shared.clone(), request)),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => task(&snapshot, request, peer),
        _ => pass_unknown(&snapshot, request, peer),
    }
}

fn refuse(error: CallError) -> BoxFuture<Answer> {
    Box::pin(async move { Err(error) })
}

fn view<'a>(snapshot: &'a Snapshot, request: &Request) -> Result<&'a ViewCatalog, CallError> {
    snapshot.seen_by(&request.origin).ok_or_else(|| CallError::invalid_params("there is no such view"))
}

fn string_member(params: &Params, key: &str) -> Result<String, CallError> {
    let text = params.slice(member(params, key)?).as_string();
    text.ok_or_else(|| must_be_string(key))
}

/// Where a member stands that a request is judged by. The upstream must not be able to read another one.
fn member(params: &Params, key: &str) -> Result<Range<usize>, CallError> {
    let found = params.find_once(key);
    found
        .map_err(|_| CallError::invalid_params(format!("`{key}` stands twice in `params`")))?
        .ok_or_else(|| must_be_string(key))
}

fn must_be_string(key: &str) -> CallError {
    CallError::invalid_params(format!("`params.{key}` must be a string"))
}

/// Whether the tool may be that of an upstream that has not spoken yet.
fn is_unheard_of(snapshot: &Snapshot, request: &Request) -> bool {
    (!snapshot.settled || snapshot.awaits_instance(&request.origin))
        && string_member(&request.params, "name")
            .is_ok_and(|name| view(snapshot, request).is_ok_and(|view| view.tool(&name).is_none()))
}

/// Right after the start a call waits for its tool like a list does.
async fn call_late(shared: Arc<Shared>, request: Request, peer: Peer) -> Answer {
    shared.wait_for_first_list(&request.origin).await;
    let snapshot = shared.catalog.snapshot();
    call_tool(&snapshot, request, peer).await
}

fn call_tool(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    let named = named_entry(snapshot, &request, |view, name| {
        view.tool(name).ok_or_else(|| unknown(snapshot, &request, view, "tool", name))
    });
    match named {
        Ok(named) if hub::leads_on(&named.entry) => call_instance(snapshot, request, peer, &named),
        Ok(named) => to_entry(request, peer, named, ResultKind::ToolResult),
        Err(error) => refuse(error),
    }
}

/// `instances_call` names a tool in its arguments: that one is called, in the way that it always is.
fn call_instance(snapshot: &Snapshot, request: Request, peer: Peer, outer: &Named) -> BoxFuture<Answer> {
    if request.relay
        && let Err(error) = outer.entry.headers().check(request.headers.as_deref(), &request.params)
    {
        return refuse(error);
    }
    match hub::lead(snapshot, request) {
        Ok(hub::Led { request, entry }) => {
            let named = Named { entry, renamed_at: None, is_namespaced: outer.is_namespaced };
            to_entry(request, peer, named, ResultKind::ToolResult)
        }
        Err(error) => refuse(error),
    }
}

fn get_prompt(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    let named = named_entry(snapshot, &request, |view, name| {
        view.prompt(name).ok_or_else(|| unknown(snapshot, &request, view, "prompt", name))
    });
    match named {
        Ok(named) => to_entry(request, peer, named, ResultKind::PromptResult),
        Err(error) => refuse(error),
    }
}

/// What a request names.
struct Named {
    entry: Arc<Entry>,
    /// Where the name stands in the parameters, if it is not the upstream's own.
    renamed_at: Option<Range<usize>>,
    /// Whether the answer is seen in a view of many upstreams.
    is_namespaced: bool,
}

fn named_entry<'a>(
    snapshot: &'a Snapshot,
    request: &Request,
    look_up: impl FnOnce(&'a ViewCatalog, &str) -> Result<&'a Arc<Entry>, CallError>,
) -> Result<Named, CallError> {
    let at = member(&request.params, "name")?;
    let raw = request.params.slice(at.clone());
    let name = raw.text().ok_or_else(|| must_be_string("name"))?;
    let view = view(snapshot, request)?;
    let entry = look_up(view, &name)?.clone();
    let renamed_at = (view.is_namespaced() || *name != entry.own_name).then_some(at);
    Ok(Named { entry, renamed_at, is_namespaced: view.is_namespaced() })
}

fn unknown(snapshot: &Snapshot, request: &Request, view: &ViewCatalog, what: &str, name: &str) -> CallError {
    if let Some(error) = without_instance(snapshot, request, view) {
        return error;
    }
    if let Some((_, reason)) = view.left_out.iter().find(|(left_out, _)| left_out == name) {
        return CallError::invalid_params(format!("{what} `{name}` is not shown: {reason}"));
    }
    if let Some(why) = unheard(snapshot, view, name) {
        return CallError::invalid_params(format!("unknown {what} `{name}`: {why}"));
    }
    CallError::invalid_params(format!("unknown {what} `{name}`; `{what}s/list` shows what there is"))
}

/// What is known of the upstream that a name seems to speak of, where that one has never said what it offers.
/// Only a word about what went wrong: nothing is called by it.
fn unheard(snapshot: &Snapshot, view: &ViewCatalog, name: &str) -> Option<Reason> {
    let is_meant = |upstream: &&Arc<Upstream>| {
        let rest = name.strip_prefix(upstream.id().as_str());
        let is_named = rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with(':'));
        is_named && upstream.definitions().is_none()
    };
    let upstream = snapshot.rules().upstreams.iter().filter(|_| view.alone.is_none()).find(is_meant)?;
    Some(upstream.why_unavailable(&upstream.state()))
}

/// In the hub view, whatever is not the hub's own needs an instance.
fn without_instance(snapshot: &Snapshot, request: &Request, view: &ViewCatalog) -> Option<CallError> {
    let silent = view.alone.as_ref().filter(|alone| alone.definitions().is_none());
    match (view.is_hub, &view.alone, silent) {
        (true, None, _) => Some(snapshot.rules().hub.not_connected(&request.origin.client)),
        (true, _, Some(silent)) => Some(hub::silent(silent)),
        _ => None,
    }
}

/// A call of a tool or prompt: under its own name to its upstream, through the upstream's steps.
fn to_entry(mut request: Request, peer: Peer, named: Named, kind: ResultKind) -> BoxFuture<Answer> {
    let Named { entry, renamed_at, is_namespaced } = named;
    if request.relay {
        if let Err(error) = entry.headers().check(request.headers.as_deref(), &request.params) {
            return refuse(error);
        }
    } else if request.headers.is_none() {
        request.headers = entry.headers().made(&request.params);
    }
    let upstream = entry.upstream.clone();
    let edits = if is_namespaced { edits(&request, &upstream, kind) } else { Edits::default() };
    if let Some(range) = renamed_at {
        request.params = request.params.replaced(range, entry.own_name_raw.as_bytes());
    }
    send(request, peer, upstream, Some(entry), edits)
}

fn edits(request: &Request, upstream: &Upstream, kind: ResultKind) -> Edits {
    let has_resources = upstream.definitions().is_some_and(|definitions| definitions.has_resources());
    let may_be_older = bridge::has_inbox(&request.origin);
    let tasks = tasks::declared(&request.origin) || may_be_older && request.params.member("task").is_some();
    Edits { uris: has_resources.then_some(kind), tasks }
}

fn send(
    request: Request,
    peer: Peer,
    upstream: Arc<Upstream>,
    entry: Option<Arc<Entry>>,
    edits: Edits,
) -> BoxFuture<Answer> {
    let Request { origin, id, method, params, headers, relay } = request;
    let chain = upstream.chain();
    Next::all(chain).run(Call { origin, upstream, entry, id, method, params, headers, relay, peer, edits })
}

fn read_resource(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    let found = string_member(&request.params, "uri").and_then(|uri| {
        let view = view(snapshot, &request)?;
        let owner = view.resource(&uri).ok_or_else(|| {
            let unknown = format!("unknown resource {uri}; `resources/list` shows what there is");
            let absent = without_instance(snapshot, &request, view);
            absent.unwrap_or_else(|| CallError::invalid_params(unknown))
        })?;
        Ok((owner, view.is_namespaced()))
    });
    match found {
        Ok(((upstream, own), true)) => {
            let params = request.params.with("uri", &Raw::from_serialize(&own)).into();
            let edits = Edits { uris: Some(ResultKind::ReadResult), tasks: false };
            send(Request { params, ..request }, peer, upstream, None, edits)
        }
        Ok(((upstream, _), false)) => send(request, peer, upstream, None, Edits::default()),
        Err(error) => refuse(error),
    }
}

/// Completion names a prompt or a resource template; either leads to its owner.
fn complete(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    match complete_target(snapshot, &request) {
        Ok((upstream, params)) => send(Request { params, ..request }, peer, upstream, None, Edits::default()),
        Err(error) => refuse(error),
    }
}

fn complete_target(snapshot: &Snapshot, request: &Request) -> Result<(Arc<Upstream>, Params), CallError> {
    let view = view(snapshot, request)?;
    if let Some(alone) = &view.alone {
        return Ok((alone.clone(), request.params.clone()));
    }
    let reference = Params::from(request.params.slice(member(&request.params, "ref")?));
    match string_member(&reference, "type")?.as_str() {
        "ref/prompt" => {
            let name = string_member(&reference, "name")?;
            let entry =
                view.prompt(&name).ok_or_else(|| unknown(snapshot, request, view, "prompt", &name))?;
            let params = request.params.with_path(&["ref", "name"], &Raw::from_serialize(&entry.own_name));
            Ok((entry.upstream.clone(), params.into()))
        }
        "ref/resource" => {
            let uri = string_member(&reference, "uri")?;
            let owner = view.resource(&uri);
            let (upstream, own) =
                owner.ok_or_else(|| CallError::invalid_params(format!("unknown resource {uri}")))?;
            Ok((upstream, request.params.with_path(&["ref", "uri"], &Raw::from_serialize(&own)).into()))
        }
        other => Err(CallError::invalid_params(format!("`ref.type` {other:?} is not known"))),
    }
}

fn list(shared: &Arc<Shared>, kind: ListKind, request: Request) -> BoxFuture<Answer> {
    let shared = shared.clone();
    Box::pin(async move {
        shared.wait_for_first_list(&request.origin).await;
        let cursor = match request.params.member("cursor").filter(|cursor| !cursor.is_null()) {
            Some(_) => Some(string_member(&request.params, "cursor")?),
            None => None,
        };
        let snapshot = shared.catalog.snapshot();
        let view = view(&snapshot, &request)?;
        if let Some(alone) = &view.alone
            && !view.is_hub
            && alone.definitions().is_none()
        {
            alone.link().await?;
        }
        let page = view.page(kind, request.origin.revision, cursor.as_deref(), || greet::result_meta(view));
        let page = page.ok_or_else(|| {
            CallError::invalid_params("this cursor is not valid any more; list from the start")
        })?;
        Ok(AnswerBody::Whole(page, request.origin.revision))
    })
}

async fn discover(shared: Arc<Shared>, request: Request) -> Answer {
    let snapshot = shared.catalog.snapshot();
    let view = view(&snapshot, &request)?;
    let Some(alone) = view.alone.as_ref().filter(|_| !view.is_hub) else {
        return Ok(AnswerBody::ours(greet::discover(view, &request.origin)));
    };
    let greeting = match alone.definitions() {
        Some(definitions) => definitions.greeting.clone(),
        None => alone.link().await?.greeting().clone(),
    };
    let (result, revision) = bridge::greeting_for(&request.origin, &greeting);
    Ok(AnswerBody::Whole(result, revision))
}

fn task(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    match task_target(snapshot, &request) {
        Ok((upstream, params, edits)) => send(Request { params, ..request }, peer, upstream, None, edits),
        Err(error) => refuse(error),
    }
}

fn task_target(snapshot: &Snapshot, request: &Request) -> Result<(Arc<Upstream>, Params, Edits), CallError> {
    let view = view(snapshot, request)?;
    if let Some(alone) = &view.alone {
        return Ok((alone.clone(), request.params.clone(), Edits::default()));
    }
    if !bridge::has_inbox(&request.origin) && !tasks::declared(&request.origin) {
        return Err(tasks::undeclared());
    }
    let shown = string_member(&request.params, "taskId")?;
    let found = tasks::own(&shown).and_then(|(id, own)| Some((view.upstream(id)?.clone(), own)));
    let (upstream, own) =
        found.ok_or_else(|| CallError::invalid_params(format!("unknown task {shown:?}")))?;
    let params = request.params.with("taskId", &Raw::from_serialize(&own));
    let edits = edits(request, &upstream, ResultKind::ToolResult);
    Ok((upstream, params.into(), Edits { tasks: true, ..edits }))
}

/// What we do not know passes where one upstream is seen alone: it may know.
fn pass_unknown(snapshot: &Snapshot, request: Request, peer: Peer) -> BoxFuture<Answer> {
    let alone = view(snapshot, &request).map(|view| view.alone.clone());
    match alone {
        Ok(Some(upstream)) => send(request, peer, upstream, None, Edits::default()),
        Ok(None) => refuse(CallError::unknown_method(request.method.as_str())),
        Err(error) => refuse(error),
    }
}

/// Whether a failed call of this method is told as the result of a tool rather than as an error.
pub(crate) fn fails_as_result(method: &Method) -> bool {
    *method == Method::TOOLS_CALL
}
