//! The end of every chain: leases a live link, sends the call in the upstream's form, and replaces the upstream's names
//! in the answer with those that the client knows.

mod second_attempt;

use std::pin::pin;
use std::sync::{Arc, LazyLock};

use futures_util::future::poll_immediate;
use memchr::memmem::Finder;
use serde_json::Value;
use toolyard_model::peer::{unanswerable, unknown_result_type};
use toolyard_model::{Answer, AnswerBody, Origin};
use toolyard_proto::uri::{map_result, to_shown};
use toolyard_proto::{CallError, Kind, Raw};

use super::{Call, Edits};
use crate::ledger::Mark;
use crate::upstream::state::Phase;
use crate::upstream::task_reviews::reviewed;
use crate::upstream::{InFlight, Lease, Upstream};
use crate::{bridge, tasks};
use second_attempt::{SecondAttempt, has_failed, retriable_rejection, sign_in};

/// Questions are small; larger results are not searched for them.
const LARGEST_QUESTION: usize = 256 * 1024;
/// How much of an upstream's own text is quoted in an error of ours.
const LONGEST_OWN_TEXT: usize = 2_000;
static ASKS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"input_required\""));
/// The form that most servers write.
static COMPLETE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"resultType\":\"complete\""));

pub(super) async fn route(mut call: Call) -> Answer {
    call.reach(Mark::Passed);
    let (in_flight, lease) = lease_current(&mut call).await?;
    if let Some(open) = &call.open {
        open.leased(lease.link().greeting().revision);
    }
    let reviews = call.upstream.links.task_reviews.of(&call);
    call.needs_whole |= !reviews.is_empty();
    call.peer = lease.watch(call.peer);
    let edits = call.edits;
    let open = call.open.clone();
    let upstream = call.upstream.clone();
    let origin = call.origin.clone();
    let second = SecondAttempt::of(&call, &lease);
    let mut answer = send(call, &lease).await;
    // A second attempt takes a lease of its own.
    drop(lease);
    if let Some(attempt) = second.after(&answer)
        && let Some(retried) = attempt.await
    {
        answer = retried;
    }
    if let Some(open) = open {
        open.reach(Mark::Answered);
    }
    if matches!(&answer, Ok(_) | Err(CallError { kind: Kind::Reported(_), .. })) {
        upstream.life.answered_call();
    }
    let mut answer = fit_for_client(&origin, answer);
    if let Ok(AnswerBody::Whole(result, _)) = &mut answer
        && !reviews.is_empty()
    {
        *result = Box::pin(reviewed(reviews, result.clone())).await;
    }
    match answer {
        Ok(AnswerBody::Whole(result, revision)) if !edits.none() => {
            Ok(AnswerBody::Whole(edited(&upstream, &origin, edits, result), revision))
        }
        Ok(AnswerBody::Stream(mut relay)) => {
            relay.hold(Box::new(in_flight));
            Ok(AnswerBody::Stream(relay))
        }
        Err(error) => Err(failed(&upstream, edits, error)),
        answer => answer,
    }
}

/// Leases a link of the upstream that has the name now: if the config has changed since the call arrived, that is the
/// successor. If the upstream requires a sign-in, the user is asked once.
async fn lease_current(call: &mut Call) -> Result<(InFlight, Arc<Lease>), CallError> {
    let mut has_signed_in = false;
    loop {
        let in_flight = call.upstream.begin(call.params.len() + call.id.as_bytes().len())?;
        match lease_link(call).await {
            Ok(lease) => return Ok((in_flight, Arc::new(lease))),
            Err(error) => match call.upstream.life.successor() {
                Some(successor) => call.upstream = successor,
                None if !has_signed_in && call.upstream.state().phase == Phase::SignIn => {
                    has_signed_in = true;
                    Box::pin(sign_in(call, error)).await?;
                }
                None => return Err(error),
            },
        }
    }
}

