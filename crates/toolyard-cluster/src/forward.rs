//! Requests of clients that another node answers, because it has their session or their parked call.

mod idle;
mod watched;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use toolyard_model::answer::{RelayBody, RelayError};
use toolyard_model::headers::SESSION_ID;
use toolyard_model::{BoxFuture, Forwarded, Nodes, NotForwarded, Scope};
use toolyard_proto::CallError;

use crate::ownership::Member;
use crate::record::NodeRecord;
use crate::shared::Shared;

pub(crate) use idle::Idle;
use idle::Kept;
use watched::Watched;

const SESSION: &str = "session of";

pub(crate) struct ClusterNodes {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scope: Scope,
}

impl fmt::Debug for ClusterNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterNodes")
    }
}

impl Nodes for ClusterNodes {
    fn gateway(&self) -> Arc<str> {
        self.shared.gateway.clone()
    }

    fn mark_session(&self, id: &str) -> String {
        self.shared.keys.seal(&format!("{SESSION} {id}"), self.shared.node_name().as_bytes())
    }

    fn session_elsewhere(&self, id: &str, mark: &str) -> Option<String> {
        let node = self.shared.keys.open(&format!("{SESSION} {id}"), mark)?;
        String::from_utf8(node).ok().filter(|node| *node != self.shared.node_name())
    }

    fn parked_elsewhere(&self, state: &str) -> Option<String> {
        let gateway = gateway_in(state)?;
        let known = self.shared.state();
        if known.own.gateway == gateway {
            return None;
        }
        let node = known.nodes.values().find(|node| node.gateway == gateway)?;
        Some(node.member.node.clone())
    }

    fn forward(
        &self,
        node: &str,
        request: Forwarded,
    ) -> BoxFuture<Result<Response<RelayBody>, NotForwarded>> {
        let shared = self.shared.clone();
        let scope = self.scope.clone();
        let node = node.to_owned();
        Box::pin(async move { forward(&shared, &scope, &node, request).await })
    }
}

/// The gateway that a state, a handle or the id of a task names.
fn gateway_in(text: &str) -> Option<&str> {
    let begins = ["yard-approval-", "yard-via-", "yard-", "inst_"];
    let of_state = begins.iter().find_map(|prefix| text.strip_prefix(prefix));
    // `UPSTREAM.@yard-GATEWAY.TASK`
    let of_task = || text.split_once('.')?.1.strip_prefix("@yard-");
    Some(of_state.or_else(of_task)?.split_once('.')?.0)
}

async fn forward(
    shared: &Arc<Shared>,
    scope: &Scope,
    node: &str,
    request: Forwarded,
) -> Result<Response<RelayBody>, NotForwarded> {
    let lost = Lost { node, has_session: request.headers.contains_key(SESSION_ID) };
    let record = shared.node(node).ok_or_else(|| lost.gone())?;
    let mut request = outgoing(node, request).map_err(|error| lost.unreachable(&error))?;
    while let Some(kept) = shared.idle.take(&record.member) {
        match send(shared, scope, &record, kept, request).await {
            Ok(response) => return Ok(response),
            // The idle connection had been closed, and no part of the request was sent.
            Err(NotSent { request: Some(unsent), .. }) => request = *unsent,
            Err(not_sent) => return Err(lost.not_sent(&not_sent)),
        }
    }
    let kept = match open(shared, scope, &record).await {
        Ok(kept) => kept,
        // Nothing accepts it, so the process has ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(lost.gone()),
        Err(error) => return Err(lost.unreachable(&error)),
    };
    send(shared, scope, &record, kept, request).await.map_err(|not_sent| lost.not_sent(&not_sent))
}

/// What to tell a client whose request does not arrive.
struct Lost<'a> {
    node: &'a str,
    has_session: bool,
}

impl Lost<'_> {
    fn gone(&self) -> NotForwarded {
        let node = self.node;
        if self.has_session {
            let reason = format!(
                "there is no such session: the node `{node}` that had it is gone; send initialize again"
            );
            return NotForwarded { status: StatusCode::NOT_FOUND, reason };
        }
        let reason = format!(
            "the node `{node}` is gone, and with it the waiting call, handle or task that this request names; begin again"
        );
        NotForwarded { status: StatusCode::BAD_REQUEST, reason }
    }

    fn not_sent(&self, not_sent: &NotSent) -> NotForwarded {
        let NotSent { error, request } = not_sent;
        if request.is_some() {
            return self.unreachable(error);
        }
        let node = self.node;
        let reason =
            format!("the connection to the node `{node}` broke: {error}; the call may have been carried out");
        NotForwarded { status: StatusCode::BAD_GATEWAY, reason }
    }

    /// No part of the request has left.
    fn unreachable(&self, error: &dyn fmt::Display) -> NotForwarded {
        let Self { node, has_session } = self;
        let what =
            if *has_session { "this session" } else { "the waiting call, handle or task of this request" };
        let reason = format!("cannot reach the node `{node}`, which has {what}: {error}; try again");
        NotForwarded { status: StatusCode::SERVICE_UNAVAILABLE, reason }
    }
}

