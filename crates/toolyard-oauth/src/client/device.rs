//! The device flow (RFC 8628): the user types a code on any device, and the gateway asks until it has been accepted.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use toolyard_proto::Reason;

use super::metadata::{Discovered, granted, scope_text};
use super::registration::{self, Registered, refusal};
use super::token::{self, DEVICE_GRANT};
use super::vault::Credential;
use super::{Target, Vault, union};
use crate::error::{Error, Kind};
use crate::http::Http;

const PAUSE: u64 = 5;
/// No sign-in waits longer, whatever the server allows.
const LONGEST: u64 = 30 * 60;

/// A device sign-in that waits for the user.
pub struct DeviceSignIn {
    /// Where the user types the code.
    pub page: String,
    /// The same with the code in it, where the server offers that.
    pub page_with_code: Option<String>,
    pub user_code: String,
    pub valid_for: Duration,
    device_code: String,
    pause: Duration,
    scopes: Vec<String>,
    found: Discovered,
    client: Registered,
}

impl std::fmt::Debug for DeviceSignIn {
    /// The codes are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceSignIn").field("page", &self.page).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct DeviceAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: Option<u64>,
    interval: Option<u64>,
}

impl DeviceSignIn {
    pub async fn begin(
        http: &Http,
        vault: &Vault,
        target: &Target,
        found: Discovered,
        scopes: &[String],
        redirect_uri: &str,
    ) -> Result<Self, Error> {
        let Some(endpoint) = found.server.device_authorization_endpoint.clone() else {
            let reason = Reason::new(format!("{} does not offer sign-ins by device code", found.issuer()));
            return Err(Error::new(Kind::Config, reason.with_hint("sign in without `--device`")));
        };
        let scopes = union(scopes, &found.scopes);
        let client = registration::client(http, vault, target, &found, redirect_uri, &scopes).await?;
        let scope = scope_text(&scopes);
        let mut pairs = vec![("resource", &*found.resource)];
        if let Some(scope) = &scope {
            pairs.push(("scope", scope));
        }
        // The client proves itself as at the token endpoint (RFC 8628, 3.1).
        let authorization = token::prove(&client, &mut pairs);
        let answer = http.post_form(&endpoint, &pairs, authorization).await?;
        let status = answer.status.as_u16();
        let refused = refusal(status, &answer.body);
        let Ok(answer) = serde_json::from_value::<DeviceAnswer>(answer.body) else {
            let reason = Reason::new(format!("{} refused the device sign-in", found.issuer()));
            return Err(Error::new(Kind::Refused(refused.clone()), reason.because(refused)));
        };
        Ok(Self {
            page: answer.verification_uri,
            page_with_code: answer.verification_uri_complete,
            user_code: answer.user_code,
            valid_for: Duration::from_secs(answer.expires_in.unwrap_or(LONGEST).min(LONGEST)),
            device_code: answer.device_code,
            pause: Duration::from_secs(answer.interval.unwrap_or(PAUSE).clamp(1, 60)),
            scopes,
            found,
            client,
        })
    }

    /// Asks until the user has accepted or refused, or the code has expired.
    pub async fn finish(&self, http: &Http) -> Result<Credential, Error> {
        let Some(endpoint) = &self.found.server.token_endpoint else {
            return Err(Error::violation(format!("{} has no token endpoint", self.found.issuer())));
        };
        let pairs = [
            ("grant_type", DEVICE_GRANT),
            ("device_code", &self.device_code),
            ("resource", &self.found.resource),
        ];
        let (end, mut pause) = (Instant::now() + self.valid_for, self.pause);
        while Instant::now() + pause < end {
            tokio::time::sleep(pause).await;
            match token::request(http, self.found.issuer(), endpoint, &self.client, &pairs).await {
                Ok(answer) => {
                    let scopes = granted(answer.scope.as_deref(), &self.scopes);
                    return Ok(Credential::new(
                        &self.found,
                        endpoint,
                        &self.client,
                        &self.scopes,
                        scopes,
                        answer,
                    ));
                }
                Err(Error { kind: Kind::Refused(code), .. }) if code == "authorization_pending" => {}
                Err(Error { kind: Kind::Refused(code), .. }) if code == "slow_down" => {
                    pause += Duration::from_secs(PAUSE);
                }
                Err(Error { kind: Kind::Unreachable, .. }) => pause *= 2,
                Err(error) => return Err(error),
            }
        }
        let reason = Reason::new("the code was not entered in time").with_hint("start the sign-in again");
        Err(Error::new(Kind::Refused("expired_token".to_owned()), reason))
    }
}
