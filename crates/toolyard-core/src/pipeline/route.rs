//! The end of every chain: takes a live link, sends the call in the upstream's form, and replaces the upstream's names
//! in the answer by those that the client knows.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::poll_immediate;
use memchr::memmem;
use toolyard_model::peer::{unanswerable, unknown_result_type};
use toolyard_model::{Answer, AnswerBody, Link, Origin};
use toolyard_proto::uri::{map_result, to_shown};
use toolyard_proto::{CallError, Fault, Kind, Method, Raw, Retry};

use super::{Call, Edits};
use crate::catalog::{ListKind, param_headers};
use crate::ledger::Mark;
use crate::upstream::state::Phase;
use crate::upstream::task_reviews::reviewed;
use crate::upstream::{Lease, Upstream, can_be_asked};
use crate::{bridge, tasks};

/// Questions are small; larger results are not searched for them.
const LARGEST_QUESTION: usize = 256 * 1024;
const ASKS: &[u8] = b"\"input_required\"";
/// As most servers write it.
const COMPLETE: &[u8] = b"\"resultType\":\"complete\"";

pub(super) async fn route(mut call: Call) -> Answer {
    call.reach(Mark::Passed);
    let mut has_signed_in = false;
    let (in_flight, lease) = loop {
        let in_flight = call.upstream.begin(call.params.len() + call.id.as_bytes().len())?;
        match lease(&call).await {
            Ok(lease) => break (in_flight, Arc::new(lease)),
            Err(error) => match call.upstream.life.successor() {
                // The config has changed since the call arrived: it goes to the upstream that has the name now.
                Some(successor) => call.upstream = successor,
                None if !has_signed_in && call.upstream.state().phase == Phase::SignIn => {
                    has_signed_in = true;
                    Box::pin(sign_in(&call, error)).await?;
                }
                None => return Err(error),
            },
        }
    };
    call.reach(Mark::Leased);
    let reviews = call.upstream.links.task_reviews.of(&call);
    call.needs_whole |= !reviews.is_empty();
    call.peer = lease.watch(call.peer);
    let (edits, open) = (call.edits, call.open.clone());
    let (upstream, origin) = (call.upstream.clone(), call.origin.clone());
    let link = lease.link();
    let may_refuse = !link.is_in_process() && bridge::reports_refusals(link.greeting().revision);
    // Only a call of a known definition can be sent in another way.
    let may_refuse = may_refuse && call.entry.is_some();
    let again = (may_refuse || upstream.connector().may_need_sign_in()).then(|| Box::new(call.clone()));
    let unclear = Unclear::of(&call, &lease);
    let mut answer = send(call, &lease).await;
    // A second attempt takes a lease of its own.
    drop(lease);
    if let Err(error) = &answer
        && about_own_hop(error).is_some()
        && let Some(again) = again.clone().filter(|again| again.entry.is_some())
        && let Some(retried) = Box::pin(send_again(again)).await
    {
        answer = retried;
    } else if let Err(error) = &answer
        && error.kind == Kind::SignIn
        && let Some(again) = again
    {
        answer = Box::pin(send_signed_in(again, error.clone())).await;
    } else if let Some(unclear) = unclear.filter(|unclear| unclear.has_failed(&answer)) {
        answer = Box::pin(send_apart(unclear.call)).await;
    }
    if let Some(open) = open {
        open.reach(Mark::Answered);
    }
    if matches!(&answer, Ok(_) | Err(CallError { kind: Kind::Reported(_), .. })) {
        upstream.life.responded();
    }
    if let Ok(AnswerBody::Whole(result, _)) = &answer
        && let Some(error) =
            unanswerable_question(&origin, result).or_else(|| unknown_result(&origin, result))
    {
        answer = Err(error);
    }
    if let Ok(AnswerBody::Whole(result, _)) = &mut answer
        && !reviews.is_empty()
    {
        *result = Box::pin(reviewed(reviews, result.clone())).await;
    }
    match answer {
        Ok(AnswerBody::Whole(result, revision)) if !edits.none() => {
            Ok(AnswerBody::Whole(edited(&upstream, edits, result), revision))
        }
        Ok(AnswerBody::Stream(mut relay)) => {
            relay.hold(Box::new(in_flight));
            Ok(AnswerBody::Stream(relay))
        }
        Err(error) => {
            if matches!(error.kind, Kind::Unavailable | Kind::Unreachable | Kind::Lost | Kind::SignIn) {
                upstream.life.suspect();
            }
            let error = if edits.uris.is_some() { with_shown_uri(&upstream, error) } else { error };
            Err(name_upstream(own_hop(&upstream, error), upstream.name()))
        }
        answer => answer,
    }
}

