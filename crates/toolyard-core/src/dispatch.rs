//! One table: what each method means, and which upstream it goes to.

mod other;
mod resolve;

use std::ops::Range;
use std::sync::{Arc, Weak};

use toolyard_model::{Answer, BoxFuture, Peer, Request};
use toolyard_proto::modern::UI_EXTENSION;
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Params, era};

use crate::call::{Call, Edits, Trace};
use crate::catalog::{Entry, ListKind, Snapshot, ViewCatalog, ViewEntry};
use crate::gateway::Shared;
use crate::listen::listen;
use crate::pipeline::Chain;
use crate::upstream::Upstream;
use crate::{bridge, hub, lean, tasks};
use other::{discover, list};
use resolve::{is_of, unknown};

/// The destination of a request.
pub(crate) enum Dispatched {
    /// To an upstream.
    Call(Box<RoutedCall>),
    /// The gateway answers it itself.
    Own(Request, BoxFuture<Answer>),
    Refused(Box<Request>, CallError),
    /// Known only after waiting for upstreams.
    Deferred(BoxFuture<Dispatched>),
}

/// A call and the steps that it passes.
pub(crate) struct RoutedCall {
    pub(crate) call: Call,
    pub(crate) chain: Chain,
}

pub(crate) fn dispatch(shared: &Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    let snapshot = shared.catalog.snapshot();
    let resolver = Resolver { shared, snapshot: &snapshot };
    let request = match unwrap_call_tool(&snapshot, request) {
        Ok(request) => request,
        Err((request, error)) => return refuse(*request, error),
    };
    match request.method.as_str() {
        "tools/call" if may_appear_soon(shared, &snapshot, &request) => {
            Dispatched::Deferred(Box::pin(call_late(shared.clone(), request, peer)))
        }
        "tools/call" => resolver.call_tool(request, peer),
        removed if era::is_removed(&request.method) && !bridge::has_inbox(&request.origin) => {
            let error = CallError::unknown_method(removed);
            Dispatched::Refused(Box::new(request), error)
        }
        "tools/list" => own(request, |request| list(shared, ListKind::Tools, request)),
        "resources/list" => own(request, |request| list(shared, ListKind::Resources, request)),
        "resources/templates/list" => own(request, |request| list(shared, ListKind::Templates, request)),
        "prompts/list" => own(request, |request| list(shared, ListKind::Prompts, request)),
        "prompts/get" => resolver.get_prompt(request, peer),
        "resources/read" => resolver.read_resource(request, peer),
        "completion/complete" => resolver.complete(request, peer),
        "skills/list" => Dispatched::Deferred(Box::pin(list_skills(shared.clone(), request, peer))),
        "skills/get" => resolver.to_owner(request, peer, ResultKind::SkillResult),
        "resources/directory/read" => resolver.to_owner(request, peer, ResultKind::DirectoryResult),
        "server/discover" => own(request, |request| Box::pin(discover(shared.clone(), request))),
        "subscriptions/listen" => {
            let listeners = shared.listeners.clone();
            let catalog = shared.catalog.clone();
            own(request, |request| Box::pin(listen(listeners, catalog, shared.scope.clone(), request, peer)))
        }
        "logging/setLevel" => {
            own(request, |request| Box::pin(crate::levels::set_level(shared.clone(), request)))
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => resolver.task(request, peer),
        _ => resolver.pass_unknown(request, peer),
    }
}

/// A call of `call_tool` in a lean view is a call of the tool that it names.
fn unwrap_call_tool(snapshot: &Snapshot, request: Request) -> Result<Request, (Box<Request>, CallError)> {
    match lean::resolve_call_tool(snapshot, &request).filter(|_| request.method.as_str() == "tools/call") {
        None => Ok(request),
        Some(Ok(inner)) => Ok(inner),
        Some(Err(error)) => Err((Box::new(request), error)),
    }
}

fn own(request: Request, answer: impl FnOnce(Request) -> BoxFuture<Answer>) -> Dispatched {
    let answering = answer(request.clone());
    Dispatched::Own(request, answering)
}

/// Whether the call may name a tool or an instance that is not in the snapshot yet.
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
    view.tool(&name).is_none_or(|found| hub::is_instances_call(&found.entry) && is_behind())
}

/// If a call names an unlisted tool: the upstream that may offer it and whose lists may be out of date.
fn may_have_more(snapshot: &Snapshot, request: &Request) -> Option<Arc<Upstream>> {
    let name = string_member(&request.params, "name").ok()?;
    let view = view(snapshot, request).ok()?;
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
    let resolver = Resolver { shared: &shared, snapshot: &snapshot };
    let named = resolver.named_tool(&request);
    resolver.call_named(request, peer, named)
}

