//! One table: what each method means, and which upstream it goes to.

use std::ops::Range;
use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, PrincipalId, Request};
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Params, Raw, Reason};

use crate::call::{Call, Edits, Trace};
use crate::catalog::{Entry, ListKind, Snapshot, ViewCatalog, ViewEntry};
use crate::gateway::Shared;
use crate::listen::listen;
use crate::pipeline::Chain;
use crate::upstream::Upstream;
use crate::{bridge, greet, hub, tasks};

/// Methods that the newest revision removed: they are refused in every view.
const REMOVED: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
    "tasks/list",
];

/// Where a request goes.
pub(crate) enum Dispatched {
    /// To an upstream.
    Call(Box<Routed>),
    /// The gateway answers it itself.
    Own(Request, BoxFuture<Answer>),
    Refused(Box<Request>, CallError),
    /// Not known before upstreams have been waited for.
    Later(BoxFuture<Dispatched>),
}

/// A call and the steps that it passes.
pub(crate) struct Routed {
    pub(crate) call: Call,
    pub(crate) chain: Chain,
}

pub(crate) fn dispatch(shared: &Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    let snapshot = shared.catalog.snapshot();
    let at = At { shared, snapshot: &snapshot };
    match request.method.as_str() {
        "tools/call" if is_unheard_of(shared, &snapshot, &request) => {
            Dispatched::Later(Box::pin(call_late(shared.clone(), request, peer)))
        }
        "tools/call" => at.call_tool(request, peer),
        removed if REMOVED.contains(&removed) && !bridge::has_inbox(&request.origin) => {
            let error = CallError::unknown_method(removed);
            Dispatched::Refused(Box::new(request), error)
        }
        "tools/list" => own(request, |request| list(shared, ListKind::Tools, request)),
        "resources/list" => own(request, |request| list(shared, ListKind::Resources, request)),
        "resources/templates/list" => own(request, |request| list(shared, ListKind::Templates, request)),
        "prompts/list" => own(request, |request| list(shared, ListKind::Prompts, request)),
        "prompts/get" => at.get_prompt(request, peer),
        "resources/read" => at.read_resource(request, peer),
        "completion/complete" => at.complete(request, peer),
        "server/discover" => own(request, |request| Box::pin(discover(shared.clone(), request))),
        "subscriptions/listen" => {
            let (listeners, catalog) = (shared.listeners.clone(), shared.catalog.clone());
            own(request, |request| Box::pin(listen(listeners, catalog, shared.scope.clone(), request, peer)))
        }
        "logging/setLevel" => {
            own(request, |request| Box::pin(crate::levels::set_level(shared.clone(), request)))
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => at.task(request, peer),
        _ => at.pass_unknown(request, peer),
    }
}

fn own(request: Request, answer: impl FnOnce(Request) -> BoxFuture<Answer>) -> Dispatched {
    let answering = answer(request.clone());
    Dispatched::Own(request, answering)
}

fn view<'a>(snapshot: &'a Snapshot, request: &Request) -> Result<&'a Arc<ViewCatalog>, CallError> {
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
        .map_err(|_| CallError::invalid_params(format!("duplicate `{key}` in `params`")))?
        .ok_or_else(|| must_be_string(key))
}

fn must_be_string(key: &str) -> CallError {
    CallError::invalid_params(format!("`params.{key}` must be a string"))
}

/// Whether the call may be of a tool or instance that the snapshot does not show yet.
fn is_unheard_of(shared: &Shared, snapshot: &Snapshot, request: &Request) -> bool {
    let catalog = &shared.catalog;
    let is_behind =
        || catalog.has_newer_rules(snapshot) || catalog.awaits_instance(snapshot, &request.origin);
    if snapshot.settled && !is_behind() {
        return false;
    }
    let (Ok(name), Ok(view)) = (string_member(&request.params, "name"), view(snapshot, request)) else {
        return false;
    };
    view.tool(&name).is_none_or(|found| hub::leads_on(&found.entry) && is_behind())
}

