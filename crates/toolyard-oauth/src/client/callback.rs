//! The address on this machine to which the browser returns after a sign-in without a gateway.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolyard_model::accept::accept_next;
use toolyard_proto::Reason;

use super::CALLBACK;
use crate::error::{Error, Kind};

/// The usual port, so that a registration with it can be used again.
const USUAL: u16 = 7780;
/// How long the user may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long a browser may take to send its request.
const HEAD: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 16 * 1024;
/// How many connections are read at once. A browser opens some that it does not use.
const MOST_CONNECTIONS: usize = 32;

/// Listens for the browser.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The parameters of the redirect back, and the connection of the browser that waits for a page.
#[derive(Debug)]
pub struct Redirect {
    pub query: String,
    browser: Option<TcpStream>,
}

impl Callback {
    /// On the port of the config, or on the usual one, or on any that is free.
    pub async fn open(port: Option<u16>) -> Result<Self, Error> {
        let wanted = port.unwrap_or(USUAL);
        let failed = |error: std::io::Error| {
            let reason = Reason::new(format!("cannot listen for the browser on port {wanted}"));
            Error::new(Kind::Config, reason.because(error.to_string()))
        };
        let listener = match TcpListener::bind(("127.0.0.1", wanted)).await {
            Err(error) if port.is_none() && error.kind() == ErrorKind::AddrInUse => {
                TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?
            }
            bound => bound.map_err(failed)?,
        };
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK}", self.port)
    }

    /// Waits for the redirect that carries `state`. Requests for anything else are answered and forgotten.
    pub async fn wait(&self, state: &str) -> Result<Redirect, Error> {
        tokio::time::timeout(PATIENCE, self.redirect(state)).await.map_err(|_| {
            let minutes = PATIENCE.as_secs() / 60;
            let reason = Reason::new(format!("no sign-in within {minutes} minutes"));
            Error::new(Kind::SignIn, reason.with_hint("start it again"))
        })
    }
}

impl Callback {
    async fn redirect(&self, state: &str) -> Redirect {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                (stream, _) = accept_next("browsers", || self.listener.accept()), if connections.len() < MOST_CONNECTIONS => {
                    connections.spawn(redirect_in(stream, state.to_owned()));
                }
                Some(read) = connections.join_next() => {
                    if let Ok(Some(redirect)) = read {
                        return redirect;
                    }
                }
            }
        }
    }
}

/// The redirect of a browser that carries `state`. Any other request is answered here.
async fn redirect_in(stream: TcpStream, state: String) -> Option<Redirect> {
    let (stream, query) = tokio::time::timeout(HEAD, read_query(stream)).await.ok()??;
    if query.contains(&state) {
        return Some(Redirect { query, browser: Some(stream) });
    }
    respond(stream, "400 Bad Request", "This sign-in is unknown or too old.").await;
    None
}

impl Redirect {
    pub fn pasted(query: &str) -> Self {
        Self { query: query.to_owned(), browser: None }
    }

    /// Shows the outcome in the browser.
    pub async fn answer(self, outcome: Result<(), String>) {
        let Some(browser) = self.browser else { return };
        match outcome {
            Ok(()) => respond(browser, "200 OK", "You are signed in. You can close this page.").await,
            Err(message) => {
                respond(browser, "400 Bad Request", &format!("The sign-in failed: {message}")).await;
            }
        }
    }
}

/// The query of a request for the callback; any other request is answered with 404.
async fn read_query(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 1024];
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&part[..read]);
        if head.len() > LONGEST_HEAD {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    if let Some((CALLBACK, query)) = target.split_once('?') {
        return Some((stream, query.to_owned()));
    }
    respond(stream, "404 Not Found", "There is nothing here.").await;
    None
}

/// A page of plain text. A browser that has gone needs none.
async fn respond(mut stream: TcpStream, status: &str, text: &str) {
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    if stream.write_all(page.as_bytes()).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}
