//! Forwards requests whose session or parked call is on another node, and returns the answer of that node.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use toolyard_model::answer::RelayBody;
use toolyard_model::{Forwarded, PassedOn, Principal, View};
use toolyard_proto::error::code;
use toolyard_proto::{Params, RpcError};

use super::ServeBody;
use super::admit::Admitted;
use super::endpoint::Endpoint;
use super::head::Fields;
use super::legacy::http::SESSION;
use super::public::{PageRequest, PublicPages};
use super::reply::{self, HttpResponse};

/// Headers that are not forwarded: they belong to one connection, or name the caller, which nodes do with a header of
/// their own.
const OWN: [HeaderName; 5] = [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

/// The node that holds the session of a request, if it is another one.
pub(super) fn session(endpoint: &Endpoint, fields: Fields<'_>) -> Option<String> {
    let nodes = endpoint.options.nodes.as_ref()?;
    let (id, mark) = fields.text(&SESSION)?.split_once('.')?;
    nodes.session_elsewhere(id, mark)
}

/// The node that holds the parked call that a request continues, the task that it is about or the handle that it uses, if
/// it is another one. A request that another node has relayed is for this node.
pub(super) fn parked(endpoint: &Endpoint, admitted: &Admitted, params: Option<&Params>) -> Option<String> {
    let nodes = endpoint.options.nodes.as_ref().filter(|_| !admitted.is_relayed)?;
    let text = |name: &str| params?.member(name)?.as_string();
    let handle = || params?.member("arguments")?.member("handle")?.as_string();
    nodes.parked_elsewhere(&text("requestState").or_else(|| text("taskId")).or_else(handle)?)
}

/// The page of a sign-in that was begun at another node, as that node shows it.
pub(super) async fn page(
    endpoint: &Endpoint,
    pages: &dyn PublicPages,
    request: &PageRequest,
) -> Option<HttpResponse> {
    let nodes = endpoint.options.nodes.as_ref()?;
    let node = nodes.parked_elsewhere(&pages.sign_in(request)?)?;
    let PageRequest { method, path, query } = request;
    let path = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
    // These pages need no credentials and read no headers.
    let caller =
        PassedOn { principal: Principal::gateway(), is_proven: false, is_relayed: true, called: None };
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    let page = Forwarded { method: method.clone(), path, headers, body, caller };
    Some(match nodes.forward(&node, page).await {
        Ok(answer) => received(answer),
        Err(refused) => reply::text(refused.status, format!("{}\n", refused.reason)),
    })
}

fn received(answer: http::Response<RelayBody>) -> HttpResponse {
    let (mut head, body) = answer.into_parts();
    for name in [CONNECTION, TRANSFER_ENCODING] {
        head.headers.remove(name);
    }
    HttpResponse::from_parts(head, ServeBody::live(body))
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
            called: admitted.called,
        };
        let path = format!("/mcp/{view}");
        match nodes.forward(&node, Forwarded { method, path, headers, body, caller }).await {
            Ok(answer) => received(answer),
            Err(refused) => {
                let error = RpcError::new(code::INVALID_REQUEST, refused.reason);
                let mut response = reply::refusal(refused.status, None, &error);
                // After a 502 the call may have been carried out.
                if refused.status == http::StatusCode::SERVICE_UNAVAILABLE {
                    response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                response
            }
        }
    }
}
