//! The token endpoint: codes, refresh tokens and device codes become access tokens.

use data_encoding::BASE64;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use toolyard_proto::Reason;

use super::registration::{BASIC, POST, Registered, refusal};
use crate::error::{Error, Kind};
use crate::http::Http;

pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// An answer of the token endpoint.
#[derive(Clone, Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: String,
    token_type: String,
    pub(crate) expires_in: Option<u64>,
    pub(crate) refresh_token: Option<String>,
    pub(crate) scope: Option<String>,
}

/// Sends a request to the token endpoint as `client`.
pub(crate) async fn request(
    http: &Http,
    issuer: &str,
    endpoint: &str,
    client: &Registered,
    pairs: &[(&str, &str)],
) -> Result<TokenAnswer, Error> {
    let mut pairs = pairs.to_vec();
    let authorization = prove(client, &mut pairs);
    let answer = http.post_form(endpoint, &pairs, authorization).await?;
    if !answer.status.is_success() {
        return Err(refused(issuer, answer.status.as_u16(), &answer.body));
    }
    let token: TokenAnswer = serde_json::from_value(answer.body)
        .map_err(|_| Error::violation(format!("{issuer} sent a token answer without a token")))?;
    let is_sendable = token.access_token.bytes().all(|byte| byte.is_ascii_graphic());
    if !token.token_type.eq_ignore_ascii_case("bearer") || token.access_token.is_empty() || !is_sendable {
        return Err(Error::violation(format!("{issuer} sent a token that is not a bearer token")));
    }
    Ok(token)
}

/// The header of `client_secret_basic`: both parts are form-encoded first.
pub(crate) fn basic(id: &str, secret: &str) -> HeaderValue {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = BASE64.encode(format!("{}:{}", encode(id), encode(secret)).as_bytes());
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

/// 5xx and 429 may pass; all else is the server's decision.
fn refused(issuer: &str, status: u16, body: &Value) -> Error {
    let reason =
        Reason::new(format!("{issuer} refused the request for a token")).because(refusal(status, body));
    match body["error"].as_str() {
        _ if status >= 500 || status == 429 => Error::new(Kind::Unreachable, reason),
        Some(code) => Error::new(Kind::Refused(code.to_owned()), reason),
        None => Error::new(Kind::Refused(format!("HTTP {status}")), reason),
    }
}

/// Makes a token invalid (RFC 7009).
pub(crate) async fn revoke(
    http: &Http,
    endpoint: &str,
    client: &Registered,
    pairs: &[(&str, &str)],
) -> Result<(), Error> {
    let mut pairs = pairs.to_vec();
    let authorization = prove(client, &mut pairs);
    let answer = http.post_form(endpoint, &pairs, authorization).await?;
    let status = answer.status;
    if status.is_success() { Ok(()) } else { Err(refused(endpoint, status.as_u16(), &answer.body)) }
}

/// Adds what proves the client, in the form or in a header.
pub(crate) fn prove<'a>(client: &'a Registered, pairs: &mut Vec<(&'a str, &'a str)>) -> Option<HeaderValue> {
    match (client.method.as_str(), &client.secret) {
        (BASIC, Some(secret)) => return Some(basic(&client.id, secret)),
        (POST, Some(secret)) => pairs.extend([("client_id", &*client.id), ("client_secret", secret)]),
        _ => pairs.push(("client_id", &client.id)),
    }
    None
}
