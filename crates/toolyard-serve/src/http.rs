//! The HTTP listener: accepts connections, makes the checks that come before a message is read, and passes the
//! message to the code for its era.

mod answer;
mod hyper;
mod head;
mod out;
mod plain_connection;
mod fast_path;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::hyper::body::Incoming;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderValue, Method, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolyard_model::{Control, PassedOn, Principal, PrincipalId, Scope, View};

use super::accept::{Entry, Room, accept_all};
use super::elsewhere::{self, Departing};
use super::endpoint::{Endpoint, OpenConnection};
use super::fields::Fields;
use super::guard::Guard;
use super::headers::FOLDER;
use super::poll_inline::PollInline;
use super::reply::{self, HttpResponse};
use super::write_timeout::WriteTimeout;
use super::{control, cors, legacy, pages, post, public};
use crate::admit::{Admitted, Challenge, Denial, Ticket};
use hyper::Handoff;

/// How long a request head may take, and an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long connections may finish their answers when the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// One listener: the endpoint and what this listener checks.
struct Door {
    endpoint: Arc<Endpoint>,
    guard: Guard,
    proof: Proof,
}

/// What a connection proves by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Nothing,
    /// It belongs to the user that runs this process, as only a local socket can prove.
    Owner,
    /// It comes from another node, which names the caller.
    Node,
}

/// Serves HTTP on a local socket, from which `unread` was read already. The client is the user that runs this
/// process, which makes it an operator.
pub(super) async fn serve_local_http<S>(stream: S, unread: Bytes, endpoint: Arc<Endpoint>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = WriteTimeout::new(stream, endpoint.options.patience).with_unread(unread);
    let handoff = Handoff { stream, head_by: Instant::now() + HEAD_TIMEOUT };
    let door = Arc::new(Door { endpoint, guard: Guard::default(), proof: Proof::Owner });
    Box::pin(hyper::serve(door, handoff, Arc::default())).await;
}

/// Serves HTTP to another node, whose identity the stream has proven.
pub async fn serve_node<S>(stream: S, endpoint: Arc<Endpoint>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _open = OpenConnection::new(&endpoint);
    let stream = WriteTimeout::new(stream, endpoint.options.patience);
    let handoff = Handoff { stream, head_by: Instant::now() + HEAD_TIMEOUT };
    let door = Arc::new(Door { endpoint, guard: Guard::default(), proof: Proof::Node });
    Box::pin(hyper::serve(door, handoff, Arc::default())).await;
}

/// Accepts connections until `scope` or the endpoint ends.
pub async fn serve_http(listener: TcpListener, endpoint: Arc<Endpoint>, scope: Scope) {
    let (guard, room) = (Guard::of(&listener, &endpoint.options), Room::new(&endpoint));
    let door = Arc::new(Door { endpoint, guard, proof: Proof::Nothing });
    accept_all(listener, &door.endpoint, &scope, |stream| match room.enter(&door.endpoint.counts) {
        Entry::Welcome(permit) => scope.spawn(door.clone().serve_connection(stream, permit)),
        Entry::Refused(permit) => scope.spawn(refuse_connection(stream, permit)),
        Entry::Dropped => {}
    })
    .await;
}

impl Door {
    async fn serve_connection(self: Arc<Self>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        let _open = OpenConnection::new(&self.endpoint);
        tracing::debug!(target: "clients", from = stream.peer_addr().ok().map(tracing::field::display), "connected over HTTP");
        let from = stream.peer_addr().ok().map(|address| address.ip());
        PollInline::new(async move {
            let stream = WriteTimeout::new(stream, self.endpoint.options.patience);
            let ticket = Arc::new(Ticket::of(from));
            match fast_path::serve(&self, stream, &ticket).await {
                Ok(None) => {}
                Ok(Some(handoff)) => Box::pin(hyper::serve(self, handoff, ticket)).await,
                Err(error) => tracing::debug!(%error, "a connection ended early"),
            }
        })
        .await;
    }

