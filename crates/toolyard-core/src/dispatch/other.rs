//! Requests other than calls of tools and prompts: resources, skills, completion, tasks, lists and `server/discover`.

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, PrincipalId, Request};
use toolyard_policy::rules::Kind;
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Params, Raw};

use super::resolve::{complete_target, task_target, unknown_resource, unknown_skill, without_instance};
use super::{Dispatched, Resolver, own, refuse, string_member, view};
use crate::call::Edits;
use crate::catalog::ListKind;
use crate::gateway::Shared;
use crate::upstream::Upstream;
use crate::{bridge, greet, skills};

impl Resolver<'_> {
    pub(super) fn read_resource(self, request: Request, peer: Peer) -> Dispatched {
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
    pub(super) fn list_skills(self, request: Request, peer: Peer) -> Dispatched {
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
    pub(super) fn to_owner(self, request: Request, peer: Peer, kind: ResultKind) -> Dispatched {
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
    pub(super) fn complete(self, request: Request, peer: Peer) -> Dispatched {
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
    pub(super) fn may_complete(
        self,
        request: &Request,
        upstream: &Upstream,
        params: &Params,
    ) -> Result<(), CallError> {
        let seen = self.snapshot.rules().steps.visibility(&request.origin);
        let text = |key: &str| params.at(&["ref", key]).and_then(|value| value.as_string());
        let name = text("name");
        let uri = text("uri");
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

    pub(super) fn task(self, request: Request, peer: Peer) -> Dispatched {
        match task_target(self.snapshot, &request) {
            Ok((upstream, params, edits)) => {
                self.to_upstream(Request { params, ..request }, peer, upstream, edits)
            }
            Err(error) => refuse(request, error),
        }
    }

    /// An unknown method passes in views of one upstream, which may know it.
    pub(super) fn pass_unknown(self, request: Request, peer: Peer) -> Dispatched {
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

pub(super) fn list(shared: &Arc<Shared>, kind: ListKind, request: Request) -> BoxFuture<Answer> {
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

pub(super) async fn discover(shared: Arc<Shared>, request: Request) -> Answer {
    let snapshot = shared.catalog.snapshot();
    let view = view(&snapshot, &request)?;
    let Some(alone) = view.alone.as_ref().filter(|_| !view.is_hub) else {
        return Ok(AnswerBody::ours(greet::discover(view, &request.origin)));
    };
    let greeting = alone.greeting_for(&request.origin).await?;
    let (result, revision) = bridge::greeting_for(&request.origin, &greeting);
    Ok(AnswerBody::Whole(result, revision))
}
