//! Reads the body of a POST that hyper serves: type, size and nesting are checked, and a late body has a deadline.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::timeout;
use toolyard_model::View;

use super::body_budget::Reservation;
use super::endpoint::Endpoint;
use super::head::Fields;
use super::reply::{self, HttpResponse};
use super::request::{self, refuse_by_depth, refuse_by_headers, too_large};
use crate::admit::Admitted;

/// Reads a posted message and answers it.
pub(super) fn post(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    request: Request<Incoming>,
) -> impl Future<Output = HttpResponse> {
    let (Parts { headers, .. }, body) = request.into_parts();
    async move {
        // The reservation is held until the request is answered.
        let (bytes, _reservation) = match read(endpoint, &headers, body).await {
            Ok(read) => read,
            Err(refusal) => return *refusal,
        };
        let started = request::start(endpoint, view, admitted, Fields::Map(&headers), &bytes);
        started.respond(endpoint).await.into_http()
    }
}

/// The body of a POST, if it can be a message at all.
pub(super) async fn read(
    endpoint: &Endpoint,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<(Bytes, Reservation), Box<HttpResponse>> {
    let fields = Fields::Map(headers);
    if let Some(refusal) =
        refuse_by_headers(fields).or_else(|| refuse_by_length(fields, endpoint.options.body_limit))
    {
        return Err(Box::new(refusal));
    }
    let (bytes, reservation) = read_body(body, endpoint).await?;
    refuse_by_depth(&bytes).map_or(Ok((bytes, reservation)), |refusal| Err(Box::new(refusal)))
}

fn refuse_by_length(fields: Fields<'_>, limit: usize) -> Option<HttpResponse> {
    let length = fields.text(&CONTENT_LENGTH)?.parse::<usize>().ok()?;
    (length > limit).then(too_large)
}

/// The whole body. Most arrive together with the headers; only a late one costs a timer.
pub(super) async fn read_body(
    mut body: Incoming,
    endpoint: &Endpoint,
) -> Result<(Bytes, Reservation), Box<HttpResponse>> {
    let mut reader = BodyReader {
        first: Bytes::new(),
        more: BytesMut::new(),
        expected: body.size_hint().exact().and_then(|length| usize::try_from(length).ok()).unwrap_or(0),
        limit: endpoint.options.body_limit,
        reservation: endpoint.bodies.reserve(),
    };
    let at_once = poll_fn(|cx| Poll::Ready(reader.poll(&mut body, cx))).await;
    let outcome = match at_once {
        Poll::Ready(done) => done,
        Poll::Pending => Box::pin(in_time(endpoint, poll_fn(|cx| reader.poll(&mut body, cx)))).await,
    };
    outcome.map_err(Box::new)?;
    Ok(reader.take())
}

/// Waits for a late body, but not while the endpoint ends.
async fn in_time(
    endpoint: &Endpoint,
    gathering: impl Future<Output = Result<(), HttpResponse>>,
) -> Result<(), HttpResponse> {
    let timely = timeout(endpoint.options.patience, gathering);
    match endpoint.ending.unless_ended(timely).await {
        Some(Ok(gathered)) => gathered,
        Some(Err(_)) => {
            let text = "the request body did not arrive in time\n";
            Err(reply::text(StatusCode::REQUEST_TIMEOUT, text))
        }
        None => Err(reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n")),
    }
}

/// A body as it arrives. Most arrive in one piece, which is kept as it is; others are collected in one buffer.
struct BodyReader {
    first: Bytes,
    more: BytesMut,
    /// How long the body is, if that is known.
    expected: usize,
    limit: usize,
    reservation: Reservation,
}

impl BodyReader {
    fn poll(&mut self, body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Result<(), HttpResponse>> {
        while !body.is_end_stream() {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => break,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.add(data).map_err(|refusal| *refusal)?;
                    }
                }
                Some(Err(_)) => {
                    let text = "the request body could not be read\n";
                    return Poll::Ready(Err(reply::text(StatusCode::BAD_REQUEST, text)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn add(&mut self, data: Bytes) -> Result<(), Box<HttpResponse>> {
        if self.first.len() + self.more.len() + data.len() > self.limit {
            return Err(Box::new(too_large()));
        }
        if !self.reservation.extend(data.len()) {
            return Err(Box::new(too_many_bodies()));
        }
        if self.first.is_empty() && self.more.is_empty() {
            self.first = data;
            return Ok(());
        }
        if self.more.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.more = BytesMut::with_capacity(self.expected.max(first.len() + data.len()));
            self.more.extend_from_slice(&first);
        }
        self.more.extend_from_slice(&data);
        Ok(())
    }

    fn take(self) -> (Bytes, Reservation) {
        let bytes = if self.more.is_empty() { self.first } else { self.more.freeze() };
        (bytes, self.reservation)
    }
}

/// The bodies of other requests use all the memory that is allowed for them.
fn too_many_bodies() -> HttpResponse {
    let text = "too many large requests are in progress; try again later\n";
    let mut response = reply::text(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
