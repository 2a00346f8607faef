//! One table: what each method means, and which upstream it goes to.

mod resolve;

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, PrincipalId, Request};
use toolyard_policy::rules::Kind;
use toolyard_proto::modern::UI_EXTENSION;
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Params, Raw, era};

use crate::call::{Call, Edits, Trace};
use crate::catalog::{Entry, ListKind, Snapshot, ViewCatalog, ViewEntry};
use crate::gateway::Shared;
use crate::listen::listen;
use crate::pipeline::Chain;
use crate::upstream::Upstream;
use crate::{bridge, greet, hub, lean, skills};
use resolve::{
    Named, complete_target, edits, is_of, named_entry, string_member, task_target, unknown, unknown_resource,
    unknown_skill, view, without_instance,
};

/// Where a request goes.
pub(crate) enum Dispatched {
    /// To an upstream.
    Call(Box<Routed>),
    /// The gateway answers it itself.
    Own(Request, BoxFuture<Answer>),
    Refused(Box<Request>, CallError),
    /// Unknown until upstreams have been waited for.
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
    let request = match lead(&snapshot, request) {
        Ok(request) => request,
        Err((request, error)) => return refuse(*request, error),
    };
    match request.method.as_str() {
        "tools/call" if may_appear_soon(shared, &snapshot, &request) => {
            Dispatched::Later(Box::pin(call_late(shared.clone(), request, peer)))
        }
        "tools/call" => at.call_tool(request, peer),
        removed if era::is_removed(&request.method) && !bridge::has_inbox(&request.origin) => {
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
        "skills/list" => Dispatched::Later(Box::pin(list_skills(shared.clone(), request, peer))),
        "skills/get" => at.to_owner(request, peer, ResultKind::SkillResult),
        "resources/directory/read" => at.to_owner(request, peer, ResultKind::DirectoryResult),
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

/// A call of `call_tool` in a lean view is a call of the tool that it names.
fn lead(snapshot: &Snapshot, request: Request) -> Result<Request, (Box<Request>, CallError)> {
    match lean::lead(snapshot, &request).filter(|_| request.method.as_str() == "tools/call") {
        None => Ok(request),
        Some(Ok(inner)) => Ok(inner),
        Some(Err(error)) => Err((Box::new(request), error)),
    }
}

fn own(request: Request, answer: impl FnOnce(Request) -> BoxFuture<Answer>) -> Dispatched {
    let answering = answer(request.clone());
    Dispatched::Own(request, answering)
}

/// Whether the call may be of a tool or instance that the snapshot does not show yet.
fn may_appear_soon(shared: &Shared, snapshot: &Snapshot, request: &Request) -> bool {
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

/// Waits for the tool or instance that a call names, as a list does right after the start.
async fn call_late(shared: Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    shared.wait_for_first_list(&request.origin).await;
    if shared.catalog.has_newer_rules(&shared.catalog.snapshot()) {
        shared.catalog.caught_up().await;
    }
    let snapshot = shared.catalog.snapshot();
    At { shared: &shared, snapshot: &snapshot }.call_tool(request, peer)
}

/// Where the rule is written that makes what a request names seem not to exist.
pub(crate) fn hidden_by(shared: &Shared, request: &Request) -> Option<String> {
    let snapshot = shared.catalog.snapshot();
    let (name, view) = (string_member(&request.params, "name").ok()?, view(&snapshot, request).ok()?);
    let found = match request.method.as_str() {
        "tools/call" => view.tool(&name).or_else(|| view.unlisted_tool(&name)),
        "prompts/get" => view.prompt(&name),
        _ => None,
    };
    snapshot.rules().steps.hidden_by(&request.origin, &found?.entry)
}

/// Right after the start, the list waits for what upstreams offer, as the others do.
async fn list_skills(shared: Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    shared.wait_for_first_list(&request.origin).await;
    let snapshot = shared.catalog.snapshot();
    At { shared: &shared, snapshot: &snapshot }.list_skills(request, peer)
}

/// Whether the client shows pages of tools, which call tools.
fn shows_apps(request: &Request) -> bool {
    request.origin.capabilities.at(&["extensions", UI_EXTENSION]).is_some()
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
            // The page of an app knows only its server's own tool names, and its host calls tools for it.
            let found = found.or_else(|| shows_apps(request).then(|| view.tool_by_own_name(name)).flatten());
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

    /// `instances_call` names a tool in its arguments: that tool is called, with its own steps.
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
                let absent = without_instance(self.snapshot, &request, view);
                absent.unwrap_or_else(|| unknown_resource(&uri))
            })?;
            let (upstream, own) = &owner;
            if self.snapshot.rules().steps.hides_resource(&request.origin, upstream, own) {
                return Err(unknown_resource(&uri));
            }
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

    /// The skills of all upstreams of the view. A view of one upstream passes the request on.
    fn list_skills(self, request: Request, peer: Peer) -> Dispatched {
        let view = match self.view(&request) {
            Ok(view) if view.alone.is_none() => view,
            _ => return self.pass_unknown(request, peer),
        };
        if request.params.member("cursor").is_some_and(|cursor| !cursor.is_null()) {
            let why = "this cursor is not valid any more; list from the start";
            return refuse(request, CallError::invalid_params(why));
        }
        let mut calls = Vec::new();
        for upstream in skills::upstreams(view) {
            let chain = view.default_chain(&upstream);
            let sent = self.send(request.clone(), Peer::none(), upstream, None, Edits::default(), chain);
            if let Dispatched::Call(routed) = sent {
                calls.push(*routed);
            }
        }
        let steps = self.snapshot.rules().steps.clone();
        own(request, |request| Box::pin(skills::list(steps, request.origin, calls)))
    }

    /// A request about a skill or a directory, which the upstream behind its URI answers.
    fn to_owner(self, request: Request, peer: Peer, kind: ResultKind) -> Dispatched {
        let found = string_member(&request.params, "uri").and_then(|uri| {
            let view = self.view(&request)?;
            if view.alone.is_some() {
                return Ok(None);
            }
            let steps = &self.snapshot.rules().steps;
            let owner = view.resource(&uri).filter(|(upstream, own)| {
                skills::serves(upstream) && !steps.hides_resource(&request.origin, upstream, own)
            });
            owner.map(Some).ok_or_else(|| unknown_skill(&uri))
        });
        match found {
            Ok(Some((upstream, own))) => {
                let params = request.params.with("uri", &Raw::from_serialize(&own)).into();
                let edits = Edits { uris: Some(kind), tasks: false };
                self.to_upstream(Request { params, relay: false, ..request }, peer, upstream, edits)
            }
            Ok(None) => self.pass_unknown(request, peer),
            Err(error) => refuse(request, error),
        }
    }

    /// Completion names a prompt or a resource template; either has an owner.
    fn complete(self, request: Request, peer: Peer) -> Dispatched {
        let target = complete_target(self.snapshot, &request);
        let target = target.and_then(|(upstream, params)| {
            self.may_complete(&request, &upstream, &params).map(|()| (upstream, params))
        });
        match target {
            Ok((upstream, params)) => {
                self.to_upstream(Request { params, ..request }, peer, upstream, Edits::default())
            }
            Err(error) => refuse(request, error),
        }
    }

    /// Completes arguments only of what the client sees.
    fn may_complete(self, request: &Request, upstream: &Upstream, params: &Params) -> Result<(), CallError> {
        let seen = self.snapshot.rules().steps.visibility(&request.origin);
        let text = |key: &str| params.at(&["ref", key]).and_then(|value| value.as_string());
        let (name, uri) = (text("name"), text("uri"));
        let what = match text("type").as_deref() {
            Some("ref/prompt") => name.map(|name| (Kind::Prompt, name)),
            Some("ref/resource") => uri.map(|uri| (Kind::Resource, uri)),
            _ => None,
        };
        match what {
            Some((kind, name)) if seen.hides_named(kind, upstream, &name) => {
                Err(CallError::invalid_params(format!("unknown {} {name}", kind.as_str())))
            }
            _ => Ok(()),
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
