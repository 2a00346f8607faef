//! One POST with a whole answer, over a connection of its own.

use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;

use super::connector::Connector;

/// Posts `body` and returns the status and the answer, of which at most `most` bytes are read. An error is a clause
/// that states what failed.
pub async fn post_once(
    url: Uri,
    headers: HeaderMap,
    body: Bytes,
    most: usize,
    limit: Duration,
) -> Result<(StatusCode, Bytes), String> {
    let exchange = tokio::time::timeout(limit, exchange(url, headers, body, most, limit));
    exchange.await.unwrap_or_else(|_| Err(format!("it did not answer within {} s", limit.as_secs_f32())))
}

async fn exchange(
    url: Uri,
    headers: HeaderMap,
    body: Bytes,
    most: usize,
    limit: Duration,
) -> Result<(StatusCode, Bytes), String> {
    let connector = Connector::new(&url, limit).map_err(|error| error.to_string())?;
    let stream =
        connector.connect(url.clone()).await.map_err(|error| format!("it cannot be reached: {error}"))?;
    let (mut sender, connection) =
        http1::handshake(stream).await.map_err(|error| format!("it cannot be reached: {error}"))?;
    let request = request(&url, headers, body)?;
    let mut answering = Box::pin(async move {
        let response =
            sender.send_request(request).await.map_err(|error| format!("no answer came: {error}"))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| format!("its answer could not be read: {error}"))?;
        Ok((status, body.to_bytes()))
    });
    let mut connection = Box::pin(connection);
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut answering => return answer,
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

fn request(url: &Uri, headers: HeaderMap, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let authority = url.authority().ok_or("its URL has no host")?;
    let host = match authority.port() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| "its URL is invalid")?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&host).map_err(|_| "its URL is invalid")?);
    Ok(request)
}
