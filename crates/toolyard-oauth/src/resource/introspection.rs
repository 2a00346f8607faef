//! Tokens that only their issuer can read: it is asked about each (RFC 7662), a few at a time.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use toolyard_serve::admit::{Refusal, Verdict};

use super::IntrospectionSettings;
use super::issuer::Issuer;
use crate::client::basic;
use crate::error::{Error, Kind};
use crate::http::Http;

/// How long an answer counts. The issuer may revoke the token at any time.
pub(super) const COUNTS_FOR: Duration = Duration::from_mins(1);
/// Questions to the issuer at once.
const AT_ONCE: usize = 8;
/// How long a client waits for its turn and the answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Introspection {
    http: Http,
    settings: IntrospectionSettings,
    turns: Semaphore,
}

impl Introspection {
    pub(super) fn new(http: Http, settings: IntrospectionSettings) -> Self {
        Self { http, settings, turns: Semaphore::new(AT_ONCE) }
    }

    /// The issuer's answer, or the verdict that `known` has when it is this token's turn.
    pub(super) async fn ask(
        &self,
        issuer: &Issuer,
        token: &str,
        known: impl Fn() -> Option<Verdict>,
    ) -> Result<Value, Verdict> {
        let unavailable =
            |_| Verdict::Refused(Refusal::Unavailable("the token's issuer did not answer in time"));
        let asking = async {
            let _turn = self.turns.acquire().await;
            if let Some(verdict) = known() {
                return Err(verdict);
            }
            self.post(issuer, token).await.map_err(|error| {
                let issuer = &issuer.id;
                tracing::warn!(target: "auth", issuer, %error, "cannot ask an issuer about a token");
                Verdict::Refused(Refusal::Unavailable("the token's issuer cannot be asked about it"))
            })
        };
        tokio::time::timeout(PATIENCE, asking).await.map_err(unavailable)?
    }

    async fn post(&self, issuer: &Issuer, token: &str) -> Result<Value, Error> {
        let endpoint = match &self.settings.url {
            Some(url) => url.clone(),
            None => issuer.introspection_endpoint().await?,
        };
        let IntrospectionSettings { client_id, client_secret, .. } = &self.settings;
        let authorization = client_secret.as_ref().map(|secret| basic(client_id, secret));
        let mut pairs = vec![("token", token), ("token_type_hint", "access_token")];
        if authorization.is_none() {
            pairs.push(("client_id", client_id));
        }
        let answer = self.http.post_form(&endpoint, &pairs, authorization).await?;
        if answer.status.is_success() && answer.body.is_object() {
            return Ok(answer.body);
        }
        Err(Error::new(Kind::Unreachable, format!("{endpoint} answered {}", answer.status)))
    }
}