/// The answer, or an error if the client could not use it: a question that it cannot answer, or an unknown result type.
fn fit_for_client(origin: &Origin, answer: Answer) -> Answer {
    if let Ok(AnswerBody::Whole(result, _)) = &answer
        && let Some(error) = unanswerable_question(origin, result).or_else(|| unknown_result(origin, result))
    {
        return Err(error);
    }
    answer
}

/// The error of a call as its client receives it. The upstream is checked if the error suggests that it was lost.
fn failed(upstream: &Upstream, edits: Edits, error: CallError) -> CallError {
    if matches!(error.kind, Kind::Unavailable | Kind::Unreachable | Kind::Lost | Kind::SignIn) {
        upstream.life.suspect();
    }
    let error = if edits.uris.is_some() { with_shown_uri(upstream, error) } else { error };
    name_upstream(retriable_rejection(upstream, error), upstream.name())
}

/// Sends the call to the upstream and returns the answer. If the call is traced, this is a separate span.
async fn send(mut call: Call, lease: &Arc<Lease>) -> Answer {
    let traced = call.open.as_ref().filter(|open| open.spans().is_some()).cloned();
    if let Some(open) = &traced {
        call.params = open.begin_send(call.upstream.name(), call.params);
    }
    let mut answer = bridge::exchange(call, lease).await;
    lease.done();
    if let Some(error) = lease.not_asked().filter(|_| has_failed(&answer)) {
        answer = Err(match own_text(&answer) {
            Some(text) => error.because(text),
            None => error,
        });
    }
    // The span of a streamed body ends with the call.
    if let Some(open) = traced.filter(|_| !matches!(answer, Ok(AnswerBody::Stream(_)))) {
        open.end_send();
    }
    answer
}

/// The text of the upstream itself about a call that failed.
fn own_text(answer: &Answer) -> Option<String> {
    let mut text: String = match answer {
        Ok(AnswerBody::Whole(result, _)) => {
            let result: Value = serde_json::from_slice(result.as_bytes()).ok()?;
            result["content"][0]["text"].as_str()?.to_owned()
        }
        Err(CallError { kind: Kind::Reported(error), .. }) => error.member("message")?.as_string()?,
        _ => return None,
    };
    text.truncate(text.floor_char_boundary(LONGEST_OWN_TEXT));
    Some(text)
}

/// The error if an upstream asks a question that the client has not declared it can answer. For clients that can be
/// sent requests, the bridge asks the question and has checked this.
fn unanswerable_question(origin: &Origin, result: &Raw) -> Option<CallError> {
    let may_ask = result.len() <= LARGEST_QUESTION && ASKS.find(result.as_bytes()).is_some();
    if !may_ask || bridge::has_inbox(origin) {
        return None;
    }
    let refusal = unanswerable(result, &origin.capabilities)?;
    Some(CallError::bad_answer(format!("the upstream asked a question that cannot be answered: {refusal}")))
}

/// The error if the result is of a type that the client does not know.
fn unknown_result(origin: &Origin, result: &Raw) -> Option<CallError> {
    if result.len() > LARGEST_QUESTION || COMPLETE.find(result.as_bytes()).is_some() {
        return None;
    }
    let kind = unknown_result_type(result, &origin.capabilities)?;
    Some(CallError::bad_answer(format!("its result has the unknown type `{kind}`")))
}

/// Leases a link for the call. If the call times out first, the error states what it was waiting for.
async fn lease_link(call: &Call) -> Result<Lease, CallError> {
    let mut leasing = pin!(call.upstream.lease(&call.origin, &call.peer));
    if let Some(lease) = poll_immediate(&mut leasing).await {
        return lease;
    }
    match &call.deadline {
        Some(clock) => tokio::select! {
            biased;
            lease = leasing => lease,
            _ = clock.expired() => Err(call.upstream.not_sent_in_time()),
        },
        None => leasing.await,
    }
}

fn edited(upstream: &Upstream, origin: &Origin, edits: Edits, mut result: Raw) -> Raw {
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
    if edits.tasks { tasks::shown(upstream.id(), origin, &result) } else { result }
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

fn name_upstream(error: CallError, name: &Arc<str>) -> CallError {
    if error.upstream.is_some() { error } else { error.at(name) }
}
