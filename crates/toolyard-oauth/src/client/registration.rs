//! Which client id to use at an authorization server: one from the config, a client id document, or one that is
//! registered there for the purpose. Registrations are kept by issuer and redirect address, and never used with another issuer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_proto::Reason;

use super::metadata::{Discovered, scope_text};
use super::{Target, Vault, now, union};
use crate::error::{Error, Kind};
use crate::http::Http;

pub(crate) const BASIC: &str = "client_secret_basic";
pub(crate) const POST: &str = "client_secret_post";
pub(crate) const NONE: &str = "none";

/// A client as an authorization server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// How the client proves itself at the token endpoint.
    pub(crate) method: String,
    /// The redirect address of the registration, if the gateway registered the client.
    pub(crate) redirect_uri: Option<String>,
    /// When the secret ends, in seconds since 1970.
    pub(crate) expires_at: Option<u64>,
    /// The scopes that it was registered for, which some servers do not let it exceed; `None` if that is not known.
    #[serde(default)]
    pub(crate) scopes: Option<Vec<String>>,
}

impl std::fmt::Debug for Registered {
    /// The secret is left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registered")
            .field("id", &self.id)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// The client to sign in with for these scopes, registered if there is no other way.
pub(crate) async fn client(
    http: &Http,
    vault: &Vault,
    target: &Target,
    found: &Discovered,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Registered, Error> {
    let settings = &target.settings;
    if let Some(id) = &settings.client_id {
        check_issuer(vault, target, id, found.issuer()).await?;
        let method = method(found, settings.client_secret.is_some())?;
        let (id, secret) = (id.clone(), settings.client_secret.clone());
        return Ok(Registered { id, secret, method, redirect_uri: None, expires_at: None, scopes: None });
    }
    if let Some(document) = settings.client_metadata_url.as_ref().filter(|_| documents_are_taken(found)) {
        let (id, method) = (document.clone(), NONE.to_owned());
        return Ok(Registered {
            id,
            secret: None,
            method,
            redirect_uri: None,
            expires_at: None,
            scopes: None,
        });
    }
    let known = vault.registration(found.issuer(), redirect_uri).await?;
    let earlier = known.as_ref().and_then(|known| known.scopes.clone()).unwrap_or_default();
    if let Some(known) = known.filter(|known| known.is_good_for(redirect_uri, scopes)) {
        return Ok(known);
    }
    // Other servers of the issuer use the registration as well.
    let registered = register(http, found, redirect_uri, &union(&earlier, scopes)).await?;
    vault.keep_registration(found.issuer(), redirect_uri, &registered).await?;
    Ok(registered)
}

/// A client of the config belongs to one authorization server. If the config does not name it, the first one that the
/// server named counts: a server could name another one later, which would be sent the client's secret.
async fn check_issuer(vault: &Vault, target: &Target, id: &str, issuer: &str) -> Result<(), Error> {
    if target.settings.issuer.is_some() {
        return Ok(());
    }
    match vault.issuer_of_client(&target.url, id).await? {
        None => vault.keep_issuer_of_client(&target.url, id, issuer).await,
        Some(first) if first == issuer => Ok(()),
        Some(first) => {
            let reason = Reason::of_upstream(&target.name, "uses another authorization server now");
            let reason = reason.because(format!("`oauth.client_id` belongs to {first}, not to {issuer}"));
            let hint = format!(
                "if that is right, set `oauth.issuer = \"{issuer}\"` and the client that is registered there"
            );
            Err(Error::new(Kind::Config, reason.with_hint(hint)))
        }
    }
}

fn documents_are_taken(found: &Discovered) -> bool {
    found.server.client_id_metadata_document_supported
}

impl Registered {
    fn is_good_for(&self, redirect_uri: &str, scopes: &[String]) -> bool {
        let may_ask = |registered: &Vec<String>| scopes.iter().all(|scope| registered.contains(scope));
        let is_over = self.expires_at.is_some_and(|end| end <= now());
        !is_over
            && self.redirect_uri.as_deref() == Some(redirect_uri)
            && self.scopes.as_ref().is_none_or(may_ask)
    }
}

/// Dynamic client registration (RFC 7591).
async fn register(
    http: &Http,
    found: &Discovered,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Registered, Error> {
    let issuer = found.issuer();
    let Some(endpoint) = &found.server.registration_endpoint else {
        let reason = Reason::new(format!("{issuer} does not support dynamic client registration"));
        let hint = "register Toolyard there and set `oauth.client_id` of the server in the config";
        return Err(Error::new(Kind::Config, reason.with_hint(hint)));
    };
    let wanted = method(found, false).or_else(|_| method(found, true))?;
    let mut body = json!({
        "client_name": "Toolyard",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
        "application_type": application_type(redirect_uri),
    });
    if found.server.device_authorization_endpoint.is_some()
        && let Some(grants) = body["grant_types"].as_array_mut()
    {
        grants.push(super::token::DEVICE_GRANT.into());
    }
    if let Some(scope) = scope_text(scopes) {
        body["scope"] = scope.into();
    }
    let answer = http.post_json(endpoint, &body).await?;
    let text = |key: &str| answer.body[key].as_str().map(str::to_owned);
    let Some(id) = text("client_id").filter(|_| answer.status.is_success()) else {
        let reason = Reason::new(format!("{issuer} refused to register Toolyard"));
        let reason = reason.because(refusal(answer.status.as_u16(), &answer.body));
        let hint = "register Toolyard there by hand and set `oauth.client_id` of the server in the config";
        return Err(Error::new(Kind::Config, reason.with_hint(hint)));
    };
    let secret = text("client_secret");
    let method = match text("token_endpoint_auth_method") {
        Some(method) => method,
        None if secret.is_some() && wanted == NONE => BASIC.to_owned(),
        None => wanted,
    };
    let expires_at = answer.body["client_secret_expires_at"].as_u64().filter(|end| *end != 0);
    Ok(Registered {
        id,
        secret,
        method,
        redirect_uri: Some(redirect_uri.to_owned()),
        expires_at,
        scopes: Some(scopes.to_vec()),
    })
}

/// A redirect over plain HTTP, which leads to this machine, belongs to a native application, any other to a web
/// application.
fn application_type(redirect_uri: &str) -> &'static str {
    if redirect_uri.starts_with("http:") { "native" } else { "web" }
}

/// How a client with or without a secret proves itself at this server's token endpoint.
fn method(found: &Discovered, has_secret: bool) -> Result<String, Error> {
    let supported = found.server.token_endpoint_auth_methods_supported.as_deref();
    let takes = |method: &str| supported.is_none_or(|all| all.iter().any(|one| one == method));
    let wanted: &[&str] = if has_secret { &[BASIC, POST] } else { &[NONE] };
    let found_method = wanted.iter().find(|method| takes(method));
    found_method.map(|method| (*method).to_owned()).ok_or_else(|| {
        let supported = supported.unwrap_or_default().join(", ");
        let what = format!("{} supports none of Toolyard's client authentication methods", found.issuer());
        Error::new(Kind::Config, Reason::new(what).because(format!("it supports {supported}")))
    })
}

/// The error in a refusing answer, in one line.
pub(crate) fn refusal(status: u16, body: &Value) -> String {
    let text = |key: &str| body[key].as_str().map(|text| text.chars().take(200).collect::<String>());
    match (text("error"), text("error_description")) {
        (Some(code), Some(description)) => format!("{code}: {description}"),
        (Some(code), None) => code,
        _ => format!("HTTP {status}"),
    }
}
