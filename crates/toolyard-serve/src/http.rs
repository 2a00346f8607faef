//! The HTTP listener: accepts connections, and determines from the head of a request its caller and its destination.

mod fast_path;
mod hyper;
mod other;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::uri::Authority;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use toolyard_model::{Control, Principal, PrincipalId, Scope, Transport, View, local};

use super::accept::{Admission, Room, accept_all};
use super::endpoint::{Endpoint, OpenConnection};
use super::head::{Fields, Guard};
use super::poll_inline::PollInline;
use super::reply::{self, HttpResponse};
use super::request::FOLDER;
use super::write_timeout::WriteTimeout;
use super::{control, pages, public};
use crate::admit::{Admitted, Challenge, ConnectionCredential, Denial};
use hyper::Handoff;
pub(super) use other::method_not_allowed;
use other::{denied, refuse_connection};

/// How long a request head may take, and an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long connections may finish their answers when the endpoint ends.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// One listener: the endpoint and what this listener checks.
struct HttpListener {
    endpoint: Arc<Endpoint>,
    guard: Guard,
    proof: Proof,
}

/// The proof of identity that the connection itself provides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Nothing,
    /// Its client runs as the user of this process. Only a local socket proves that.
    Owner,
    /// It comes from another node, which names the caller.
    Node,
}

/// Serves HTTP on a local socket, from which `unread` was read already. The client runs as the user of this process,
/// which makes it an operator.
pub(super) async fn serve_local_http<S>(stream: S, unread: Bytes, endpoint: Arc<Endpoint>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = WriteTimeout::new(stream, endpoint.options.patience).with_unread(unread);
    let handoff = Handoff { stream, head_by: Instant::now() + HEAD_TIMEOUT };
    let listener = Arc::new(HttpListener { endpoint, guard: Guard::default(), proof: Proof::Owner });
    Box::pin(hyper::serve(listener, handoff, Arc::default())).await;
}

/// Serves HTTP to another node, whose identity the stream has proven.
pub async fn serve_node<S>(stream: S, endpoint: Arc<Endpoint>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _open = OpenConnection::new(&endpoint);
    let listener = Arc::new(HttpListener { endpoint, guard: Guard::default(), proof: Proof::Node });
    listener.serve_requests(stream, Arc::default()).await;
}

/// Accepts connections until `scope` or the endpoint ends.
pub async fn serve_http(socket: TcpListener, endpoint: Arc<Endpoint>, scope: Scope) {
    let guard = Guard::of(&socket, &endpoint.options);
    let room = Room::new(&endpoint);
    let listener = Arc::new(HttpListener { endpoint, guard, proof: Proof::Nothing });
    accept_all(socket, &listener.endpoint, &scope, |stream| match room.enter(&listener.endpoint.counts) {
        Admission::Accepted(permit) => scope.spawn(listener.clone().serve_connection(stream, permit)),
        Admission::Refused(permit) => scope.spawn(refuse_connection(stream, permit)),
        Admission::Dropped => {}
    })
    .await;
}

impl HttpListener {
    async fn serve_connection(self: Arc<Self>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
        let _open = OpenConnection::new(&self.endpoint);
        tracing::debug!(target: "clients", from = stream.peer_addr().ok().map(tracing::field::display), "connected over HTTP");
        let from = stream.peer_addr().ok().map(|address| address.ip());
        self.serve_requests(stream, Arc::new(ConnectionCredential::of(from))).await;
    }

    /// Serves plain requests without hyper, and hands the connection to hyper at the first request that is not plain.
    async fn serve_requests<S>(self: Arc<Self>, stream: S, credential: Arc<ConnectionCredential>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        PollInline::new(async move {
            let stream = WriteTimeout::new(stream, self.endpoint.options.patience);
            match fast_path::serve(&self, stream, &credential).await {
                Ok(None) => {}
                Ok(Some(handoff)) => Box::pin(hyper::serve(self, handoff, credential)).await,
                Err(error) => tracing::debug!(%error, "a connection ended early"),
            }
        })
        .await;
    }

    /// Determines the destination of a request from its head: checks path, Host, Origin and credentials.
    fn route(
        &self,
        path: &str,
        authority: Option<&Authority>,
        fields: Fields<'_>,
        credential: &ConnectionCredential,
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
        if let PathKind::Page(path) = place {
            return Destination::Page(path.to_owned());
        }
        if place.is_for_own_pages()
            && let Some(reason) = self.guard.refusal_of_other_pages(fields)
        {
            return Destination::Refused(Box::new(reply::text(StatusCode::FORBIDDEN, format!("{reason}\n"))));
        }
        let admitted = match self.admit(path, &place, fields, credential) {
            Ok(admitted) => admitted,
            Err(Denial::Unverified(token)) => return Destination::Unverified(token),
            Err(Denial::Answer(challenge)) => return answered(denied(challenge)),
        };
        let rest = match place {
            PathKind::Control | PathKind::Exchange | PathKind::Metrics => match &self.endpoint.control {
                Some(control) => return Destination::Control(control.clone(), admitted),
                None => return Destination::Elsewhere,
            },
            PathKind::Page(_) => return Destination::Elsewhere,
            PathKind::Mcp(rest) | PathKind::Events(rest) => rest,
        };
        match View::parse(rest).filter(|view| self.endpoint.handler.offers(view)) {
            None => {
                let base = if matches!(place, PathKind::Events(_)) { "/sse" } else { "/mcp" };
                tracing::debug!(target: "clients", path, "there is no such view");
                answered(reply::text(StatusCode::NOT_FOUND, format!("there is no view {base}/{rest}\n")))
            }
            Some(view) if matches!(place, PathKind::Events(_)) => Destination::Events(view, admitted),
            Some(view) => Destination::Mcp(view, admitted),
        }
    }