/// The upstream whose lists may be out of date, where a call names a tool that is not in them.
fn may_have_more(snapshot: &Snapshot, request: &Request) -> Option<Arc<Upstream>> {
    let (name, view) = (string_member(&request.params, "name").ok()?, view(snapshot, request).ok()?);
    let is_meant = |upstream: &&Arc<Upstream>| match &view.alone {
        Some(alone) => Arc::ptr_eq(alone, upstream),
        None => is_of(&name, upstream),
    };
    let upstream = view.upstreams().find(is_meant)?;
    let is_left_out = view.why_left_out(&name).is_some();
    (!is_left_out && upstream.life.may_be_outdated()).then(|| upstream.clone())
}

/// Reads the lists of an upstream again before a call of a tool that is not in them is refused.
async fn call_after_reading(
    shared: Arc<Shared>,
    upstream: Arc<Upstream>,
    request: Request,
    peer: Peer,
) -> Dispatched {
    if upstream.read_again().await {
        shared.catalog.show(&upstream).await;
    }
    let snapshot = shared.catalog.snapshot();
    let at = At { shared: &shared, snapshot: &snapshot };
    let named = at.named_tool(&request);
    at.call_named(request, peer, named)
}

/// Such a call waits for what it names, as a list does right after the start.
async fn call_late(shared: Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    shared.wait_for_first_list(&request.origin).await;
    if shared.catalog.has_newer_rules(&shared.catalog.snapshot()) {
        shared.catalog.caught_up().await;
    }
    let snapshot = shared.catalog.snapshot();
    At { shared: &shared, snapshot: &snapshot }.call_tool(request, peer)
}

/// What requests are resolved against.
#[derive(Clone, Copy)]
struct At<'a> {
    shared: &'a Arc<Shared>,
    snapshot: &'a Snapshot,
}

