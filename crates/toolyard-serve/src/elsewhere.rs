//! Requests of clients whose session or parked call is on another node: they are passed on whole, and the answer of
//! that node is the answer.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use toolyard_model::{Forwarded, PassedOn, View};
use toolyard_proto::error::code;
use toolyard_proto::{Params, RpcError};

use super::ServeBody;
use super::admit::Admitted;
use super::endpoint::Endpoint;
use super::fields::Fields;
use super::legacy::http::SESSION;
use super::reply::{self, HttpResponse};

/// Headers that belong to one connection, or name the caller, which the nodes do in their own way.
const OWN: [HeaderName; 5] = [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

/// The node that holds the session of a request, if it is another one.
pub(super) fn session(endpoint: &Endpoint, fields: Fields<'_>) -> Option<String> {
    let nodes = endpoint.options.nodes.as_ref()?;
    let (id, mark) = fields.text(&SESSION)?.split_once('.')?;
    nodes.session_elsewhere(id, mark)
}

/// The node that holds the parked call that a request continues, or the handle that it uses, if it is another one.
pub(super) fn parked(endpoint: &Endpoint, params: Option<&Params>) -> Option<String> {
    let nodes = endpoint.options.nodes.as_ref()?;
    let state = params?.member("requestState").and_then(|state| state.as_string());
    let handle = || params?.member("arguments")?.member("handle")?.as_string();
    nodes.parked_elsewhere(&state.or_else(handle)?)
}

/// A request on its way to another node.
pub(super) struct Departing {
    pub(super) node: String,
    pub(super) method: Method,
    pub(super) view: View,
    pub(super) admitted: Admitted,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Departing {
    pub(super) async fn answer(self, endpoint: &Endpoint) -> HttpResponse {
        let Self { node, method, view, admitted, mut headers, body } = self;
        let Some(nodes) = &endpoint.options.nodes else { return reply::empty(http::StatusCode::NOT_FOUND) };
        for name in &OWN {
            headers.remove(name);
        }
        let caller = PassedOn {
            is_proven: admitted.proves_user(),
            principal: admitted.principal,
            is_relayed: admitted.is_relayed,
        };
        let path = format!("/mcp/{view}");
        match nodes.forward(&node, Forwarded { method, path, headers, body, caller }).await {
            Ok(answer) => {
                let (mut head, body) = answer.into_parts();
                for name in [CONNECTION, TRANSFER_ENCODING] {
                    head.headers.remove(name);
                }
                HttpResponse::from_parts(head, ServeBody::live(body))
            }
            Err(refused) => {
                let error = RpcError::new(code::INVALID_REQUEST, refused.reason);
                let mut response = reply::refusal(refused.status, None, &error);
                if refused.status.is_server_error() {
                    response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                response
            }
        }
    }
}