async fn open(shared: &Shared, scope: &Scope, node: &NodeRecord) -> io::Result<Kept> {
    let stream = shared.ways.reach(node, &shared.identity).await?;
    let opened = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = opened.map_err(io::Error::other)?;
    scope.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: "cluster", %error, "a connection to another node ended early");
        }
    });
    Ok(Kept { sender, since: Instant::now() })
}

/// Waits until a node is no longer alive.
async fn ended(shared: &Shared, member: &Member) {
    let mut changes = shared.changes.subscribe();
    let is_alive = || shared.state().is_alive(member, shared.now());
    while is_alive() && changes.changed().await.is_ok() {}
}

/// Why a request has no answer.
struct NotSent {
    error: String,
    /// The request, if no part of it has left.
    request: Option<Box<Request<Full<Bytes>>>>,
}

/// Sends a request, and keeps the connection for the next one when the answer has been read.
async fn send(
    shared: &Arc<Shared>,
    scope: &Scope,
    node: &NodeRecord,
    mut kept: Kept,
    request: Request<Full<Bytes>>,
) -> Result<Response<RelayBody>, NotSent> {
    // A node whose machine is lost does not close its connections.
    let sent = tokio::select! {
        sent = kept.sender.try_send_request(request) => sent,
        () = ended(shared, &node.member) => {
            return Err(NotSent { error: "it has stopped responding".to_owned(), request: None });
        }
    };
    let response: Response<Incoming> = sent.map_err(|mut failed| {
        let request = failed.take_message().map(Box::new);
        NotSent { error: failed.into_error().to_string(), request }
    })?;
    let (shared, member) = (shared.clone(), node.member.clone());
    let (all, sender) = (shared.clone(), member.clone());
    let lost: BoxFuture<()> = Box::pin(async move { ended(&all, &sender).await });
    scope.spawn(async move {
        if kept.sender.ready().await.is_ok() {
            shared.idle.put(member, kept);
        }
    });
    Ok(response.map(|body| -> RelayBody {
        let body = body.map_err(|error| RelayError::from(CallError::lost(error.to_string())));
        Box::pin(Watched { body: Box::pin(body), lost: Some(lost) })
    }))
}

fn outgoing(node: &str, request: Forwarded) -> http::Result<Request<Full<Bytes>>> {
    let Forwarded { method, path, headers, body, caller } = request;
    let mut outgoing = Request::new(Full::new(body));
    *outgoing.method_mut() = method;
    *outgoing.uri_mut() = path.parse::<Uri>()?;
    *outgoing.headers_mut() = headers;
    outgoing.headers_mut().insert(HOST, HeaderValue::try_from(node)?);
    outgoing.headers_mut().insert(AUTHORIZATION, HeaderValue::try_from(caller.to_header())?);
    Ok(outgoing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_did_not_leave_may_be_sent_again() {
        let lost = Lost { node: "b", has_session: true };
        let unsent = Some(Box::new(Request::new(Full::default())));
        for (request, status) in [(unsent, StatusCode::SERVICE_UNAVAILABLE), (None, StatusCode::BAD_GATEWAY)]
        {
            let answer = lost.not_sent(&NotSent { error: "it ended".to_owned(), request });
            assert_eq!(answer.status, status);
            assert_eq!(answer.reason.ends_with("try again"), status == StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    #[test]
    fn states_handles_and_tasks_name_their_gateway() {
        for text in [
            "yard-approval-gw.sealed",
            "yard-gw.sealed",
            "yard-via-gw.other.sealed",
            "inst_gw.sealed",
            "files.@yard-gw.task.7",
        ] {
            assert_eq!(gateway_in(text), Some("gw"), "{text}");
        }
        for text in ["kept", "files.task", "yard-gw", ""] {
            assert_eq!(gateway_in(text), None, "{text}");
        }
    }
}
