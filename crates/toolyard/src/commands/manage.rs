//! `toolyard enable`, `disable`, `restart` and `stop`: change a running gateway through its control API, over the
//! local socket, which makes this user an operator.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap_complete::ArgValueCandidates;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use toolyard_config::state_dir::Running;
use toolyard_model::local;

use super::live;
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::{say, settings};

/// How long the gateway may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The server or pack.
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
}

pub(super) fn enable(common: &Common, args: &NameArgs) -> Result<(), Failure> {
    change(common, &args.name, "enable")
}

pub(super) fn disable(common: &Common, args: &NameArgs) -> Result<(), Failure> {
    change(common, &args.name, "disable")?;
    say::line(format_args!("until `toolyard enable {}`, or until the gateway is started again", args.name));
    Ok(())
}

pub(super) fn restart(common: &Common, args: &NameArgs) -> Result<(), Failure> {
    change(common, &args.name, "restart")
}

pub(super) fn stop(common: &Common) -> Result<(), Failure> {
    let running = running(common)?;
    post(&running, "/stop")?;
    say::result(format_args!("the gateway at {} is stopping", running.http));
    Ok(())
}

/// Makes a gateway that runs with this config connect to a server again.
pub(super) fn restart_if_running(common: &Common, name: &str) {
    let (_, _, running) = settings::look_for_gateway(common);
    if let Some(running) = running
        && let Err(failure) = post(&running, &format!("/upstreams/{name}/restart"))
    {
        tracing::debug!(?failure, "the running gateway does not know of the sign-in yet");
    }
}

fn change(common: &Common, name: &str, action: &str) -> Result<(), Failure> {
    let running = running(common)?;
    let done = post(&running, &format!("/upstreams/{name}/{action}"))?;
    let text = |key: &str| done[key].as_str().unwrap_or(name).to_owned();
    say::result(format_args!("{}: {}", text("id"), text("state")));
    Ok(())
}

pub(super) fn running(common: &Common) -> Result<Running, Failure> {
    let (_, _, running) = settings::look_for_gateway(common);
    running.ok_or_else(|| refused("no gateway runs with this config", "`toolyard` starts one"))
}

pub(super) fn post(running: &Running, path: &str) -> Result<Value, Failure> {
    let socket = running.socket.as_deref().ok_or_else(no_socket)?;
    Ok(live::block_on(control(&Address::Socket(socket), path, Some(&Value::Null)))??)
}

/// The address of the control API.
pub(super) enum Address<'a> {
    /// The local socket, which makes this user an operator.
    Socket(&'a Path),
    /// The HTTP listener, with credentials in headers. Only an operator token can change anything there.
    Http(&'a str, &'a HeaderMap),
}

pub(super) fn no_socket() -> Failure {
    let help = "set `unix` in [listen], or use the control API with the operator token";
    refused("the running gateway has no local socket", help)
}

/// Sends a request to the control API: a GET, or a POST if there is a body.
pub(super) async fn control(address: &Address<'_>, path: &str, body: Option<&Value>) -> Result<Value> {
    control_within(PATIENCE, address, path, body).await
}

/// The same for a request that the gateway may take longer to answer.
pub(super) async fn control_within(
    patience: Duration,
    address: &Address<'_>,
    path: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let (status, body) = tokio::time::timeout(patience, request(address, path, body))
        .await
        .map_err(|_| anyhow!("the gateway did not answer within {} s", patience.as_secs()))??;
    read(status, body)
}

/// The content of an answer of the control API, or the error that it reports.
pub(super) fn read(status: u16, body: Value) -> Result<Value> {
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let Some(message) = body["error"]["message"].as_str() else {
        return Err(anyhow!("it answered with HTTP status {status}"));
    };
    Err(anyhow!("{message}"))
}

/// One request with a whole answer. The connection is for this request alone.
async fn request(address: &Address<'_>, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.filter(|body| !body.is_null()).map(Value::to_string).unwrap_or_default();
    let head = |host: &str| {
        format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        )
    };
    match address {
        Address::Socket(socket) => {
            let connected = local::connect(socket).await;
            let stream = connected.with_context(|| format!("connect to {}", socket.display()))?;
            exchange(stream, &format!("{}\r\n{body}", head("toolyard"))).await
        }
        Address::Http(http, headers) => {
            let host = http.trim_start_matches("http://");
            let connected = TcpStream::connect(host).await;
            let stream = connected.with_context(|| format!("connect to {http}"))?;
            let proof = headers.get(AUTHORIZATION).and_then(|token| token.to_str().ok());
            let proof = proof.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
            exchange(stream, &format!("{}{proof}\r\n{body}", head(host))).await
        }
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, message: &str) -> Result<(u16, Value)> {
    stream.write_all(message.as_bytes()).await.context("send the request")?;
    let mut answer = Vec::new();
    stream.take(LARGEST).read_to_end(&mut answer).await.context("read the answer")?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = serde_json::from_str(body.trim()).unwrap_or_default();
    Ok((status.context("the answer has no status")?, body))
}