    /// Made for every request and moved, so it is small and rare cases are boxed.
    fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        ticket: &Arc<Ticket>,
    ) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<> {
        let headers = request.headers();
        let destination = match self.route_request(&request, ticket) {
            Destination::Refused(response) => Destination::Refused(response),
            _ if cors::is_preflight(request.method(), headers) => {
                Destination::Answered(Box::new(cors::preflight(headers)))
            }
            destination => destination,
        };
        let origin = headers.get(ORIGIN).filter(|_| !matches!(destination, Destination::Refused(_))).cloned();
        let ticket = matches!(destination, Destination::Unverified(_)).then(|| ticket.clone());
        async move {
            let mut response = match (destination, ticket) {
                (Destination::Unverified(token), Some(ticket)) => {
                    Box::pin(self.verify_and_answer(&token, &ticket, request)).await
                }
                (destination, _) => self.answer(destination, request).await,
            };
            if let Some(origin) = origin {
                cors::allow(origin, &mut response);
            }
            Ok(response)
        }
    }

    async fn verify_and_answer(
        &self,
        token: &str,
        ticket: &Ticket,
        request: Request<Incoming>,
    ) -> HttpResponse {
        self.verify(Fields::Map(request.headers()), ticket, token).await;
        self.answer(self.route_request(&request, ticket), request).await
    }

    /// Asks the issuer of a token about it. The next [`Door::route`] knows the outcome.
    async fn verify(&self, fields: Fields<'_>, ticket: &Ticket, token: &str) {
        if let Some(authorization) = fields.first(&AUTHORIZATION) {
            self.endpoint.options.gate.verify_on(ticket, authorization, token).await;
        }
    }

    async fn answer(&self, destination: Destination, request: Request<Incoming>) -> HttpResponse {
        let endpoint = &self.endpoint;
        match destination {
            Destination::Refused(response) | Destination::Answered(response) => *response,
            Destination::Unverified(_) => {
                reply::text(StatusCode::SERVICE_UNAVAILABLE, "the token cannot be checked now; try again\n")
            }
            Destination::Page(path) => match &endpoint.pages {
                Some(pages) => {
                    pages::answer(&**pages, request.method(), &path, Fields::Map(request.headers()))
                }
                None => reply::text(StatusCode::NOT_FOUND, "this gateway has no dashboard\n"),
            },
            Destination::Elsewhere => {
                reply::text(StatusCode::NOT_FOUND, "nothing here; MCP is served at /mcp\n")
            }
            Destination::Public => match &endpoint.options.public_pages {
                Some(pages) => Box::pin(public::answer(pages.as_ref(), &request)).await,
                None => reply::text(StatusCode::NOT_FOUND, "there is no such page\n"),
            },
            Destination::Control(control, admitted) => {
                Box::pin(control::answer(endpoint, &control, admitted, request)).await
            }
            Destination::Events(view, admitted) => {
                Box::pin(legacy::sse::answer(endpoint, view, admitted, request)).await
            }
            Destination::Mcp(view, admitted) => match *request.method() {
                Method::GET | Method::DELETE
                    if let Some(node) = elsewhere::session(endpoint, Fields::Map(request.headers())) =>
                {
                    let (head, _) = request.into_parts();
                    let (method, headers, body) = (head.method, head.headers, Bytes::new());
                    let departing = Departing { node, method, view, admitted, headers, body };
                    Box::pin(departing.answer(endpoint)).await
                }
                Method::POST => post::post(endpoint, view, admitted, request).await,
                Method::GET => {
                    Box::pin(legacy::http::get(endpoint, &view, &admitted, request.headers())).await
                }
                Method::DELETE => {
                    Box::pin(legacy::http::delete(endpoint, &view, &admitted, request.headers())).await
                }
                _ => method_not_allowed(),
            },
        }
    }

    /// A folder counts only on a connection that proves its user, so it is not read on any other.
    fn admit(
        &self,
        path: &str,
        place: &Place<'_>,
        fields: Fields<'_>,
        ticket: &Ticket,
    ) -> Result<Admitted, Denial> {
        let admitted = self.identify(path, place, fields, ticket)?;
        if !admitted.proves_user() {
            return Ok(admitted);
        }
        Ok(admitted.in_folder(fields.text(&FOLDER)))
    }

    fn identify(
        &self,
        path: &str,
        place: &Place<'_>,
        fields: Fields<'_>,
        ticket: &Ticket,
    ) -> Result<Admitted, Denial> {
        let gate = &self.endpoint.options.gate;
        // Of two credentials, neither counts: it is unclear which one is meant.
        let authorization = fields.once(&AUTHORIZATION).unwrap_or_default();
        if self.proof == Proof::Node {
            let caller =
                authorization.and_then(PassedOn::from_header).filter(|_| matches!(place, Place::Mcp(_)));
            return caller.map(Admitted::passed_on).ok_or_else(|| Denial::Answer(Challenge::node()));
        }
        if let Some(operator) = self.endpoint.ui_access.admit(authorization) {
            return Ok(operator);
        }
        if matches!(place, Place::Exchange) {
            return Ok(Admitted::unproven(Principal::local()));
        }
        if self.proof != Proof::Owner {
            return gate.admit_on(ticket, path, authorization);
        }
        // An operator is recognised by the socket. Elsewhere the principal matters where tokens are made from a
        // secret, so one must be presented.
        if authorization.is_none() && (matches!(place, Place::Control | Place::Metrics) || !gate.is_signed())
        {
            return Ok(Admitted::unproven(Principal::local()).as_operator());
        }
        let admitted = gate.admit_on(ticket, path, authorization)?;
        // A run that acts for the user is not the user.
        let is_run = matches!(admitted.principal.id(), PrincipalId::Delegate { .. });
        Ok(if is_run { admitted } else { admitted.as_operator() })
    }

    fn route_request(&self, request: &Request<Incoming>, ticket: &Ticket) -> Destination {
        let uri = request.uri();
        self.route(uri.path(), uri.authority(), Fields::Map(request.headers()), ticket)
    }

    /// What the head of a request leads to.
    fn route(
        &self,
        path: &str,
        authority: Option<&Authority>,
        fields: Fields<'_>,
        ticket: &Ticket,
    ) -> Destination {
        let answered = |response| Destination::Answered(Box::new(response));
        match path {
            "/healthz" => return answered(reply::text(StatusCode::OK, "ok\n")),
            "/readyz" if self.endpoint.ending.is_ended() => {
                return answered(reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n"));
            }
            "/readyz" => return answered(reply::text(StatusCode::OK, "ready\n")),
            _ => {}
        }
        if let Some(reason) = self.guard.refusal(authority, fields) {
            return Destination::Refused(Box::new(reply::text(StatusCode::FORBIDDEN, format!("{reason}\n"))));
        }
        let Some(place) = place(path) else {
            let is_public = self.endpoint.options.public_pages.is_some() && public::is_public(path);
            return if is_public { Destination::Public } else { Destination::Elsewhere };
        };
        if let Place::Page(path) = place {
            return Destination::Page(path.to_owned());
        }
        if place.is_for_own_pages()
            && let Some(reason) = self.guard.refusal_of_other_pages(fields)
        {
            return Destination::Refused(Box::new(reply::text(StatusCode::FORBIDDEN, format!("{reason}\n"))));
        }
        let admitted = match self.admit(path, &place, fields, ticket) {
            Ok(admitted) => admitted,
            Err(Denial::Unverified(token)) => return Destination::Unverified(token),
            Err(Denial::Answer(challenge)) => return answered(denied(challenge)),
        };
        let rest = match place {
            Place::Control | Place::Exchange | Place::Metrics => match &self.endpoint.control {
                Some(control) => return Destination::Control(control.clone(), admitted),
                None => return Destination::Elsewhere,
            },
            Place::Page(_) => return Destination::Elsewhere,
            Place::Mcp(rest) | Place::Events(rest) => rest,
        };
        match View::parse(rest).filter(|view| self.endpoint.handler.offers(view)) {
            None => {
                let base = if matches!(place, Place::Events(_)) { "/sse" } else { "/mcp" };
                tracing::debug!(target: "clients", path, "there is no such view");
                answered(reply::text(StatusCode::NOT_FOUND, format!("there is no view {base}/{rest}\n")))
            }
            Some(view) if matches!(place, Place::Events(_)) => Destination::Events(view, admitted),
            Some(view) => Destination::Mcp(view, admitted),
        }
    }
}