/// One exchange with the upstream, as a span of its own where the call is traced.
async fn send(mut call: Call, lease: &Arc<Lease>) -> Answer {
    let traced = call.open.as_ref().filter(|open| open.spans().is_some()).cloned();
    if let Some(open) = &traced {
        call.params = open.begin_send(call.upstream.name(), call.params);
    }
    let answer = bridge::exchange(call, lease).await;
    lease.done();
    // A body that flows on ends with the call.
    if let Some(open) = traced.filter(|_| !matches!(answer, Ok(AnswerBody::Stream(_)))) {
        open.end_send();
    }
    answer
}

/// The error of an upstream that asks a client which has declared that it cannot be asked. Clients that can be sent
/// requests are asked by the bridge, which has checked it.
fn unanswerable_question(origin: &Origin, result: &Raw) -> Option<CallError> {
    let may_ask = result.len() <= LARGEST_QUESTION && memmem::find(result.as_bytes(), ASKS).is_some();
    if !may_ask || bridge::has_inbox(origin) {
        return None;
    }
    let refusal = unanswerable(result, &origin.capabilities)?;
    Some(CallError::bad_answer(format!("it asks, but {refusal}")))
}

/// The error of an upstream whose result is of a kind that the client does not know.
fn unknown_result(origin: &Origin, result: &Raw) -> Option<CallError> {
    if result.len() > LARGEST_QUESTION || memmem::find(result.as_bytes(), COMPLETE).is_some() {
        return None;
    }
    let kind = unknown_result_type(result, &origin.capabilities)?;
    Some(CallError::bad_answer(format!("its result has the unknown type `{kind}`")))
}

/// A link for the call. A call whose time is over before there is one fails with what it waited for.
async fn lease(call: &Call) -> Result<Lease, CallError> {
    let mut leasing = pin!(call.upstream.lease(&call.origin, &call.peer));
    if let Some(lease) = poll_immediate(&mut leasing).await {
        return lease;
    }
    match &call.deadline {
        Some(clock) => tokio::select! {
            biased;
            lease = leasing => lease,
            _ = clock.expired() => Err(call.upstream.waited_in_vain()),
        },
        None => leasing.await,
    }
}

/// A call on a link that clients share. A question in it is refused if calls of several clients are under way, since
/// it may be for any of them.
struct Unclear {
    call: Box<Call>,
    link: Arc<dyn Link>,
}

impl Unclear {
    /// Nothing where that cannot happen, or where it may do harm to carry the call out twice.
    fn of(call: &Call, lease: &Lease) -> Option<Self> {
        let link = lease.link();
        let may_be_refused = link.is_shared()
            && !lease.is_apart()
            && bridge::asks_in_calls(link.greeting().revision)
            && !link.is_interactive()
            && can_be_asked(&call.origin);
        let annotations = call.entry.as_ref().filter(|_| may_be_refused)?.own.member("annotations")?;
        let is = |key: &str| annotations.member(key).is_some_and(|flag| flag.as_bytes() == b"true");
        (is("readOnlyHint") || is("idempotentHint"))
            .then(|| Self { call: Box::new(call.clone()), link: link.clone() })
    }

    /// Whether it failed, and a question was refused meanwhile.
    fn has_failed(&self, answer: &Answer) -> bool {
        self.link.is_interactive()
            && match answer {
                Ok(AnswerBody::Whole(result, _)) => {
                    result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true")
                }
                Ok(AnswerBody::Stream(_)) => false,
                Err(error) => matches!(error.kind, Kind::Reported(_)),
            }
    }
}

