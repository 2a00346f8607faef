//! The resource server: checks the tokens that clients present to the gateway.
//!
//! | module | job |
//! |---|---|
//! | `token` | a token taken apart, and the rules for its header |
//! | `keys` | the keys of an issuer, and signatures |
//! | `claims` | audience, times, subject, scopes and roles |
//! | `issuer` | an issuer's metadata and keys, fetched once and rarely again |
//! | `introspection` | tokens that only their issuer can read |
//! | `known` | what was found out about tokens |

mod token;
mod keys;
mod claims;
mod issuer;
mod introspection;
mod known;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_model::{BoxFuture, Principal, View};
use toolyard_serve::admit::{Bearer, Refusal, Verdict, VerifyToken};

use crate::client::now;
use crate::http::Http;
use claims::{Claims, Rules};
use introspection::Introspection;
use issuer::{Issuer, Lookup};
use known::Known;
use token::Token;

/// The path of the metadata of a view, to which the view's path is appended.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// No token of a usual issuer is longer.
const LONGEST_TOKEN: usize = 16 * 1024;
/// How long a signature that was checked counts. Then the issuer may have withdrawn its key.
const RECHECK: Duration = Duration::from_mins(5);

/// The settings for tokens of issuers.
#[derive(Clone, Debug)]
pub struct ResourceSettings {
    /// The address of the gateway as clients reach it, without a slash at the end.
    pub base: String,
    pub issuers: Vec<String>,
    /// Where the keys of the issuer are, if its metadata does not say so.
    pub jwks_uri: Option<String>,
    /// The accepted values of `aud`, in place of the address of the view.
    pub audience: Vec<String>,
    /// Scopes that each token must have.
    pub scopes: Vec<String>,
    /// Claims whose values are roles: names, or JSON pointers.
    pub role_claims: Vec<String>,
    pub introspection: Option<IntrospectionSettings>,
}

/// How the issuer is asked about tokens that are not JWTs.
#[derive(Clone)]
pub struct IntrospectionSettings {
    /// The endpoint, if the issuer's metadata does not name it.
    pub url: Option<String>,
    pub client_id: String,
    pub client_secret: Option<String>,
}

impl fmt::Debug for IntrospectionSettings {
    /// The secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionSettings").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// Checks tokens of the configured issuers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ResourceServer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    base: String,
    issuers: Vec<Issuer>,
    rules: Rules,
    introspection: Option<Introspection>,
    known: Known,
}

impl ResourceServer {
    pub fn new(http: Http, settings: ResourceSettings) -> Self {
        let ResourceSettings { base, issuers, jwks_uri, audience, scopes, role_claims, introspection } =
            settings;
        let issuers: Vec<Issuer> =
            issuers.into_iter().map(|id| Issuer::new(http.clone(), id, jwks_uri.clone())).collect();
        let introspection = introspection.map(|settings| Introspection::new(http, settings));
        let rules = Rules { base: base.clone(), audience, scopes, role_claims };
        Self(Arc::new(Shared { base, issuers, rules, introspection, known: Known::default() }))
    }

    /// The metadata at `path`, as clients look for it (RFC 9728). It is the same for views that exist and views that
    /// do not: names of servers are not public.
    pub fn metadata(&self, path: &str) -> Option<Value> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        if !rest.is_empty() {
            view_of(rest)?;
        }
        let issuers: Vec<&str> = self.0.issuers.iter().map(|issuer| issuer.id.as_str()).collect();
        let mut metadata = json!({
            "resource": format!("{}{}", self.0.base, rest.trim_end_matches('/')),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolyard",
        });
        if !self.0.rules.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.0.rules.scopes);
        }
        Some(metadata)
    }
}

/// The path of a view, if it is one that can be written in a header.
fn view_of(path: &str) -> Option<View> {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte));
    let rest = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse")).filter(|_| is_plain)?;
    let view = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    View::parse(view)
}