/// Waits for the tool or instance that a call names, as a list does right after the start.
async fn call_late(shared: Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    shared.wait_for_first_list(&request.origin).await;
    if shared.catalog.has_newer_rules(&shared.catalog.snapshot()) {
        shared.catalog.caught_up().await;
    }
    let snapshot = shared.catalog.snapshot();
    Resolver { shared: &shared, snapshot: &snapshot }.call_tool(request, peer)
}

/// The position (file and line) of the rule that hides the tool or prompt of this request.
pub(crate) fn hidden_by(shared: &Shared, request: &Request) -> Option<String> {
    let snapshot = shared.catalog.snapshot();
    let name = string_member(&request.params, "name").ok()?;
    let view = view(&snapshot, request).ok()?;
    let found = match request.method.as_str() {
        "tools/call" => view.tool(&name).or_else(|| view.unlisted_tool(&name)),
        "prompts/get" => view.prompt(&name),
        _ => None,
    };
    snapshot.rules().steps.hidden_by(&request.origin, &found?.entry)
}

/// Lists the skills. Right after the start, it waits for the upstreams, as the other lists do.
async fn list_skills(shared: Arc<Shared>, request: Request, peer: Peer) -> Dispatched {
    shared.wait_for_first_list(&request.origin).await;
    let snapshot = shared.catalog.snapshot();
    Resolver { shared: &shared, snapshot: &snapshot }.list_skills(request, peer)
}

/// Whether the client shows the pages of tools; such pages call tools themselves.
fn shows_apps(request: &Request) -> bool {
    request.origin.capabilities.at(&["extensions", UI_EXTENSION]).is_some()
}

/// The catalog and the state against which requests are resolved.
#[derive(Clone, Copy)]
struct Resolver<'a> {
    shared: &'a Arc<Shared>,
    snapshot: &'a Snapshot,
}

impl<'a> Resolver<'a> {
    fn view(self, request: &Request) -> Result<&'a Arc<ViewCatalog>, CallError> {
        view(self.snapshot, request)
    }

    /// Whether the rules hide the entry from this client.
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
                Dispatched::Deferred(Box::pin(call))
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
            Ok(named) if hub::is_instances_call(&named.found.entry) => {
                self.call_instance(request, peer, &named)
            }
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
        match hub::resolve_instances_call(self.snapshot, &request) {
            Ok(hub::InstanceCall { request, found }) => {
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

    /// Sends a call of a tool or prompt to its upstream, under the upstream's own name and through the entry's chain.
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

    /// Sends a request that names neither a tool nor a prompt, through the upstream's default chain in this view.
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
        let round = self.shared.common.ledger.rounds.of(&params);
        let parent_call = parent.as_ref().map(|parent| parent.call);
        let trace = Trace { round, parent: parent_call, ..Trace::new(number) };
        let call = Call {
            origin,
            upstream,
            entry,
            id,
            method,
            params,
            headers,
            relay,
            needs_whole: false,
            peer,
            edits,
            deadline: None,
            approval: None,
            trace,
            open: None,
            parent,
            fallbacks: 0,
            place_reports: 0,
            permits: Weak::new(),
        };
        Dispatched::Call(Box::new(RoutedCall { call, chain }))
    }
}

/// The replacements in the answer of a namespaced view: URIs if the upstream has resources, and task ids if the client
/// can receive them.
fn edits(request: &Request, upstream: &Upstream, kind: ResultKind) -> Edits {
    let has_resources = upstream.definitions().is_some_and(|definitions| definitions.has_resources());
    let has_inbox = bridge::has_inbox(&request.origin);
    let tasks = tasks::declared(&request.origin) || has_inbox && request.params.member("task").is_some();
    Edits { uris: has_resources.then_some(kind), tasks }
}

fn refuse(request: Request, error: CallError) -> Dispatched {
    Dispatched::Refused(Box::new(request), error)
}

fn view<'a>(snapshot: &'a Snapshot, request: &Request) -> Result<&'a Arc<ViewCatalog>, CallError> {
    snapshot.seen_by(&request.origin).ok_or_else(|| CallError::invalid_params("there is no such view"))
}

fn string_member(params: &Params, key: &str) -> Result<String, CallError> {
    let text = params.slice(member(params, key)?).as_string();
    text.ok_or_else(|| must_be_string(key))
}

/// The position of a member that decides where a request goes. It must occur only once: of two members with the same
/// key, the upstream might read the other one.
fn member(params: &Params, key: &str) -> Result<Range<usize>, CallError> {
    let found = params.find_once(key);
    found
        .map_err(|_| CallError::invalid_params(format!("duplicate `{key}` in `params`")))?
        .ok_or_else(|| must_be_string(key))
}

fn must_be_string(key: &str) -> CallError {
    CallError::invalid_params(format!("`params.{key}` must be a string"))
}

/// The entry that a request names.
struct Named {
    found: ViewEntry,
    /// The position of the name in the parameters, if it is not the upstream's own.
    renamed_at: Option<Range<usize>>,
    /// Whether the answer goes to a view of several upstreams.
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
