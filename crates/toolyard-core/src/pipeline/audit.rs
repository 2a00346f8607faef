//! The audit wraps the dispatch of every request. Each call has one record, which is closed when its answer has really
//! ended; each refused request has one record, too, whatever its method.

mod body;

use std::sync::Arc;

use futures_util::future::{Either, select};
use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, Request};
use toolyard_proto::{CallError, Kind, Method, Raw, Revision, modern};

use super::Next;
use crate::dispatch::{Dispatched, RoutedCall, dispatch, hidden_by};
use crate::gateway::Shared;
use crate::greet::server_info;
use crate::ledger::{Cancelled, Capture, OpenCall, Status};
use body::WatchedBody;

/// Answers a request of a client.
pub(crate) fn answer(shared: &Arc<Shared>, request: Request, peer: Peer) -> BoxFuture<Answer> {
    settle(shared, dispatch(shared, request, peer))
}

fn settle(shared: &Arc<Shared>, dispatched: Dispatched) -> BoxFuture<Answer> {
    match dispatched {
        Dispatched::Call(routed) if routed.call.origin.is_relayed => relayed(shared, *routed),
        Dispatched::Call(routed) => recorded(shared, *routed),
        Dispatched::Refused(request, error) => {
            let rule = hidden_by(shared, &request);
            shared.common.ledger.refused(&request, &error, rule);
            let answer = as_tool_result(&request.method, request.origin.revision, error);
            Box::pin(async move { answer })
        }
        Dispatched::Own(request, answering) => {
            let shared = shared.clone();
            Box::pin(async move {
                let answer = answering.await;
                if let Err(error) = &answer {
                    shared.common.ledger.refused(&request, error, None);
                }
                answer
            })
        }
        Dispatched::Deferred(later) => {
            let shared = shared.clone();
            Box::pin(async move { settle(&shared, later.await).await })
        }
    }
}

/// Forwards a call that another node has already recorded and sent through its chain.
fn relayed(shared: &Arc<Shared>, routed: RoutedCall) -> BoxFuture<Answer> {
    let chain = shared.catalog.rules().steps.relayed();
    let method = routed.call.method.clone();
    let revision = routed.call.origin.revision;
    let answering = Next::start(chain, routed.call);
    Box::pin(async move { answering.await.or_else(|error| as_tool_result(&method, revision, error)) })
}

/// Sends a call through its chain, with its record open until the answer has ended.
fn recorded(shared: &Arc<Shared>, routed: RoutedCall) -> BoxFuture<Answer> {
    let RoutedCall { mut call, chain } = routed;
    let open = shared.common.ledger.open(&mut call);
    let method = call.method.clone();
    let revision = call.origin.revision;
    let first = call.open.as_ref().and_then(|open| shared.common.events.call_opened(open));
    let cancelled = call.open.as_ref().map(OpenCall::cancelled);
    let answering = match first {
        None => Next::start(chain, call),
        Some(first) => Box::pin(async move {
            first.await?;
            Next::start(chain, call).await
        }),
    };
    Box::pin(async move {
        match unless_cancelled(answering, cancelled).await {
            Ok(AnswerBody::Whole(result, revision)) => {
                open.answered(&result);
                let answer = open.capture().map(|_| Capture::whole(&result.bytes()));
                open.close(Status::of_result(&method, &result), answer);
                Ok(AnswerBody::Whole(result, revision))
            }
            Ok(AnswerBody::Stream(relay)) => {
                let kind = relay.kind;
                Ok(AnswerBody::Stream(relay.map_body(|body| WatchedBody::new(body, kind, open))))
            }
            Err(error) => {
                let answer = open.capture().map(|_| Capture::whole(&error.to_raw().bytes()));
                open.close(Status::of_error(&error), answer);
                as_tool_result(&method, revision, error)
            }
        }
    })
}

/// The answer, or an error as soon as an operator cancels the call.
async fn unless_cancelled(answering: BoxFuture<Answer>, cancelled: Option<Cancelled>) -> Answer {
    let Some(cancelled) = cancelled else { return answering.await };
    match select(answering, cancelled).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(CallError::cancelled_by_operator()),
    }
}

/// Converts the error of a known tool that could not be called into a failed tool result. An error in the request
/// itself stays a protocol error.
fn as_tool_result(method: &Method, revision: Revision, error: CallError) -> Answer {
    if *method != Method::TOOLS_CALL || !reached_a_tool(&error) {
        return Err(error);
    }
    Ok(own_result(revision, error.to_tool_result()))
}

/// A tool result of the gateway itself, in the form of a revision.
pub(super) fn own_result(revision: Revision, result: Raw) -> AnswerBody {
    let stamped = revision.has_result_stamps();
    let result = if stamped { modern::stamp_result(&result, Some(&server_info())) } else { result };
    AnswerBody::Whole(result, revision)
}

fn reached_a_tool(error: &CallError) -> bool {
    matches!(
        error.kind,
        Kind::Lost
            | Kind::Unavailable
            | Kind::Unreachable
            | Kind::TurnedAway
            | Kind::SignIn
            | Kind::Timeout
            | Kind::InvalidArguments
            | Kind::Blocked
            | Kind::Limit
            | Kind::BadAnswer
            | Kind::CannotAsk
            | Kind::Denied
            | Kind::Internal
    )
}