impl Shared {
    /// The verdict from what is known; nothing if something has to be fetched.
    fn check(&self, token: &str, now: u64) -> Option<Verdict> {
        if token.len() > LONGEST_TOKEN {
            return Some(refused("the token is too long"));
        }
        if let Some(verdict) = self.known.get(token) {
            return Some(verdict);
        }
        let parsed = match Token::parse(token) {
            Ok(Some(parsed)) => parsed,
            Ok(None) if self.introspection.is_some() => return None,
            Ok(None) => return Some(refused("the token is not a JWT")),
            Err(reason) => return Some(refused(reason)),
        };
        let claims = Claims(&parsed.claims);
        let Some(issuer) = self.issuers.iter().find(|issuer| claims.issuer() == Some(&issuer.id)) else {
            return Some(refused("the token is of another issuer"));
        };
        match issuer.key(parsed.algorithm, parsed.key_id.as_deref()) {
            Lookup::Fetch => None,
            Lookup::Unknown => Some(refused("the token is signed with an unknown key")),
            Lookup::Unavailable => Some(Verdict::Refused(Refusal::Unavailable(
                "the keys of the token's issuer cannot be fetched",
            ))),
            Lookup::Found(key) if !key.verifies(parsed.signed.as_bytes(), &parsed.signature) => {
                Some(refused("the signature of the token is invalid"))
            }
            Lookup::Found(_) => {
                let verdict = self.judge(&issuer.id, &claims, now, RECHECK);
                if let Verdict::Valid(bearer) = &verdict {
                    self.known.keep(token, bearer.until, verdict.clone());
                }
                Some(verdict)
            }
        }
    }

    /// The claims of a token whose origin is proven.
    fn judge(&self, issuer: &str, claims: &Claims<'_>, now: u64, recheck: Duration) -> Verdict {
        let accepted = match claims.accept(&self.rules, now) {
            Ok(accepted) => accepted,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        let expires = accepted.lifetime.map(|lifetime| Instant::now() + lifetime);
        let until = Instant::now() + accepted.lifetime.map_or(recheck, |lifetime| lifetime.min(recheck));
        let principal = Principal::oauth(issuer, accepted.subject).with_roles(accepted.roles);
        Verdict::Valid(Bearer { principal, until, expires, views: accepted.views })
    }

    async fn verify(&self, token: &str) -> Verdict {
        let Ok(parsed) = Token::parse(token) else { return refused("the token is malformed") };
        let Some(parsed) = parsed else { return self.introspect(token).await };
        let claims = Claims(&parsed.claims);
        if let Some(issuer) = self.issuers.iter().find(|issuer| claims.issuer() == Some(&issuer.id)) {
            issuer.fetch(parsed.algorithm, parsed.key_id.as_deref()).await;
        }
        let unavailable = Refusal::Unavailable("the keys of the token's issuer cannot be fetched");
        self.check(token, now()).unwrap_or(Verdict::Refused(unavailable))
    }

    async fn introspect(&self, token: &str) -> Verdict {
        let (Some(introspection), Some(issuer)) = (&self.introspection, self.issuers.first()) else {
            return refused("the token is not a JWT");
        };
        let answer = match introspection.ask(issuer, token, || self.known.get(token)).await {
            Ok(answer) => answer,
            Err(verdict) => return verdict,
        };
        let claims = Claims(&answer);
        let is_of_issuer = claims.issuer().is_none_or(|named| named == issuer.id);
        let verdict = if answer["active"] != json!(true) || !is_of_issuer {
            refused("the issuer reports that the token is not active")
        } else {
            self.judge(&issuer.id, &claims, now(), introspection::COUNTS_FOR)
        };
        let until = match &verdict {
            Verdict::Valid(bearer) => bearer.until,
            Verdict::Refused(_) => Instant::now() + introspection::COUNTS_FOR,
        };
        self.known.keep(token, until, verdict.clone());
        verdict
    }
}

fn refused(reason: &'static str) -> Verdict {
    Verdict::Refused(Refusal::Invalid(reason))
}

impl VerifyToken for ResourceServer {
    fn check(&self, token: &str) -> Option<Verdict> {
        self.0.check(token, now())
    }

    fn verify(&self, token: &str) -> BoxFuture<Verdict> {
        let (shared, token) = (self.0.clone(), token.to_owned());
        Box::pin(async move { shared.verify(&token).await })
    }

    fn challenge(&self, path: &str, refusal: Option<Refusal>) -> HeaderValue {
        let path = if view_of(path).is_some() { path.trim_end_matches('/') } else { "/mcp" };
        let error = match refusal {
            None => String::new(),
            Some(Refusal::Scopes) => "error=\"insufficient_scope\", ".to_owned(),
            Some(refusal) => format!("error=\"invalid_token\", error_description=\"{refusal}\", "),
        };
        let scope = match self.0.rules.scopes.join(" ") {
            scopes if scopes.is_empty() => String::new(),
            scopes => format!(", scope=\"{scopes}\""),
        };
        let metadata = format!("{}{WELL_KNOWN}{path}", self.0.base);
        let value = format!("Bearer {error}resource_metadata=\"{metadata}\"{scope}");
        HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}
