//! `initialize`: the handler is asked to introduce itself in modern terms, and the client hears it in its own.

use std::sync::Arc;
use std::time::Duration;

use toolyard_proto::{CallError, Id, Method, Params, Raw, Revision, legacy};

use toolyard_model::{AnswerBody, ClientKey, Handler, Origin, Peer, Principal, Request, View};

/// A handshake that succeeded.
pub(crate) struct Met {
    pub(crate) origin: Arc<Origin>,
    /// The `InitializeResult`.
    pub(crate) result: Raw,
}

/// Who says hello, and where.
pub(crate) struct Caller {
    pub(crate) view: View,
    pub(crate) principal: Principal,
    pub(crate) client: ClientKey,
}

pub(crate) async fn greet(
    handler: &Arc<dyn Handler>,
    patience: Duration,
    caller: Caller,
    id: Id,
    params: Option<Params>,
) -> Result<Met, CallError> {
    let params = params.unwrap_or_default();
    let version = params
        .member("protocolVersion")
        .and_then(|version| version.as_string())
        .ok_or_else(|| CallError::invalid_params("`protocolVersion` must be a string"))?;
    let revision = Revision::negotiate(&version);
    let origin = Arc::new(
        Origin::new(caller.view, caller.principal, caller.client, revision)
            .with_capabilities(
                params.member("capabilities").filter(Raw::is_object).unwrap_or_else(Raw::empty_object),
            )
            .with_client_info(params.member("clientInfo").filter(Raw::is_object)),
    );
    let request = Request::new(origin.clone(), id, Method::DISCOVER, Params::none());
    let answer = tokio::time::timeout(patience, handler.handle(request, Peer::nobody())).await;
    match answer.map_err(|_| CallError::timeout("the server did not introduce itself in time"))?? {
        AnswerBody::Whole(said, form) => {
            Ok(Met { origin, result: legacy::initialize_result(revision, &said, form) })
        }
        AnswerBody::Stream(_) => Err(CallError::internal("server/discover was answered with a stream")),
    }
}
