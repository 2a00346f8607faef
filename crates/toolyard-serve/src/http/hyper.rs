//! Everything that HTTP allows: a connection with a request that is not plain, served by hyper from there on.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{AUTHORIZATION, ORIGIN};
use http::{Method, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use toolyard_model::View;

use super::other::{answer_other, method_not_allowed};
use super::{Destination, HEAD_TIMEOUT, HttpListener, LAST_ANSWERS};
use crate::admit::{Admitted, ConnectionCredential};
use crate::elsewhere::{self, Departing};
use crate::head::Fields;
use crate::reply::HttpResponse;
use crate::write_timeout::WriteTimeout;
use crate::{cors, legacy, post};

/// A connection that is left to hyper.
pub(super) struct Handoff<S = TcpStream> {
    pub(super) stream: WriteTimeout<S>,
    /// When the head that has begun must be whole. hyper's own clock starts only now.
    pub(super) head_by: Instant,
}

pub(super) async fn serve<S>(
    listener: Arc<HttpListener>,
    Handoff { stream, head_by }: Handoff<S>,
    credential: Arc<ConnectionCredential>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ending = listener.endpoint.ending.clone();
    let has_head = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_head.store(true, Ordering::Relaxed);
        listener.clone().respond(request, &credential)
    });
    let has_head = || has_head.load(Ordering::Relaxed);
    let overdue = async {
        sleep_until(head_by).await;
        if has_head() {
            pending::<()>().await;
        }
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let finished = tokio::select! {
        biased;
        () = ending.ended() => {
            // What has arrived may not have been read by hyper.
            let looked = if has_head() { None } else { (&mut connection).now_or_never() };
            match looked {
                Some(finished) => finished,
                None if has_head() => {
                    connection.as_mut().graceful_shutdown();
                    timeout(LAST_ANSWERS, connection).await.unwrap_or(Ok(()))
                }
                // hyper would wait for the rest of its first head.
                None => Ok(()),
            }
        }
        finished = &mut connection => finished,
        () = overdue => Ok(()),
    };
    if let Err(error) = finished {
        tracing::debug!(%error, "a connection ended early");
    }
}

impl HttpListener {
    /// Answers one request that hyper has read. The future is created and moved for every request, so it is kept small:
    /// rare cases are boxed.
    fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        credential: &Arc<ConnectionCredential>,
    ) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<> {
        let headers = request.headers();
        let destination = match self.route_request(&request, credential) {
            Destination::Refused(response) => Destination::Refused(response),
            _ if cors::is_preflight(request.method(), headers) => {
                Destination::Answered(Box::new(cors::preflight(headers)))
            }
            destination => destination,
        };
        let origin = headers.get(ORIGIN).filter(|_| !matches!(destination, Destination::Refused(_))).cloned();
        let credential = matches!(destination, Destination::Unverified(_)).then(|| credential.clone());
        async move {
            let mut response = match (destination, credential) {
                (Destination::Unverified(token), Some(credential)) => {
                    Box::pin(self.verify_and_answer(&token, &credential, request)).await
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
        credential: &ConnectionCredential,
        request: Request<Incoming>,
    ) -> HttpResponse {
        self.verify(Fields::Map(request.headers()), credential, token).await;
        self.answer(self.route_request(&request, credential), request).await
    }

    /// Asks the issuer of a token about it. The next [`HttpListener::route`] knows the outcome.
    async fn verify(&self, fields: Fields<'_>, credential: &ConnectionCredential, token: &str) {
        if let Some(authorization) = fields.first(&AUTHORIZATION) {
            self.endpoint.options.gate.verify_on(credential, authorization, token).await;
        }
    }

    async fn answer(&self, destination: Destination, request: Request<Incoming>) -> HttpResponse {
        match destination {
            Destination::Mcp(view, admitted) => self.answer_mcp(view, admitted, request).await,
            other => answer_other(&self.endpoint, other, request).await,
        }
    }

    async fn answer_mcp(&self, view: View, admitted: Admitted, request: Request<Incoming>) -> HttpResponse {
        let endpoint = &self.endpoint;
        match *request.method() {
            Method::GET | Method::DELETE
                if let Some(node) = elsewhere::session(endpoint, Fields::Map(request.headers())) =>
            {
                let (head, _) = request.into_parts();
                let method = head.method;
                let headers = head.headers;
                let body = Bytes::new();
                let departing = Departing { node, method, view, admitted, headers, body };
                Box::pin(departing.answer(endpoint)).await
            }
            Method::POST => post::post(endpoint, view, admitted, request).await,
            Method::GET => Box::pin(legacy::http::get(endpoint, &view, &admitted, request.headers())).await,
            Method::DELETE => {
                Box::pin(legacy::http::delete(endpoint, &view, &admitted, request.headers())).await
            }
            _ => method_not_allowed(),
        }
    }

    fn route_request(&self, request: &Request<Incoming>, credential: &ConnectionCredential) -> Destination {
        let uri = request.uri();
        self.route(uri.path(), uri.authority(), Fields::Map(request.headers()), credential)
    }
}