/// Sends a call again over a link of the client's own, where its questions are clear.
async fn send_apart(mut call: Box<Call>) -> Answer {
    call.trace.attempt += 1;
    let lease = Arc::new(lease(&call).await?);
    call.peer = lease.watch(call.peer);
    send(*call, &lease).await
}

/// Sends a call again that the upstream refused because of its headers or protocol version, once the upstream's
/// definitions have been read again. The upstream has not carried the call out.
async fn send_again(mut call: Box<Call>) -> Option<Answer> {
    let upstream = call.upstream.clone();
    if !upstream.renewed().await {
        return None;
    }
    call.headers = None;
    call.trace.attempt += 1;
    if let Some(entry) = call.entry.as_ref().filter(|_| call.method == Method::TOOLS_CALL) {
        let definitions = upstream.definitions()?;
        let is_it = |tool: &&Raw| tool.member("name").as_ref() == Some(&entry.own_name_raw);
        let tool = definitions.list(ListKind::Tools).iter().find(is_it)?;
        call.headers = param_headers(tool, &call.params);
    }
    let lease = Arc::new(upstream.lease(&call.origin, &call.peer).await.ok()?);
    Some(send(*call, &lease).await)
}

/// Sends a call again that the upstream refused because the user had not signed in, once the user has. It has not been
/// carried out.
async fn send_signed_in(mut call: Box<Call>, refused: CallError) -> Answer {
    sign_in(&call, refused).await?;
    call.trace.attempt += 1;
    let lease = Arc::new(lease(&call).await?);
    send(*call, &lease).await
}

/// Asks the client's user to sign in. `refused` is the error of a client that cannot be asked.
async fn sign_in(call: &Call, refused: CallError) -> Result<(), CallError> {
    let Some(signing_in) = call.upstream.connector().sign_in(&call.origin, &call.peer) else {
        return Err(refused);
    };
    signing_in.await?;
    call.upstream.try_now().await;
    Ok(())
}

fn edited(upstream: &Upstream, edits: Edits, mut result: Raw) -> Raw {
    let with_shown_uris = |result: &Raw| {
        let mapped = map_result(edits.uris?, upstream.id(), result.as_bytes())?;
        Raw::parse(mapped).ok()
    };
    if let Some(mapped) = with_shown_uris(&result) {
        result = mapped;
    }
    // A finished task's result is nested in its status object.
    if edits.tasks
        && let Some(mapped) = result.member("result").as_ref().and_then(with_shown_uris)
    {
        result = result.with("result", &mapped);
    }
    if edits.tasks { tasks::shown(upstream.id(), &result) } else { result }
}

/// The URI of a resource that an upstream reports as unknown, under the name that the client knows.
fn with_shown_uri(upstream: &Upstream, error: CallError) -> CallError {
    let path = &["data", "uri"];
    match &error.kind {
        Kind::Reported(raw) if let Some(own) = raw.at(path).and_then(|uri| uri.as_string()) => {
            let shown = Raw::from_serialize(&to_shown(upstream.id(), &own));
            let kind = Kind::Reported(raw.with_path(path, &shown));
            error.with_kind(kind)
        }
        _ => error,
    }
}

/// What the upstream refused about the form of the gateway's own request.
fn about_own_hop(error: &CallError) -> Option<&'static str> {
    match &error.kind {
        Kind::HeaderMismatch if error.origin == Fault::Upstream => Some("different headers"),
        Kind::UnsupportedVersion { .. } if error.origin == Fault::Upstream => {
            Some("a different protocol version")
        }
        _ => None,
    }
}

/// A refusal of the gateway's own request form is for the gateway to fix; the client can only retry.
fn own_hop(upstream: &Upstream, error: CallError) -> CallError {
    let Some(what) = about_own_hop(&error) else { return error };
    upstream.life.outdated();
    let id = upstream.id();
    let message = format!("upstream `{id}` now requires {what}; reconnecting, please retry");
    CallError::turned_away(Retry::Always, message)
}

fn name_upstream(error: CallError, name: &Arc<str>) -> CallError {
    if error.upstream.is_some() { error } else { error.at(name) }
}
