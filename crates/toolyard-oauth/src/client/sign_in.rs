//! The authorization code flow: the user's browser goes to the authorization server and comes back with a code, which
//! is redeemed with the PKCE verifier that only this process knows.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use toolyard_proto::Reason;

use super::metadata::{Discovered, granted, scope_text};
use super::registration::{self, Registered};
use super::token;
use super::vault::Credential;
use super::{Target, Vault, random, union};
use crate::error::{Error, Kind};
use crate::http::Http;
use crate::url::{query_value, with_query};

/// A sign-in that waits for the browser to come back.
pub struct SignIn {
    /// Where the user signs in.
    pub url: String,
    state: String,
    verifier: String,
    redirect_uri: String,
    scopes: Vec<String>,
    found: Discovered,
    client: Registered,
    target: Target,
}

impl std::fmt::Debug for SignIn {
    /// State and verifier are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("target", &self.target.name).finish_non_exhaustive()
    }
}

/// How the browser comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redirection<'a> {
    pub(crate) uri: &'a str,
    /// The prefix of the `state`.
    pub(crate) mark: &'a str,
}

impl SignIn {
    /// Prepares a sign-in. `scopes` are asked for beside those that the server names, so that nothing that was
    /// granted before is lost.
    pub(crate) async fn begin(
        http: &Http,
        vault: &Vault,
        target: &Target,
        found: Discovered,
        scopes: &[String],
        redirection: Redirection<'_>,
    ) -> Result<Self, Error> {
        let Redirection { uri: redirect_uri, mark } = redirection;
        let issuer = found.issuer().to_owned();
        let lacks = |what: &str| Error::violation(format!("{issuer} {what}"));
        let methods = found.server.code_challenge_methods_supported.as_deref().unwrap_or_default();
        if !methods.iter().any(|method| method == "S256") {
            return Err(lacks("does not support PKCE with S256, which protects sign-ins"));
        }
        let Some(endpoint) = found.server.authorization_endpoint.clone() else {
            return Err(lacks("has no authorization endpoint"));
        };
        let scopes = union(scopes, &found.scopes);
        let client = registration::client(http, vault, target, &found, redirect_uri, &scopes).await?;
        let (state, verifier) = (format!("{mark}{}", random(24)), random(48));
        let challenge = BASE64URL_NOPAD.encode(&Sha256::digest(verifier.as_bytes()));
        let scope = scope_text(&scopes);
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &found.resource),
        ];
        if let Some(scope) = &scope {
            pairs.push(("scope", scope));
        }
        if scopes.iter().any(|scope| scope == "offline_access") {
            // OpenID providers grant it only if the user is asked.
            pairs.push(("prompt", "consent"));
        }
        let url = with_query(&endpoint, &pairs);
        let (redirect_uri, target) = (redirect_uri.to_owned(), target.clone());
        Ok(Self { url, state, verifier, redirect_uri, scopes, found, client, target })
    }

    pub fn issuer(&self) -> &str {
        self.found.issuer()
    }

    pub(crate) fn client(&self) -> &Registered {
        &self.client
    }

    /// What the redirect back must carry as `state`.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Redeems what the browser brought back: the query of the redirect address.
    pub async fn finish(&self, http: &Http, query: &str) -> Result<Credential, Error> {
        let code = self.code_in(query)?;
        let Some(endpoint) = &self.found.server.token_endpoint else {
            return Err(Error::violation(format!("{} has no token endpoint", self.found.issuer())));
        };
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", &self.verifier),
            ("resource", &self.found.resource),
        ];
        let answer = token::request(http, self.found.issuer(), endpoint, &self.client, &pairs).await?;
        let scopes = granted(answer.scope.as_deref(), &self.scopes);
        Ok(Credential::new(&self.found, endpoint, &self.client, &self.scopes, scopes, answer))
    }

    /// Checks the redirect before anything in it is used: the state, then the issuer, then whether it is an error.
    fn code_in(&self, query: &str) -> Result<String, Error> {
        if query_value(query, "state").as_deref() != Some(&self.state) {
            let reason = Reason::new("the redirect does not belong to this sign-in");
            return Err(Error::violation(reason.with_hint("start the sign-in again")));
        }
        self.check_issuer(query_value(query, "iss").as_deref())?;
        if let Some(code) = query_value(query, "error") {
            let description = query_value(query, "error_description").unwrap_or_default();
            let description: String = description.chars().take(200).collect();
            let mut reason =
                Reason::new(format!("{} refused the sign-in", self.found.issuer())).because(&*code);
            if !description.is_empty() {
                reason = reason.because(description);
            }
            return Err(Error::new(Kind::Refused(code), reason));
        }
        query_value(query, "code").ok_or_else(|| Error::violation("the redirect has no code"))
    }

    /// Checks the issuer of the redirect (RFC 9207). If the redirect names one, it must be exactly the issuer that the
    /// user was sent to. If the server has announced that it names one, it must.
    fn check_issuer(&self, iss: Option<&str>) -> Result<(), Error> {
        let issuer = self.found.issuer();
        let reason = match iss {
            Some(iss) if iss == issuer => return Ok(()),
            Some(iss) => Reason::new(format!("the redirect came from another issuer, {iss}")),
            None if !self.found.server.authorization_response_iss_parameter_supported => return Ok(()),
            None => Reason::new("the redirect does not name its issuer"),
        };
        Err(Error::violation(
            reason.because(format!("{issuer} was expected")).with_hint("start the sign-in again"),
        ))
    }
}
