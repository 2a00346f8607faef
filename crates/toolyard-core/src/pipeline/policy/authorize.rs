//! The outermost step: refuses calls that are denied whatever their arguments are, asks for approvals, and resumes
//! calls whose clients come back with an answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use toolyard_model::{Answer, AnswerBody, Ask, BoxFuture};
use toolyard_policy::rules::{By, Do, Kind};
use toolyard_proto::{CallError, Method, Raw};

use super::{About, Call, Governor, Next, Slot, Step};
use crate::approvals::{ApprovalSubject, Carried, NotFiled, Outcome, Wanted};
use crate::bridge;

/// How often a call whose arguments change while it is approved is asked about.
const MOST_ROUNDS: usize = 3;
/// How long an upstream can ask further questions within one approval.
const ROUNDS_WITHIN: Duration = Duration::from_mins(10);
/// The key of our question among the input requests.
const QUESTION: &str = "approval";
/// A question shows all arguments of its call. Longer ones are left to an operator, who can see them whole.
const LONGEST: usize = 10_000;

pub(in crate::pipeline) struct Authorize(pub(in crate::pipeline) Governor);

impl Step for Authorize {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        let Some(about) = About::of(&call) else { return next.run(call) };
        if let Some(error) = self.0.refusal(&call, &about) {
            return Box::pin(async move { Err(error) });
        }
        let verdict = self.0.verdict(&call.origin, &about);
        match verdict.settled() {
            Some(decision) if decision.action == Do::Allow => next.run(call),
            Some(decision) if !decision.action.is_permissive() => {
                let error = self.0.denied(&call, &about, decision);
                Box::pin(async move { Err(error) })
            }
            _ => Box::pin(authorize(self.0.clone(), call, about, next)),
        }
    }
}

async fn authorize(governor: Governor, mut call: Call, about: About, next: Next) -> Answer {
    let TakenUp { mut granted, mut until } = taken_up(&governor, &mut call, &about)?;
    for _ in 0..MOST_ROUNDS {
        let slot = Arc::new(Slot::new(granted.take()));
        call.approval = Some(slot.clone());
        let answer = next.clone().run(call.clone()).await;
        let Some(wanted) = slot.wanted() else { return wrapped(&governor, &call, &slot, until, answer) };
        until = None;
        if governor.approvals.claim(&wanted.subject, &call.origin.client).await {
            call.note("approval", "approved by an operator at another gateway");
            granted = Some(wanted.subject);
            continue;
        }
        // An agent has no user of its own, so it could approve its own calls.
        let is_agent = !call.origin.principal.parents().is_empty();
        let can_ask = wanted.approval.by == By::Client
            && !is_agent
            && fits_question(&call, &wanted)
            && question(&call, &wanted).refusal(&call.origin.capabilities).is_none();
        granted = match wanted.approval.by {
            By::Client if can_ask && bridge::has_inbox(&call.origin) => {
                Some(ask_in_call(&governor, &call, wanted).await?)
            }
            // The answer to a question of a fallback would arrive at the tool that the client called.
            By::Client if can_ask && call.fallbacks == 0 => {
                return Ok(ask_by_result(&governor, &call, &wanted));
            }
            By::Client => return Err(needs_operator(&governor, &call, &wanted)),
            By::Operator => Some(wait_for_operator(&governor, &call, wanted).await?),
        };
    }
    let message = format!("the arguments of {} change whenever it is approved", name_of(&call));
    Err(CallError::denied(message).at(call.upstream.name()))
}

/// The grant of a client that comes back with a state of ours.
#[derive(Default)]
struct TakenUp {
    granted: Option<ApprovalSubject>,
    /// When the approval ends, if its upstream has asked before.
    until: Option<u64>,
}

