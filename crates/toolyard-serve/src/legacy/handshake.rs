//! `initialize`: the handler describes itself in modern terms, and the client receives that in its own.

use std::sync::Arc;
use std::time::Duration;

use toolyard_proto::{CallError, Id, Method, Params, Raw, Revision, legacy};

use toolyard_model::{AnswerBody, ClientKey, Handler, Origin, Peer, Request, View};

use crate::admit::Admitted;

/// How many bytes of its client's handshake a session may keep.
const MAX_DECLARED: usize = 64 * 1024;

/// A handshake that succeeded.
pub(crate) struct Handshake {
    pub(crate) origin: Arc<Origin>,
    /// The `InitializeResult`.
    pub(crate) result: Raw,
}

/// The client of a handshake, and its view.
pub(crate) struct HandshakeCaller {
    pub(crate) view: View,
    pub(crate) admitted: Admitted,
    pub(crate) client: ClientKey,
}

pub(crate) async fn greet(
    handler: &Arc<dyn Handler>,
    patience: Duration,
    caller: HandshakeCaller,
    id: Id,
    params: Option<Params>,
) -> Result<Handshake, CallError> {
    let params = params.unwrap_or_default();
    let version = params
        .member("protocolVersion")
        .and_then(|version| version.as_string())
        .ok_or_else(|| CallError::invalid_params("`protocolVersion` must be a string"))?;
    let revision = Revision::negotiate(&version);
    let (capabilities, client_info) = declared(&params)?;
    let HandshakeCaller { view, admitted, client } = caller;
    let is_proven = admitted.proves_user();
    let origin = Arc::new(
        Origin::new(view, admitted.principal, client, revision)
            .with_capabilities(capabilities.unwrap_or_else(Raw::empty_object))
            .with_client_info(client_info)
            .with_place(is_proven, admitted.folder)
            .with_relayed(admitted.is_relayed)
            .with_transport(admitted.transport),
    );
    let request = Request::new(origin.clone(), id, Method::DISCOVER, Params::none());
    let answer = tokio::time::timeout(patience, handler.handle(request, Peer::none())).await;
    match answer.map_err(|_| CallError::timeout("the server did not answer `initialize` in time"))?? {
        AnswerBody::Whole(introduction, form) => {
            Ok(Handshake { origin, result: legacy::initialize_result(revision, &introduction, form) })
        }
        AnswerBody::Stream(_) => Err(CallError::internal("server/discover was answered with a stream")),
    }
}

/// Capabilities and client info. They are copied, so that a session does not keep the whole request.
fn declared(params: &Params) -> Result<(Option<Raw>, Option<Raw>), CallError> {
    let member = |key| params.member(key).filter(Raw::is_object);
    let capabilities = member("capabilities");
    let client_info = member("clientInfo");
    let length = |raw: &Option<Raw>| raw.as_ref().map_or(0, Raw::len);
    if length(&capabilities) + length(&client_info) > MAX_DECLARED {
        let text = format!("`capabilities` and `clientInfo` may take at most {MAX_DECLARED} bytes together");
        return Err(CallError::invalid_params(text));
    }
    let copy = |raw: Raw| Raw::parse(raw.as_str().to_owned()).ok();
    Ok((capabilities.and_then(copy), client_info.and_then(copy)))
}
