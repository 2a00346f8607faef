//! One request with a whole answer, over a connection of its own.

use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
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
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url;
    *request.headers_mut() = headers;
    let response = send_once(request, most, limit).await?;
    Ok((response.status(), response.into_body()))
}

/// Sends a request to its URI and returns the answer, of which at most `most` bytes are read. An error is what failed,
/// in a clause.
pub async fn send_once(
    request: Request<Bytes>,
    most: usize,
    limit: Duration,
) -> Result<Response<Bytes>, String> {
    let exchange = tokio::time::timeout(limit, exchange(request, most, limit));
    exchange.await.unwrap_or_else(|_| Err(format!("it did not answer within {} s", limit.as_secs_f32())))
}

async fn exchange(request: Request<Bytes>, most: usize, limit: Duration) -> Result<Response<Bytes>, String> {
    let url = request.uri().clone();
    let connector = Connector::new(&url, None, limit).map_err(|error| error.to_string())?;
    let stream =
        connector.connect(url.clone()).await.map_err(|error| format!("it cannot be reached: {error}"))?;
    let (mut sender, connection) =
        http1::handshake(stream).await.map_err(|error| format!("it cannot be reached: {error}"))?;
    let request = addressed(&url, request)?;
    let mut answering = Box::pin(async move {
        let response =
            sender.send_request(request).await.map_err(|error| format!("no answer came: {error}"))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, most).collect().await;
        let body = body.map_err(|error| format!("its answer could not be read: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
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

/// The request as it goes over a connection to its host.
fn addressed(url: &Uri, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, String> {
    let authority = url.authority().ok_or("its URL has no host")?;
    let host = match authority.port() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    };
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = request.map(Full::new);
    *request.uri_mut() = path.parse().map_err(|_| "its URL is invalid")?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&host).map_err(|_| "its URL is invalid")?);
    Ok(request)
}