/// The subject that was approved before, if the client comes back with a state of ours. The upstream gets the
/// parameters without what is ours.
fn taken_up(governor: &Governor, call: &mut Call, about: &About) -> Result<TakenUp, CallError> {
    let state = call.params.member("requestState").and_then(|state| state.as_string());
    let Some(opened) = state.and_then(|state| governor.approvals.open_state(&state)) else {
        return Ok(TakenUp::default());
    };
    let refused = |why: &str| {
        CallError::invalid_params(format!("this `requestState` {why}; make the call again without it"))
    };
    let carried = opened.map_err(refused)?;
    let (Carried::Asked { subject, .. } | Carried::Granted { subject, .. }) = &carried;
    if !subject.is_of(&call.origin, about.canonical()) {
        return Err(refused("belongs to another request"));
    }
    match carried {
        Carried::Granted { nonce, subject, inner, expires } => {
            // Each round of questions has a state of its own, so that one approval is not used for many calls.
            if !use_once(governor, call, &nonce, expires)? {
                return Err(refused("was used already"));
            }
            call.params = match inner {
                Some(inner) => call.params.with("requestState", &Raw::from_serialize(&inner)).into(),
                None => without(call, &["requestState"]),
            };
            Ok(TakenUp { granted: Some(subject), until: Some(expires) })
        }
        Carried::Asked { nonce, subject, lasts, expires } => {
            let answer = call.params.at(&["inputResponses", QUESTION]);
            let answer = answer.ok_or_else(|| refused("needs an answer in `inputResponses`"))?;
            if !use_once(governor, call, &nonce, expires)? {
                return Err(refused("was used already"));
            }
            call.params = without(call, &["requestState", "inputResponses"]);
            decided(governor, call, &subject, &answer, lasts.map(Duration::from_secs))?;
            Ok(TakenUp { granted: Some(subject), until: None })
        }
    }
}

fn use_once(governor: &Governor, call: &Call, nonce: &str, expires: u64) -> Result<bool, CallError> {
    taken(governor.approvals.use_once(nonce, expires), call)
}

/// Whether an approval was used, or the error of a call whose approval cannot be marked as used.
pub(super) fn taken(used: io::Result<bool>, call: &Call) -> Result<bool, CallError> {
    used.map_err(|error| {
        let message = format!(
            "the approval of {} was not used, because its use cannot be stored: {error}",
            name_of(call)
        );
        let hint = "make the state directory of the gateway writable, then make the call again";
        CallError::denied(message).with_hint(hint).at(call.upstream.name())
    })
}

/// The name of what is called, in messages to its client.
fn name_of(call: &Call) -> String {
    About::of(call).map_or_else(|| call.subject(), |about| about.canonical().to_owned())
}

fn without(call: &Call, keys: &[&str]) -> toolyard_proto::Params {
    call.params.without(keys).into()
}

/// The client's answer: an error unless it approves.
fn decided(
    governor: &Governor,
    call: &Call,
    subject: &ApprovalSubject,
    answer: &Raw,
    lasts: Option<Duration>,
) -> Result<(), CallError> {
    let answer: Value = answer.read().unwrap_or_default();
    let choice = answer["content"]["decision"].as_str().unwrap_or_default();
    let is_yes = answer["action"] == "accept" && ["once", "session"].contains(&choice);
    governor.approvals.record(subject, call.origin.principal.name(), is_yes);
    call.note(
        "approval",
        if is_yes { "approved by the user of the client" } else { "denied by the user of the client" },
    );
    if !is_yes {
        let message = format!("{} was not approved by the user of the client", name_of(call));
        return Err(CallError::denied(message).at(call.upstream.name()));
    }
    if let Some(lasts) = lasts.filter(|_| choice == "session") {
        governor.approvals.grant_session(subject, &call.origin.client, lasts);
    }
    Ok(())
}

/// Whether a question can show everything that its approval would cover.
fn fits_question(call: &Call, wanted: &Wanted) -> bool {
    let fits = wanted.args.to_string().len() <= LONGEST;
    if !fits {
        call.note("approval", "left to an operator, because the arguments are too long for a question");
    }
    fits
}

/// The question to the user of the client, with all arguments of the call.
fn question(call: &Call, wanted: &Wanted) -> Ask {
    let args = &wanted.args;
    let choices: &[&str] = if wanted.approval.is_for_session { &["once", "session"] } else { &["once"] };
    let (who, what) = (call.origin.principal.name(), name_of(call));
    let message = match About::of(call).map(|about| about.kind()) {
        Some(Kind::Resource) => format!("{who} wants to read {what}"),
        Some(Kind::Prompt) => format!("{who} wants to get the prompt {what} with these arguments: {args}"),
        _ => format!("{who} wants to call {what} with these arguments: {args}"),
    };
    let params = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": { "decision": { "type": "string", "title": "Allow", "enum": choices, "default": "once" } },
            "required": ["decision"],
        },
    });
    Ask { method: Method::new("elicitation/create"), params: Some(params.into()) }
}

/// Asks a client that can be sent requests during a call.
async fn ask_in_call(governor: &Governor, call: &Call, wanted: Wanted) -> Result<ApprovalSubject, CallError> {
    let asking = timeout(wanted.approval.expires, call.peer.ask(question(call, &wanted)));
    let answer = match asking.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let message =
                format!("{} needs approval, and the client could not be asked: {error}", name_of(call));
            return Err(CallError::denied(message).at(call.upstream.name()));
        }
        Err(_) => {
            let message = format!("{} needs approval, and the client did not answer in time", name_of(call));
            return Err(CallError::denied(message).at(call.upstream.name()));
        }
    };
    decided(governor, call, &wanted.subject, &answer, wanted.approval.session())?;
    Ok(wanted.subject)
}

