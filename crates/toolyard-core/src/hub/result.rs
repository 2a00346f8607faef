//! Results of instances that are not tool results. Some dev servers answer `tools/call` with plain JSON; clients
//! would reject it, so it becomes the text and the structured content of a tool result.

use toolyard_model::{Answer, AnswerBody};
use toolyard_proto::{Method, app};

use crate::plan::UpstreamKind;
use crate::upstream::Upstream;

/// Whether answers of this upstream to this method may have to be wrapped.
pub(crate) fn may_need_wrapping(upstream: &Upstream, method: &Method) -> bool {
    upstream.kind() == UpstreamKind::Instance && *method == Method::TOOLS_CALL
}

/// The answer with a result that is a tool result. One that is a tool result already is not touched.
pub(crate) fn wrapped(answer: Answer) -> Answer {
    match answer {
        Ok(AnswerBody::Whole(result, revision)) => {
            let wrapped = app::wrap_plain_result(&result);
            Ok(AnswerBody::Whole(wrapped.unwrap_or(result), revision))
        }
        other => other,
    }
}
