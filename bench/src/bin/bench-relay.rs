//! A bare HTTP relay: hyper server, hyper client pool, no look at the body.
//!
//! It is the floor: what one HTTP hop in Rust costs before it knows anything of MCP.

#![expect(clippy::print_stderr, reason = "a command line tool: it prints where it listens")]

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use clap::Parser;
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::http::uri::{Authority, Scheme};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Forwards every HTTP request to one server and looks at nothing.
#[derive(Parser)]
struct Args {
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Host and port of the server behind.
    #[arg(long)]
    upstream: Authority,
}

type Pool = Client<HttpConnector, Incoming>;
type Body = Either<Incoming, Empty<Bytes>>;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let Args { listen, upstream } = Args::parse();
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);

    let pool = pool();
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (pool, upstream) = (pool.clone(), upstream.clone());
        let service = service_fn(move |request| relay(request, pool.clone(), upstream.clone()));
        connections.spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

fn pool() -> Pool {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(256)
        .build(connector)
}

async fn relay(
    mut request: Request<Incoming>,
    pool: Pool,
    upstream: Authority,
) -> Result<Response<Body>, Infallible> {
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(upstream);
    let Ok(uri) = Uri::from_parts(uri) else { return Ok(refusal(StatusCode::BAD_REQUEST)) };
    *request.uri_mut() = uri;
    request.headers_mut().remove(header::HOST);
    request.headers_mut().remove(header::CONNECTION);
    Ok(match pool.request(request).await {
        Ok(response) => response.map(Either::Left),
        Err(_) => refusal(StatusCode::BAD_GATEWAY),
    })
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}
