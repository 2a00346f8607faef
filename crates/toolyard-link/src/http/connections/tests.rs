//! Connections against a server with scripted replies.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Reply {
    Whole,
    ThenClose,
    /// The head and half of the body; then it waits for the client to disconnect.
    Half,
    Nothing,
    /// Reads the request and closes.
    HangUp,
}

struct Server {
    pool: ConnectionPool,
    _scope: Scope,
    opened: Arc<AtomicUsize>,
    /// Receives a message for each connection that was closed, by either side.
    closed: mpsc::Receiver<()>,
}

impl Server {
    /// Each request, on any connection, gets the next reply; the last reply is repeated.
    async fn start(replies: &'static [Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let (opened, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gone, closed) = mpsc::channel(16);
        let scope = Scope::new();
        let (count, tasks) = (opened.clone(), scope.clone());
        scope.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (asked, gone) = (asked.clone(), gone.clone());
                tasks.spawn(async move {
                    serve(stream, replies, &asked).await;
                    let _ = gone.send(()).await;
                });
            }
        });
        let connector = Connector::new(&url, None, Duration::from_secs(5)).unwrap();
        let pool = ConnectionPool::new(connector, url, &scope.child());
        Self { pool, _scope: scope, opened, closed }
    }

    async fn ask(&self) -> Result<Response<Arriving>, SendError> {
        let request = Request::post("/mcp").header(HOST, "x").body(Full::new(Bytes::from_static(b"hello")));
        self.pool.send(request.unwrap()).await
    }

    async fn body(&self) -> Bytes {
        self.ask().await.unwrap().into_body().collect().await.unwrap().to_bytes()
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    fn idle(&self) -> usize {
        self.pool.idle.state().free.len()
    }
}

async fn serve(mut stream: TcpStream, replies: &[Reply], asked: &AtomicUsize) {
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|size| size > 0) {
        if !request.ends_with(b"hello") {
            continue;
        }
        request.clear();
        let at = asked.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
        let text: &[u8] = match replies[at] {
            Reply::Whole | Reply::ThenClose => b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood",
            Reply::Half => b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngo",
            Reply::Nothing | Reply::HangUp => b"",
        };
        stream.write_all(text).await.unwrap();
        if matches!(replies[at], Reply::ThenClose | Reply::HangUp) {
            return;
        }
    }
}

#[tokio::test]
async fn one_connection_serves_calls_that_follow_each_other() {
    let server = Server::start(&[Reply::Whole]).await;
    for _ in 0..3 {
        assert_eq!(server.body().await, "good");
        assert_eq!((server.opened(), server.idle()), (1, 1));
    }
    let (one, two) = tokio::join!(server.body(), server.body());
    assert_eq!((one, two), ("good".into(), "good".into()));
    assert_eq!((server.opened(), server.idle()), (2, 2));
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_no_call() {
    let mut server = Server::start(&[Reply::ThenClose, Reply::ThenClose, Reply::Whole]).await;
    for opened in 1..=3 {
        assert_eq!(server.body().await, "good");
        assert_eq!(server.opened(), opened);
        if opened < 3 {
            server.closed.recv().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_request_that_was_taken_is_not_sent_again() {
    for replies in [&[Reply::HangUp][..], &[Reply::Whole, Reply::HangUp]] {
        let server = Server::start(replies).await;
        for _ in 1..replies.len() {
            assert_eq!(server.body().await, "good");
        }
        assert!(matches!(server.ask().await, Err(SendError::Lost(_))));
        assert_eq!(server.opened(), 1);
    }
}

#[tokio::test]
async fn dropping_a_call_or_half_an_answer_closes_the_connection() {
    let mut server = Server::start(&[Reply::Half, Reply::Nothing]).await;
    let half = server.ask().await.unwrap();
    drop(half);
    server.closed.recv().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), server.ask()).await.is_err());
    server.closed.recv().await.unwrap();
    assert_eq!(server.idle(), 0);
}

#[tokio::test]
async fn the_end_of_the_scope_ends_what_is_under_way_and_what_is_kept() {
    let mut server = Server::start(&[Reply::Whole, Reply::Whole, Reply::Nothing]).await;
    let _ = tokio::join!(server.body(), server.body());
    let end = async {
        tokio::task::yield_now().await;
        assert_eq!(server.idle(), 1, "one is in use");
        server.pool.scope.cancel();
    };
    let (asked, ()) = tokio::join!(server.ask(), end);
    assert!(matches!(asked, Err(SendError::Lost(_))));
    for _ in 0..2 {
        tokio::time::timeout(Duration::from_secs(10), server.closed.recv()).await.unwrap().unwrap();
    }
    assert_eq!(server.idle(), 0);
}

#[tokio::test]
async fn unused_connections_are_closed() {
    let mut server = Server::start(&[Reply::Whole]).await;
    assert_eq!(server.body().await, "good");
    tokio::time::pause();
    tokio::time::sleep(KEPT_FOR / 2).await;
    assert_eq!(server.idle(), 1);
    tokio::time::sleep(KEPT_FOR / 2 + 2 * SWEEP).await;
    assert_eq!(server.idle(), 0);
    tokio::time::resume();
    tokio::time::timeout(Duration::from_secs(10), server.closed.recv()).await.unwrap().unwrap();
    assert!(!server.pool.idle.state().is_swept, "and no task looks after them any more");
}

#[tokio::test]
async fn a_refused_connection_differs_from_an_unreachable_server() {
    let scope = Scope::new();
    let ask = async |url: &str, limit: Duration| {
        let url: Uri = url.parse().unwrap();
        let pool = ConnectionPool::new(Connector::new(&url, None, limit).unwrap(), url, &scope);
        let request = Request::post("/mcp").header(HOST, "x").body(Full::new(Bytes::new()));
        pool.send(request.unwrap()).await.map(|response| response.status())
    };
    let shut = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https"] {
        let refused = ask(&format!("{scheme}://{shut}/mcp"), Duration::from_secs(5)).await;
        assert!(
            matches!(&refused, Err(SendError::NotConnected(Obstacle::Refused(_)))),
            "{scheme}: {refused:?}"
        );
    }
    // It accepts connections and sends nothing, like a network that drops everything.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/mcp", silent.local_addr().unwrap());
    let unanswered = ask(&url, Duration::from_millis(200)).await;
    assert!(matches!(&unanswered, Err(SendError::NotConnected(Obstacle::Unreachable(_)))), "{unanswered:?}");
}