impl<'a> At<'a> {
    fn view(self, request: &Request) -> Result<&'a Arc<ViewCatalog>, CallError> {
        view(self.snapshot, request)
    }

    /// Whether the rules make something seem not to exist.
    fn hides(self, request: &Request, entry: &Entry) -> bool {
        self.snapshot.rules().steps.hides(&request.origin, entry)
    }

    fn call_tool(self, request: Request, peer: Peer) -> Dispatched {
        let named = self.named_tool(&request);
        let outdated = named.as_ref().err().and_then(|_| may_have_more(self.snapshot, &request));
        match outdated {
            None => self.call_named(request, peer, named),
            Some(upstream) => {
                let call = call_after_reading(self.shared.clone(), upstream, request, peer);
                Dispatched::Later(Box::pin(call))
            }
        }
    }

    fn named_tool(self, request: &Request) -> Result<Named, CallError> {
        named_entry(self.snapshot, request, |view, name| {
            let found = view.tool(name).or_else(|| view.unlisted_tool(name));
            let found = found.filter(|found| !self.hides(request, &found.entry));
            found.ok_or_else(|| unknown(self.snapshot, request, view, "tool", name))
        })
    }

    fn call_named(self, request: Request, peer: Peer, named: Result<Named, CallError>) -> Dispatched {
        match named {
            Ok(named) if hub::leads_on(&named.found.entry) => self.call_instance(request, peer, &named),
            Ok(named) => self.to_entry(request, peer, named, ResultKind::ToolResult),
            Err(error) => refuse(request, error),
        }
    }

    /// `instances_call` names a tool in its arguments: that tool is called, in the way that it always is.
    fn call_instance(self, request: Request, peer: Peer, outer: &Named) -> Dispatched {
        if request.relay
            && let Err(error) = outer.found.entry.headers().check(request.headers.as_deref(), &request.params)
        {
            return refuse(request, error);
        }
        match hub::lead(self.snapshot, &request) {
            Ok(hub::Led { request, found }) => {
                let named = Named { found, renamed_at: None, is_namespaced: outer.is_namespaced };
                self.to_entry(request, peer, named, ResultKind::ToolResult)
            }
            Err(error) => refuse(request, error),
        }
    }

    fn get_prompt(self, request: Request, peer: Peer) -> Dispatched {
        let named = named_entry(self.snapshot, &request, |view, name| {
            let found = view.prompt(name).filter(|found| !self.hides(&request, &found.entry));
            found.ok_or_else(|| unknown(self.snapshot, &request, view, "prompt", name))
        });
        match named {
            Ok(named) => self.to_entry(request, peer, named, ResultKind::PromptResult),
            Err(error) => refuse(request, error),
        }
    }

    /// A call of a tool or prompt: under its own name to its upstream, through the entry's chain.
    fn to_entry(self, mut request: Request, peer: Peer, named: Named, kind: ResultKind) -> Dispatched {
        let Named { found: ViewEntry { entry, chain }, renamed_at, is_namespaced } = named;
        if let Some(parent) = &request.parent
            && let Some(why) = parent.refusal(entry.upstream.name(), &entry.own_name)
        {
            return refuse(request, CallError::invalid_params(why));
        }
        if request.relay {
            if let Err(error) = entry.headers().check(request.headers.as_deref(), &request.params) {
                return refuse(request, error.at(entry.upstream.name()));
            }
        } else if request.headers.is_none() {
            request.headers = entry.headers().made(&request.params);
        }
        let upstream = entry.upstream.clone();
        let edits = if is_namespaced { edits(&request, &upstream, kind) } else { Edits::default() };
        if let Some(range) = renamed_at {
            request.params = request.params.replaced(range, entry.own_name_raw.as_bytes());
        }
        self.send(request, peer, upstream, Some(entry), edits, chain)
    }

    /// A request that names neither tool nor prompt, through the upstream's default chain in this view.
    fn to_upstream(self, request: Request, peer: Peer, upstream: Arc<Upstream>, edits: Edits) -> Dispatched {
        match self.view(&request) {
            Ok(view) => {
                let chain = view.default_chain(&upstream);
                self.send(request, peer, upstream, None, edits, chain)
            }
            Err(error) => refuse(request, error),
        }
    }

    fn send(
        self,
        request: Request,
        peer: Peer,
        upstream: Arc<Upstream>,
        entry: Option<Arc<Entry>>,
        edits: Edits,
        chain: Chain,
    ) -> Dispatched {
        let Request { origin, id, method, params, headers, relay, parent, .. } = request;
        let number = self.shared.common.ledger.next_call();
        let trace = Trace { parent: parent.as_ref().map(|parent| parent.call), ..Trace::new(number) };
        let (needs_whole, deadline) = (false, None);
        let call = Call {
            origin,
            upstream,
            entry,
            id,
            method,
            params,
            headers,
            relay,
            needs_whole,
            peer,
            edits,
            deadline,
            approval: None,
            trace,
            open: None,
            parent,
            fallbacks: 0,
        };
        Dispatched::Call(Box::new(Routed { call, chain }))
    }

    fn read_resource(self, request: Request, peer: Peer) -> Dispatched {
        let found = string_member(&request.params, "uri").and_then(|uri| {
            let view = self.view(&request)?;
            let owner = view.resource(&uri).ok_or_else(|| {
                let unknown = format!("unknown resource {uri}; `resources/list` lists the resources");
                let absent = without_instance(self.snapshot, &request, view);
                absent.unwrap_or_else(|| CallError::invalid_params(unknown))
            })?;
            Ok((owner, view.is_namespaced()))
        });
        match found {
            Ok(((upstream, own), true)) => {
                let params = request.params.with("uri", &Raw::from_serialize(&own)).into();
                let edits = Edits { uris: Some(ResultKind::ReadResult), tasks: false };
                self.to_upstream(Request { params, ..request }, peer, upstream, edits)
            }
            Ok(((upstream, _), false)) => self.to_upstream(request, peer, upstream, Edits::default()),
            Err(error) => refuse(request, error),
        }
    }

    /// Completion names a prompt or a resource template; either has an owner.
    fn complete(self, request: Request, peer: Peer) -> Dispatched {
        match complete_target(self.snapshot, &request) {
            Ok((upstream, params)) => {
                self.to_upstream(Request { params, ..request }, peer, upstream, Edits::default())
            }
            Err(error) => refuse(request, error),
        }
    }

    fn task(self, request: Request, peer: Peer) -> Dispatched {
        match task_target(self.snapshot, &request) {
            Ok((upstream, params, edits)) => {
                self.to_upstream(Request { params, ..request }, peer, upstream, edits)
            }
            Err(error) => refuse(request, error),
        }
    }

    /// An unknown method passes in views of one upstream, which may know it.
    fn pass_unknown(self, request: Request, peer: Peer) -> Dispatched {
        let alone = self.view(&request).map(|view| view.alone.clone());
        match alone {
            Ok(Some(upstream)) => self.to_upstream(request, peer, upstream, Edits::default()),
            Ok(None) => {
                let error = CallError::unknown_method(request.method.as_str());
                refuse(request, error)
            }
            Err(error) => refuse(request, error),
        }
    }
}

