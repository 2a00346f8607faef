//! The gateway's own requests to an upstream, and errors that concern the hop between the two.

use std::sync::Arc;

use toolyard_model::{LinkRequest, Origin};
use toolyard_proto::error::code;
use toolyard_proto::{CallError, Fault, Id, Method, Raw, Retry, Revision};

/// An error of an upstream, checked whether it concerns our hop and not the client's request: our
/// headers or our protocol version were refused. Such an error keeps its kind, with the upstream as its origin, so that
/// the caller of the link can recover; it must not reach the client unchanged.
pub(crate) fn own_hop(error: CallError) -> CallError {
    let own = match error.code() {
        code::HEADER_MISMATCH => CallError::header_mismatch("the upstream rejected the gateway's headers"),
        code::UNSUPPORTED_VERSION => CallError::unsupported_version(Revision::NEWEST.as_str())
            .with_reason("the upstream rejected the gateway's protocol version"),
        _ => return error,
    };
    let own = own.because(error.message()).with_origin(Fault::Upstream).with_retry(Retry::Always);
    error.upstream.iter().fold(own, CallError::at)
}

/// The gateway's own request to an upstream, as part of the handshake.
pub(crate) fn own_request(origin: &Arc<Origin>, id: Id, method: Method, params: Raw) -> LinkRequest {
    LinkRequest::new(origin.clone(), id, method, params)
}
