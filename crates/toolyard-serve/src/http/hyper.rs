//! Everything that HTTP allows: a connection with a request that is not plain, served by hyper from there on.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Door, HEAD_TIMEOUT, LAST_ANSWERS};
use crate::admit::Ticket;
use crate::write_timeout::WriteTimeout;

/// A connection that is left to hyper.
pub(super) struct Handoff<S = TcpStream> {
    pub(super) stream: WriteTimeout<S>,
    /// When the head that has begun must be whole. hyper's own clock starts only now.
    pub(super) head_by: Instant,
}

pub(super) async fn serve<S>(door: Arc<Door>, Handoff { stream, head_by }: Handoff<S>, ticket: Arc<Ticket>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ending = door.endpoint.ending.clone();
    let has_head = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_head.store(true, Ordering::Relaxed);
        door.clone().respond(request, &ticket)
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
