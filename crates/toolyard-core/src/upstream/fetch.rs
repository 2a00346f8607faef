//! Fetches what an upstream offers: every list it declares, every page of each.

use std::sync::Arc;
use std::time::Duration;

use toolyard_model::{AnswerBody, Link, LinkRequest, Origin, Peer};
use toolyard_proto::error::code;
use toolyard_proto::modern::SERVER_INFO;
use toolyard_proto::splice::{elements, members};
use toolyard_proto::{CallError, Id, Kind, Method, Raw};

use crate::bridge;
use crate::catalog::{CacheHints, ListKind, ListRead};

const PAGE_WAIT: Duration = Duration::from_secs(30);
/// A server whose pages never end is cut off here.
const MOST_PAGES: usize = 10_000;

/// All entries of one list, with how it may be kept; `None` if the upstream does not declare the list.
pub(super) async fn fetch(
    link: Arc<dyn Link>,
    origin: Arc<Origin>,
    kind: ListKind,
) -> Result<ListRead, CallError> {
    if link.greeting().capabilities.member(kind.capability()).is_none() {
        return Ok(ListRead::default());
    }
    let has_stamps = link.greeting().revision.has_result_stamps();
    let mut read = ListRead::default();
    let mut cursor: Option<Raw> = None;
    for page in 0..MOST_PAGES {
        let result = match ask(link.as_ref(), &origin, kind, cursor.as_ref(), page).await {
            Err(error) if page == 0 && error.code() == code::METHOD_NOT_FOUND => return Ok(read),
            result => result?,
        };
        let list = result.member(kind.key()).ok_or_else(|| {
            CallError::bad_answer(format!("its answer to `{}` has no `{}`", kind.method(), kind.key()))
        })?;
        read.entries.extend(elements(list.as_bytes()).map(|range| list.slice(range)));
        let hints = CacheHints::of(&result, has_stamps);
        read.hints = if page == 0 { hints } else { read.hints.and(hints) };
        read.meta = read.meta.or_else(|| list_meta(&result));
        let next = result.member("nextCursor").filter(|next| !next.is_null());
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    Ok(read)
}

/// The `_meta` of an answer without the server's name, which the gateway writes itself.
fn list_meta(result: &Raw) -> Option<Raw> {
    let meta = result.member("_meta").filter(Raw::is_object)?.without(&[SERVER_INFO]);
    members(meta.as_bytes()).next().is_some().then_some(meta)
}

async fn ask(
    link: &dyn Link,
    origin: &Arc<Origin>,
    kind: ListKind,
    cursor: Option<&Raw>,
    page: usize,
) -> Result<Raw, CallError> {
    let params = cursor.map_or_else(Raw::empty_object, |cursor| Raw::empty_object().with("cursor", cursor));
    let request = own_request(link, origin, kind.method(), params, &format!("yard-{}-{page}", kind.key()));
    let Ok(answer) = tokio::time::timeout(PAGE_WAIT, link.call(request, Peer::none())).await else {
        return Err(CallError::timeout(format!(
            "no answer to `{}` within {} s",
            kind.method(),
            PAGE_WAIT.as_secs()
        )));
    };
    match answer.map_err(of_own_request)? {
        AnswerBody::Whole(result, _) => Ok(result),
        AnswerBody::Stream(_) => Err(CallError::internal("a whole answer was asked for")),
    }
}

/// No client's call was under way, so the hint about one is left out.
fn of_own_request(error: CallError) -> CallError {
    if error.kind != Kind::Lost {
        return error;
    }
    let reason = error.reason.clone().without_hint();
    error.with_reason(reason)
}

/// Whether a notification announces that a list has changed.
pub(super) fn is_list_change(method: &Method) -> bool {
    [Method::TOOLS_CHANGED, Method::PROMPTS_CHANGED, Method::RESOURCES_CHANGED].contains(method)
}

/// A request of the gateway itself.
pub(super) fn own_request(
    link: &dyn Link,
    origin: &Arc<Origin>,
    method: Method,
    params: Raw,
    id: &str,
) -> LinkRequest {
    let params = bridge::own_params(link.greeting().revision, origin, params);
    LinkRequest::new(origin.clone(), Id::string(id), method, params)
}
