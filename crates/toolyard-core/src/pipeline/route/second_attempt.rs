//! Second attempts of a call: after a sign-in, with the headers or the protocol version that the upstream requires now,
//! or on a link of the client's own.

use std::sync::Arc;

use toolyard_model::{Answer, AnswerBody, BoxFuture, Link};
use toolyard_proto::{CallError, Fault, Kind, Method, Raw, Retry};

use super::{lease_link, send};
use crate::bridge;
use crate::call::Call;
use crate::catalog::{ListKind, param_headers};
use crate::upstream::{Lease, Upstream, can_be_asked};

/// Copies of a call for a second attempt, kept while the first one is under way.
pub(super) struct SecondAttempt {
    /// For an upstream that may refuse the form of the request, or may require a sign-in.
    again: Option<Box<Call>>,
    ambiguous: Option<AmbiguousQuestionRetry>,
}

impl SecondAttempt {
    pub(super) fn of(call: &Call, lease: &Lease) -> Self {
        let link = lease.link();
        // A call can be sent again in another form only if its definition is known.
        let may_refuse = call.entry.is_some()
            && !link.is_in_process()
            && bridge::reports_refusals(link.greeting().revision);
        let again =
            (may_refuse || call.upstream.connector().may_need_sign_in()).then(|| Box::new(call.clone()));
        Self { again, ambiguous: AmbiguousQuestionRetry::of(call, lease) }
    }

    /// The second attempt that the first answer calls for, if any. It yields `None` if the first answer stays.
    pub(super) fn after(self, answer: &Answer) -> Option<BoxFuture<Option<Answer>>> {
        match answer {
            Err(error) if rejected_request_form(error).is_some() => {
                let again = self.again.filter(|again| again.entry.is_some())?;
                Some(Box::pin(send_again(again)))
            }
            Err(error) if error.kind == Kind::SignIn => {
                let again = self.again?;
                let refused = error.clone();
                Some(Box::pin(async move { Some(send_signed_in(again, refused).await) }))
            }
            _ => {
                let ambiguous = self.ambiguous.filter(|ambiguous| ambiguous.has_failed(answer))?;
                Some(Box::pin(async move { Some(send_apart(ambiguous.call).await) }))
            }
        }
    }
}

/// A call on a link that clients share, kept so that it can be repeated on the client's own link if one of its
/// questions was refused: while calls of several clients are under way, a question may be for any of them.
struct AmbiguousQuestionRetry {
    call: Box<Call>,
    link: Arc<dyn Link>,
}

impl AmbiguousQuestionRetry {
    /// `None` if that cannot happen, or if it may do harm to carry the call out twice.
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

    /// Whether the call failed after one of its questions may have been refused.
    fn has_failed(&self, answer: &Answer) -> bool {
        self.link.is_interactive() && has_failed(answer)
    }
}

/// Whether the upstream answered that the call failed.
pub(super) fn has_failed(answer: &Answer) -> bool {
    match answer {
        Ok(AnswerBody::Whole(result, _)) => {
            result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true")
        }
        Ok(AnswerBody::Stream(_)) => false,
        Err(error) => matches!(error.kind, Kind::Reported(_)),
    }
}

/// Sends a call again over a link of the client's own, where its questions are clear.
async fn send_apart(mut call: Box<Call>) -> Answer {
    let lease = Arc::new(lease_link(&call).await?);
    call.peer = lease.watch(call.peer);
    call.sent_again("on a link of the client's own, because several clients could be asked on the first");
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
    if let Some(entry) = call.entry.as_ref().filter(|_| call.method == Method::TOOLS_CALL) {
        let definitions = upstream.definitions()?;
        let is_it = |tool: &&Raw| tool.member("name").as_ref() == Some(&entry.own_name_raw);
        let tool = definitions.list(ListKind::Tools).iter().find(is_it)?;
        call.headers = param_headers(tool, &call.params);
    }
    let lease = Arc::new(upstream.lease(&call.origin, &call.peer).await.ok()?);
    call.sent_again("with definitions that were read again, because its headers or version were refused");
    Some(send(*call, &lease).await)
}

/// Sends a call again that the upstream refused because the user had not signed in, once the user has. It has not been
/// carried out.
async fn send_signed_in(mut call: Box<Call>, refused: CallError) -> Answer {
    sign_in(&call, refused).await?;
    let lease = Arc::new(lease_link(&call).await?);
    call.sent_again("after the user has signed in");
    send(*call, &lease).await
}

/// Asks the client's user to sign in. `refused` is the error of a client that cannot be asked.
pub(super) async fn sign_in(call: &Call, refused: CallError) -> Result<(), CallError> {
    let Some(signing_in) = call.upstream.connector().sign_in(&call.origin, &call.peer) else {
        return Err(refused);
    };
    signing_in.await?;
    call.upstream.try_now().await;
    Ok(())
}

/// Why the upstream rejected the gateway's own request: its headers or its protocol version.
fn rejected_request_form(error: &CallError) -> Option<&'static str> {
    match &error.kind {
        Kind::HeaderMismatch if error.origin == Fault::Upstream => Some("different headers"),
        Kind::UnsupportedVersion { .. } if error.origin == Fault::Upstream => {
            Some("a different protocol version")
        }
        _ => None,
    }
}

/// A refusal of the gateway's own request form is for the gateway to fix; the client can only retry.
pub(super) fn retriable_rejection(upstream: &Upstream, error: CallError) -> CallError {
    let Some(what) = rejected_request_form(&error) else { return error };
    upstream.life.outdated();
    let id = upstream.id();
    let message = format!("upstream `{id}` now requires {what}; reconnecting, please retry");
    CallError::turned_away(Retry::Always, message)
}
