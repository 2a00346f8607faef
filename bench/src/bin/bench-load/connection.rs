//! One keep-alive HTTP connection, opened again when it was lost.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::args::Endpoint;

pub(crate) struct Connection {
    authority: String,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// Drives the socket; dropped, and so ended, with the connection.
    driver: JoinSet<Result<(), hyper::Error>>,
}

impl Connection {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Self { authority: endpoint.authority.clone(), sender: None, driver: JoinSet::new() }
    }

    /// Forgets the socket, so that the next request opens another.
    pub(crate) fn close(&mut self) {
        self.sender = None;
        self.driver.abort_all();
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.open().await?,
        };
        let sender = self.sender.insert(sender);
        sender.ready().await.map_err(|error| format!("connection: {error}"))?;
        sender.send_request(request).await.map_err(|error| format!("send: {error}"))
    }

    async fn open(&mut self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream =
            TcpStream::connect(&self.authority).await.map_err(|error| format!("connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("connect: {error}"))?;
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| format!("handshake: {error}"))?;
        self.driver.abort_all();
        self.driver.spawn(driver);
        Ok(sender)
    }
}
