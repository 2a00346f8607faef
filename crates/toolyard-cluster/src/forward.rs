//! Requests of clients that another node answers, because it has their session or their parked call.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use toolyard_model::answer::{RelayBody, RelayError};
use toolyard_model::{BoxFuture, Forwarded, Nodes, NotForwarded, Scope};
use toolyard_proto::CallError;

use crate::shared::Shared;

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
    fn mark_session(&self, id: &str) -> String {
        self.shared.keys.seal(&format!("{SESSION} {id}"), self.shared.node_name().as_bytes())
    }

    fn session_elsewhere(&self, id: &str, mark: &str) -> Option<String> {
        let node = self.shared.keys.open(&format!("{SESSION} {id}"), mark)?;
        String::from_utf8(node).ok().filter(|node| *node != self.shared.node_name())
    }

    fn parked_elsewhere(&self, state: &str) -> Option<String> {
        let rest = ["yard-approval-", "yard-", "inst_"].iter().find_map(|prefix| state.strip_prefix(prefix));
        let (gateway, _) = rest?.split_once('.')?;
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
        let (shared, scope, node) = (self.shared.clone(), self.scope.clone(), node.to_owned());
        Box::pin(async move { forward(&shared, &scope, &node, request).await })
    }
}

async fn forward(
    shared: &Shared,
    scope: &Scope,
    node: &str,
    request: Forwarded,
) -> Result<Response<RelayBody>, NotForwarded> {
    let gone = || NotForwarded {
        status: StatusCode::NOT_FOUND,
        reason: format!(
            "there is no such session: the node `{node}` that had it is gone; send initialize again"
        ),
    };
    let failed = |what: String| NotForwarded {
        status: StatusCode::SERVICE_UNAVAILABLE,
        reason: format!("cannot reach the node `{node}`, which has this session: {what}; try again"),
    };
    let record = shared.node(node).ok_or_else(gone)?;
    let stream = match shared.ways.reach(&record, &shared.identity).await {
        Ok(stream) => stream,
        // Nothing accepts it, so the process has ended.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(gone()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let request = outgoing(node, request).map_err(|error| failed(error.to_string()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
    scope.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: "cluster", %error, "a connection to another node ended early");
        }
    });
    let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    Ok(response.map(|body| -> RelayBody {
        Box::pin(body.map_err(|error| RelayError::from(CallError::lost(error.to_string()))))
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
