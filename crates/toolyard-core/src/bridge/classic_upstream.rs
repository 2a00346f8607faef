//! A modern client at an older upstream: the envelope is taken off, the stamps are put on, and an upstream that
//! wants the user to visit a page first is asked again once the user has.

use toolyard_proto::splice::elements;
use toolyard_proto::{CallError, Kind, Method, Raw, modern};
use toolyard_transport::{Answer, AnswerBody, Ask, Link, LinkRequest, Peer};

use super::convert;
use crate::call::Call;

/// How often an upstream may send the user to a page before the call is given up.
const MOST_VISITS: u32 = 3;
/// The error by which a 2025-11-25 server says that the user has to visit a page first.
const VISIT_REQUIRED: i32 = -32042;

pub(super) async fn converse(call: Call, link: &dyn Link) -> Answer {
    if call.params.member("requestState").is_some() || call.params.member("inputResponses").is_some() {
        let message = "this `requestState` is not known here (any more); make the call again without it and without \
                       `inputResponses`";
        return Err(CallError::invalid_params(message));
    }
    let request = LinkRequest {
        origin: call.origin,
        id: call.id,
        params: modern::strip_request(&call.params),
        method: call.method,
        headers: None,
        name: None,
        relay: false,
    };
    for _ in 0..MOST_VISITS {
        match link.call(request.clone(), call.peer.clone()).await {
            Err(error) if error.code() == VISIT_REQUIRED => visit(&error, &call.peer).await?,
            answer => return finished(&request.method, link, answer),
        }
    }
    Err(CallError::bad_answer("the upstream keeps sending the user to pages without going on"))
}

fn finished(method: &Method, link: &dyn Link, answer: Answer) -> Answer {
    match answer {
        Ok(AnswerBody::Whole(result, _)) => {
            let server_info = link.greeting().server_info.as_ref();
            Ok(AnswerBody::ours(convert::result_from_older(method, &result, server_info)))
        }
        Err(error) => Err(convert::error_from_older(method, error)),
        answer => answer,
    }
}

/// Asks the user to visit every page that the error names; only if all agree is it worth going on.
async fn visit(error: &CallError, peer: &Peer) -> Result<(), CallError> {
    let Kind::Reported(raw) = &error.kind else { return Err(error.clone()) };
    let pages = raw.at(&["data", "elicitations"]).unwrap_or_else(Raw::empty_object);
    let pages: Vec<Raw> = elements(pages.as_bytes()).map(|range| pages.slice(range)).collect();
    if pages.is_empty() {
        return Err(error.clone());
    }
    for page in pages {
        let ask =
            Ask { method: Method::ELICIT, params: Some(page.with("mode", &Raw::from_serialize(&"url"))) };
        let answer = peer.ask(ask).await;
        let accepted = answer.is_ok_and(|answer| {
            answer.member("action").is_some_and(|action| action.as_bytes() == b"\"accept\"")
        });
        if !accepted {
            return Err(CallError::cannot_ask(format!(
                "{}, and the user did not agree to it",
                error.message
            )));
        }
    }
    Ok(())
}