/// Where a request goes, decided by its head.
enum Destination {
    /// The Host or Origin is not accepted.
    Refused(Box<HttpResponse>),
    /// It is answered already.
    Answered(Box<HttpResponse>),
    Elsewhere,
    /// The issuer of this token has to be asked first.
    Unverified(Box<str>),
    /// A file of the dashboard.
    Page(String),
    /// A page or document that needs no credentials.
    Public,
    Control(Arc<dyn Control>, Admitted),
    Events(View, Admitted),
    Mcp(View, Admitted),
}

fn denied(challenge: Challenge) -> HttpResponse {
    let mut response = reply::text(challenge.status, format!("{}\n", challenge.text));
    match challenge.header {
        Some(header) => response.headers_mut().insert(WWW_AUTHENTICATE, header),
        None => response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5")),
    };
    response
}

pub(super) fn method_not_allowed() -> HttpResponse {
    let mut response = reply::text(StatusCode::METHOD_NOT_ALLOWED, "send messages with POST\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Our paths, with what follows them.
#[derive(Clone, Copy)]
enum Place<'a> {
    Mcp(&'a str),
    /// Where clients of HTTP+SSE (2024-11-05) connect.
    Events(&'a str),
    Control,
    /// Where the dashboard exchanges a code for a token; the code is the credential.
    Exchange,
    Metrics,
    Page(&'a str),
}

impl Place<'_> {
    /// Whether only pages that this gateway serves itself may use it, and no pages of other programs on this machine.
    fn is_for_own_pages(&self) -> bool {
        matches!(self, Self::Control | Self::Exchange | Self::Metrics)
    }
}

fn place(path: &str) -> Option<Place<'_>> {
    let after = |base: &str| {
        let rest = path.strip_prefix(base)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    };
    after("/mcp")
        .map(Place::Mcp)
        .or_else(|| after("/sse").map(Place::Events))
        .or_else(|| after(control::BASE).map(control_place))
        .or_else(|| (path == control::METRICS).then_some(Place::Metrics))
        .or_else(|| after(pages::BASE).map(Place::Page))
}

fn control_place(rest: &str) -> Place<'_> {
    if rest == control::EXCHANGE { Place::Exchange } else { Place::Control }
}

/// Answers that there is no room, and waits a moment so that the client can read it.
async fn refuse_connection(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let say = async {
        let text = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 21\r\n\r\ntoo many connections\n";
        stream.write_all(text).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(1), say).await {
        tracing::debug!(%error, "a refused connection ended early");
    }
}