/// The answer that asks a client to repeat the call with its answer. Nothing waits: the state contains everything.
fn ask_by_result(governor: &Governor, call: &Call, wanted: &Wanted) -> AnswerBody {
    let Ask { method, params } = question(call, wanted);
    let params = params.unwrap_or_else(Raw::empty_object);
    let request = Raw::from(json!({ "method": method.as_str() })).with("params", &params);
    let requests = Raw::empty_object().with(QUESTION, &request);
    let state = Raw::from_serialize(&governor.approvals.asked(wanted));
    let result = Raw::from(json!({ "resultType": "input_required" }));
    AnswerBody::ours(result.with("inputRequests", &requests).with("requestState", &state))
}

/// Waits for an operator, and returns with the id of what waits if that takes too long.
async fn wait_for_operator(
    governor: &Governor,
    call: &Call,
    wanted: Wanted,
) -> Result<ApprovalSubject, CallError> {
    let approvals = &governor.approvals;
    let id = filed(governor, call, &wanted)?;
    let client = &call.origin.client;
    let outcome = approvals.wait(&id, &wanted.subject, client, wanted.approval.wait).await;
    let is_granted = outcome == Outcome::Approved
        && (taken(approvals.take(&wanted.subject, client), call)?
            || approvals.claim(&wanted.subject, client).await);
    match outcome {
        Outcome::Approved if is_granted => {
            call.note("approval", format!("{id} was approved by an operator"));
            Ok(wanted.subject)
        }
        Outcome::Approved | Outcome::UsedByAnother => {
            call.note("approval", format!("{id} was approved, and another call used the approval"));
            let message = format!("{} was approved, and another call used the approval", name_of(call));
            Err(CallError::denied(message).with_hint("call it again").at(call.upstream.name()))
        }
        Outcome::Denied => {
            call.note("approval", format!("{id} was denied by an operator"));
            let message = format!("{} was denied by an operator", name_of(call));
            Err(CallError::denied(message).at(call.upstream.name()))
        }
        Outcome::Expired => {
            call.note("approval", format!("{id} was not decided in time"));
            let message = format!("{} was not approved in time", name_of(call));
            Err(CallError::denied(message).with_hint("call it again").at(call.upstream.name()))
        }
        Outcome::Waiting => {
            call.note("approval", format!("{id} waits for an operator"));
            Err(waits(call, &id))
        }
    }
}

/// The error of a client that cannot ask its user: an operator can decide instead.
fn needs_operator(governor: &Governor, call: &Call, wanted: &Wanted) -> CallError {
    filed(governor, call, wanted).map_or_else(|error| error, |id| waits(call, &id))
}

/// The id under which a call waits for an operator.
fn filed(governor: &Governor, call: &Call, wanted: &Wanted) -> Result<String, CallError> {
    let (client, name) = (&call.origin.client, call.origin.principal.name());
    governor.approvals.file(wanted, client, name).map_err(|why| match why {
        NotFiled::TooMany => CallError::limit("too many calls wait for approval").at(call.upstream.name()),
        NotFiled::TooLarge { bytes, most } => {
            let message = format!(
                "{} needs approval, but its arguments are too large for that: {bytes} bytes, and the limit is {most}",
                name_of(call)
            );
            CallError::denied(message).with_hint("send smaller arguments").at(call.upstream.name())
        }
    })
}

fn waits(call: &Call, id: &str) -> CallError {
    let message = format!("{} needs the approval of an operator, which is pending as {id}", name_of(call));
    let hint = format!("call it again after `toolyard approve {id}`");
    CallError::denied(message).with_hint(hint).at(call.upstream.name())
}

/// Wraps the state of an upstream that asks, so that its call is not asked about again.
/// The time for all rounds begins with the first.
fn wrapped(governor: &Governor, call: &Call, slot: &Slot, until: Option<u64>, answer: Answer) -> Answer {
    let Some(subject) = slot.granted() else { return answer };
    let Ok(AnswerBody::Whole(result, revision)) = answer else { return answer };
    if !bridge::asks(&result) || bridge::has_inbox(&call.origin) {
        return Ok(AnswerBody::Whole(result, revision));
    }
    let inner = result.member("requestState").and_then(|state| state.as_string());
    let state = governor.approvals.granted(&subject, inner, until, ROUNDS_WITHIN);
    Ok(AnswerBody::Whole(result.with("requestState", &Raw::from_serialize(&state)), revision))
}
