//! The listeners for apps: TCP and the local socket. Connections beyond the limit receive a refusal.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolyard_model::local::{self, LocalListener};
use toolyard_model::{Scope, accept_all};
use toolyard_proto::app;

use super::Apps;
use super::conversation::{AppPeer, converse, no_room};
use super::process::Process;

/// How long a refused connection has to read the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

impl Apps {
    /// Accepts apps over TCP until `scope` ends.
    pub async fn serve_tcp(self, listener: TcpListener, scope: Scope) {
        self.serve(
            || listener.accept(),
            &scope,
            |(stream, from)| {
                let caller = tcp_caller(&stream, from);
                (stream, caller)
            },
        )
        .await;
    }

    /// Accepts apps on a local socket until `scope` ends.
    pub async fn serve_local(self, listener: LocalListener, scope: Scope) {
        let endpoint: std::sync::Arc<str> = format!("unix://{}", listener.path().display()).into();
        self.serve(
            || listener.accept(),
            &scope,
            |stream| {
                let caller = AppPeer {
                    endpoint: endpoint.clone(),
                    process: local::peer(&stream).and_then(Process::find),
                    find: None,
                };
                (stream, caller)
            },
        )
        .await;
    }

    async fn serve<T, S, F>(&self, accept: impl Fn() -> F, scope: &Scope, open: impl Fn(T) -> (S, AppPeer))
    where
        F: Future<Output = io::Result<T>>,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let take = |accepted| {
            let (stream, caller) = open(accepted);
            self.enter(stream, caller, scope);
        };
        tokio::select! {
            never = accept_all("an app", accept, take) => match never {},
            () = scope.ended() => {}
        }
    }

    fn enter<S>(&self, stream: S, caller: AppPeer, scope: &Scope)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if let Ok(seat) = self.shared.seats.clone().try_acquire_owned() {
            let apps = self.clone();
            scope.spawn(async move {
                converse(apps, stream, caller).await;
                drop(seat);
            });
        } else if let Ok(reported) = self.shared.refusals.clone().try_acquire_owned() {
            let most = self.shared.options.connections;
            tracing::warn!(target: "apps", most, "refused an app: too many are connected");
            scope.spawn(async move {
                turn_away(stream, most).await;
                drop(reported);
            });
        }
    }
}

async fn turn_away<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, most: usize) {
    let refused = no_room(most);
    let line = app::refused(&refused.reason, &refused.guidance);
    let say = async {
        stream.write_all(&[&line, &b"\n"[..]].concat()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(REASON_TIMEOUT, say).await;
}

fn tcp_caller(stream: &TcpStream, from: SocketAddr) -> AppPeer {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let ours = stream.local_addr().ok().filter(|_| from.ip().is_loopback());
    let find = ours.map(|ours| {
        let find: Box<dyn FnOnce() -> Option<Process> + Send> = Box::new(move || Process::behind(from, ours));
        find
    });
    AppPeer { endpoint: format!("tcp://{from}").into(), process: None, find }
}