    /// Accepts the client's folder only if the connection proves its user.
    fn admit(
        &self,
        path: &str,
        place: &PathKind<'_>,
        fields: Fields<'_>,
        credential: &ConnectionCredential,
    ) -> Result<Admitted, Denial> {
        let transport = if self.proof == Proof::Owner { local::TRANSPORT } else { Transport::Tcp };
        let admitted = self.identify(path, place, fields, credential)?.over(transport);
        if !admitted.proves_user() {
            return Ok(admitted);
        }
        Ok(admitted.in_folder(fields.text(&FOLDER)))
    }

    fn identify(
        &self,
        path: &str,
        place: &PathKind<'_>,
        fields: Fields<'_>,
        credential: &ConnectionCredential,
    ) -> Result<Admitted, Denial> {
        let gate = &self.endpoint.options.gate;
        // If there are two credentials, both are ignored, because it is unclear which one is meant.
        let authorization = fields.once(&AUTHORIZATION).unwrap_or_default();
        if self.proof == Proof::Node {
            let header = authorization.filter(|_| matches!(place, PathKind::Mcp(_)));
            let caller = header.and_then(|header| credential.passed_on(header));
            return caller.ok_or_else(|| Denial::Answer(Challenge::node()));
        }
        if let Some(operator) = self.endpoint.ui_access.admit(authorization) {
            return Ok(operator);
        }
        if matches!(place, PathKind::Exchange) {
            return Ok(Admitted::unproven(Principal::local()));
        }
        if self.proof != Proof::Owner {
            return gate.admit_on(credential, path, authorization);
        }
        // The local socket itself identifies an operator for the control API and the metrics. Any other request needs
        // a token if tokens are made from a secret, because then the principal matters.
        if authorization.is_none()
            && (matches!(place, PathKind::Control | PathKind::Metrics) || !gate.is_signed())
        {
            return Ok(Admitted::unproven(Principal::local()).as_operator());
        }
        let admitted = gate.admit_on(credential, path, authorization)?;
        // The token of an agent's run acts for the user, but does not have the rights of the user.
        let is_run = matches!(admitted.principal.id(), PrincipalId::Delegate { .. });
        Ok(if is_run { admitted } else { admitted.as_operator() })
    }
}

/// The destination of a request, decided by its head.
enum Destination {
    /// The Host or Origin is not accepted.
    Refused(Box<HttpResponse>),
    /// The request is answered already.
    Answered(Box<HttpResponse>),
    Elsewhere,
    /// The issuer of this token must be asked first.
    Unverified(Box<str>),
    /// A file of the dashboard.
    Page(String),
    /// A page or document that needs no credentials.
    Public,
    Control(Arc<dyn Control>, Admitted),
    Events(View, Admitted),
    Mcp(View, Admitted),
}

/// The paths that the gateway serves, each with the rest of the path.
#[derive(Clone, Copy)]
enum PathKind<'a> {
    Mcp(&'a str),
    /// The path of clients of HTTP+SSE (2024-11-05).
    Events(&'a str),
    Control,
    /// The path at which the dashboard exchanges a code for a token; the code is the credential.
    Exchange,
    Metrics,
    Page(&'a str),
}

impl PathKind<'_> {
    /// Whether only the gateway's own pages may use it, and not pages that other programs on this machine serve.
    fn is_for_own_pages(&self) -> bool {
        matches!(self, Self::Control | Self::Exchange | Self::Metrics)
    }
}

fn place(path: &str) -> Option<PathKind<'_>> {
    rest_after("/mcp", path)
        .map(PathKind::Mcp)
        .or_else(|| rest_after("/sse", path).map(PathKind::Events))
        .or_else(|| rest_after(control::BASE, path).map(control_place))
        .or_else(|| (path == control::METRICS).then_some(PathKind::Metrics))
        .or_else(|| rest_after(pages::BASE, path).map(PathKind::Page))
}

/// The path below `base`, without the slash between them.
fn rest_after<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn control_place(rest: &str) -> PathKind<'_> {
    if rest == control::EXCHANGE { PathKind::Exchange } else { PathKind::Control }
}