fn refuse(request: Request, error: CallError) -> Dispatched {
    Dispatched::Refused(Box::new(request), error)
}

/// What a request names.
struct Named {
    found: ViewEntry,
    /// Where the name is in the parameters, if it is not the upstream's own.
    renamed_at: Option<Range<usize>>,
    /// Whether the answer is seen in a view of many upstreams.
    is_namespaced: bool,
}

fn named_entry<'a>(
    snapshot: &'a Snapshot,
    request: &Request,
    look_up: impl FnOnce(&'a ViewCatalog, &str) -> Result<ViewEntry, CallError>,
) -> Result<Named, CallError> {
    let at = member(&request.params, "name")?;
    let raw = request.params.slice(at.clone());
    let name = raw.text().ok_or_else(|| must_be_string("name"))?;
    let view = view(snapshot, request)?;
    let found = look_up(view, &name)?;
    let renamed_at = (view.is_namespaced() || *name != found.entry.own_name).then_some(at);
    Ok(Named { found, renamed_at, is_namespaced: view.is_namespaced() })
}

fn unknown(snapshot: &Snapshot, request: &Request, view: &ViewCatalog, what: &str, name: &str) -> CallError {
    if let Some(error) = without_instance(snapshot, request, view) {
        return error;
    }
    if let Some(reason) = view.why_left_out(name) {
        return CallError::invalid_params(format!("{what} `{name}` is not shown: {reason}"));
    }
    if let Some(why) = unheard(snapshot, view, name) {
        return CallError::invalid_params(format!("unknown {what} `{name}`: {why}"));
    }
    CallError::invalid_params(format!("unknown {what} `{name}`; `{what}s/list` shows what there is"))
}

/// Whether a name in a view of many upstreams seems to be one of this upstream's.
fn is_of(name: &str, upstream: &Upstream) -> bool {
    let rest = name.strip_prefix(upstream.id().as_str());
    rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with(':'))
}

/// What is known of the upstream that a name seems to speak of, where that one has never said what it offers.
/// Only a word about what went wrong: nothing is called by it.
fn unheard(snapshot: &Snapshot, view: &ViewCatalog, name: &str) -> Option<Reason> {
    let is_meant = |upstream: &&Arc<Upstream>| {
        let is_named = is_of(name, upstream);
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

fn edits(request: &Request, upstream: &Upstream, kind: ResultKind) -> Edits {
    let has_resources = upstream.definitions().is_some_and(|definitions| definitions.has_resources());
    let may_be_older = bridge::has_inbox(&request.origin);
    let tasks = tasks::declared(&request.origin) || may_be_older && request.params.member("task").is_some();
    Edits { uris: has_resources.then_some(kind), tasks }
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
            let params =
                request.params.with_path(&["ref", "name"], &Raw::from_serialize(&entry.entry.own_name));
            Ok((entry.entry.upstream.clone(), params.into()))
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
        let revision = request.origin.revision;
        let is_local = *request.origin.principal.id() == PrincipalId::Local;
        let seen = snapshot.rules().steps.visibility(&request.origin);
        let seen = if is_local { seen } else { seen.private() };
        let page = view.clone().page(kind, revision, cursor.as_deref(), &seen, greet::result_meta).await;
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
    let greeting = alone.greeting_for(&request.origin).await?;
    let (result, revision) = bridge::greeting_for(&request.origin, &greeting);
    Ok(AnswerBody::Whole(result, revision))
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
