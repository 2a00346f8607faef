//! Which authorization server protects a server (RFC 9728), and what that can do (RFC 8414, `OpenID` Connect).

use http::Uri;
use serde::Deserialize;
use serde_json::Value;
use toolyard_proto::Reason;

use super::{Challenge, Target, split_scopes, union};
use crate::error::{Error, Kind};
use crate::http::Http;
use crate::url;

const RESOURCE: &str = "oauth-protected-resource";
const SERVER: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";
/// The scope that requests a refresh token.
const OFFLINE: &str = "offline_access";

/// The results of discovery before a sign-in: the resource, its authorization server, and the scopes to request.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// Empty for an account at the authorization server itself.
    pub resource: String,
    pub scopes: Vec<String>,
    pub(crate) server: ServerMetadata,
}

impl Discovered {
    pub fn issuer(&self) -> &str {
        &self.server.issuer
    }

    /// Whether the user can sign in with a code on another device.
    pub fn offers_device_flow(&self) -> bool {
        self.server.device_authorization_endpoint.is_some()
    }
}

#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The metadata of an authorization server.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServerMetadata {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) device_authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) scopes_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

impl ServerMetadata {
    /// Servers of 2025-03-26 without metadata have their endpoints at fixed paths.
    fn at_fixed_paths(origin: &str) -> Self {
        let at = |path: &str| Some(format!("{origin}{path}"));
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            revocation_endpoint: None,
            device_authorization_endpoint: None,
            scopes_supported: Vec::new(),
            token_endpoint_auth_methods_supported: None,
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
        }
    }
}

/// Finds out what a sign-in at `target` needs. `challenge` is what the server refused with, if it has refused.
pub async fn discover(http: &Http, target: &Target, challenge: &Challenge) -> Result<Discovered, Error> {
    if let Some(issuer) = target.settings.issuer.as_ref().filter(|_| target.settings.is_account) {
        let server = server_metadata(http, target, issuer).await?.ok_or_else(|| no_metadata(issuer))?;
        let scopes = choose_scopes(target, challenge, Vec::new(), &server);
        return Ok(Discovered { resource: String::new(), scopes, server });
    }
    let own = url::resource(&target.url).ok_or_else(|| not_offered(target))?;
    let found = resource_metadata(http, target, challenge).await?;
    let (resource, servers, supported) = match found {
        Some(found) => (found.resource, found.authorization_servers, found.scopes_supported),
        None => (own, Vec::new(), Vec::new()),
    };
    let named = target.settings.issuer.clone().or_else(|| servers.first().cloned());
    let server = match named {
        Some(issuer) => server_metadata(http, target, &issuer).await?.ok_or_else(|| no_metadata(&issuer))?,
        None => of_old(http, target, challenge).await?,
    };
    let scopes = choose_scopes(target, challenge, supported, &server);
    Ok(Discovered { resource, scopes, server })
}

/// The server's challenge to a request without a token; an empty one if the server does not refuse.
pub async fn challenge(http: &Http, target: &Target) -> Result<Challenge, Error> {
    let request = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let answer = http.post_json(&target.url.to_string(), &request).await?;
    Ok(Challenge::read(answer.status, &answer.headers).unwrap_or_default())
}

/// The scopes to ask for: those that the config sets, or the server's challenge names, or its metadata.
fn choose_scopes(
    target: &Target,
    challenge: &Challenge,
    supported: Vec<String>,
    server: &ServerMetadata,
) -> Vec<String> {
    let scopes = match &target.settings.scopes {
        Some(scopes) => return union(scopes, &[]),
        None if !challenge.scopes.is_empty() => challenge.scopes.clone(),
        None => supported,
    };
    let offline: Vec<String> =
        server.scopes_supported.iter().filter(|scope| *scope == OFFLINE).cloned().collect();
    union(&scopes, &offline)
}

async fn resource_metadata(
    http: &Http,
    target: &Target,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, Error> {
    let inserted = || url::well_known(&target.url, RESOURCE, true);
    let mut places: Vec<String> = challenge.resource_metadata.clone().or_else(inserted).into_iter().collect();
    if challenge.resource_metadata.is_none() {
        places.extend(url::well_known(&target.url, RESOURCE, false));
        places.dedup();
    }
    for place in places {
        check_place(target, &place)?;
        let answer = http.get(&place).await?;
        if !answer.status.is_success() {
            continue;
        }
        let Ok(found) = serde_json::from_value::<ResourceMetadata>(answer.body) else { continue };
        if !url::covers(&found.resource, &target.url) {
            let what = format!("the server's metadata is for another resource, {}", found.resource);
            return Err(Error::violation(Reason::new(what).with_hint(format!(
                "check `url` of `{}`; signing in could hand a token to another server",
                target.name
            ))));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

/// A server without resource metadata is its own authorization server, as in 2025-03-26.
async fn of_old(http: &Http, target: &Target, challenge: &Challenge) -> Result<ServerMetadata, Error> {
    let origin = url::origin(&target.url).ok_or_else(|| not_offered(target))?;
    if let Some(found) = server_metadata(http, target, &origin).await? {
        return Ok(found);
    }
    let fixed = ServerMetadata::at_fixed_paths(&origin);
    // Only a server that registers clients there has these endpoints; any other answers 404.
    let register = fixed.registration_endpoint.clone().unwrap_or_default();
    let answer = http.post_json(&register, &serde_json::json!({})).await?;
    let is_there = answer.status.as_u16() != 404 && answer.status.as_u16() != 405;
    let is_oauth = answer.body["error"].is_string() || answer.body["client_id"].is_string();
    if *challenge == Challenge::default() && !(is_there && is_oauth) {
        return Err(not_offered(target));
    }
    Ok(fixed)
}

/// The metadata of an authorization server, from the first well-known place that has it.
async fn server_metadata(
    http: &Http,
    target: &Target,
    issuer: &str,
) -> Result<Option<ServerMetadata>, Error> {
    let base: Uri = issuer.parse().map_err(|_| Error::violation(format!("`{issuer}` is not a URL")))?;
    for place in places(&base) {
        check_place(target, &place)?;
        let answer = http.get(&place).await?;
        if !answer.status.is_success() {
            continue;
        }
        let Ok(found) = serde_json::from_value::<ServerMetadata>(answer.body) else { continue };
        if !is_same_issuer(&found.issuer, issuer) {
            let what = format!("the metadata at {place} is of another issuer, {}", found.issuer);
            return Err(Error::violation(Reason::new(what).because(format!("{issuer} was expected"))));
        }
        check_endpoints(target, &found)?;
        return Ok(Some(found));
    }
    Ok(None)
}

/// The metadata of an issuer that the config names, as it is.
pub(crate) async fn issuer_document(http: &Http, base: &Uri, issuer: &str) -> Result<Value, Error> {
    for place in places(base) {
        let answer = http.get(&place).await?;
        let named = answer.body["issuer"].as_str().filter(|_| answer.status.is_success());
        let Some(named) = named else { continue };
        if !is_same_issuer(named, issuer) {
            let what = format!("the metadata at {place} is of another issuer, {named}");
            return Err(Error::violation(Reason::new(what).because(format!("{issuer} was expected"))));
        }
        return Ok(answer.body);
    }
    Err(no_metadata(issuer))
}

fn no_metadata(issuer: &str) -> Error {
    Error::new(Kind::NotOffered, format!("the authorization server {issuer} publishes no metadata"))
}

/// The same string. Some servers write the slash of an empty path in one place and not in the other.
fn is_same_issuer(found: &str, expected: &str) -> bool {
    let is_bare =
        |text: &str| text.parse::<Uri>().is_ok_and(|url| url.path() == "/" && url.query().is_none());
    found == expected
        || (is_bare(found)
            && is_bare(expected)
            && found.trim_end_matches('/') == expected.trim_end_matches('/'))
}

fn places(issuer: &Uri) -> Vec<String> {
    let path = issuer.path().trim_end_matches('/');
    let mut places: Vec<String> =
        [SERVER, OPENID].into_iter().filter_map(|suffix| url::well_known(issuer, suffix, true)).collect();
    if !path.is_empty()
        && let Some(origin) = url::origin(issuer)
    {
        places.push(format!("{origin}{path}/.well-known/{OPENID}"));
    }
    places
}

fn check_endpoints(target: &Target, server: &ServerMetadata) -> Result<(), Error> {
    let endpoints = [
        &server.authorization_endpoint,
        &server.token_endpoint,
        &server.registration_endpoint,
        &server.revocation_endpoint,
        &server.device_authorization_endpoint,
    ];
    endpoints.into_iter().flatten().try_for_each(|endpoint| check_place(target, endpoint))
}

/// A server on the internet must not lead the gateway to addresses in the gateway's own network.
fn check_place(target: &Target, place: &str) -> Result<(), Error> {
    let uri: Uri = place.parse().map_err(|_| Error::violation(format!("`{place}` is not a URL")))?;
    if !url::is_secure(&uri) {
        let reason = Reason::new(format!("{place} is not an https:// address"));
        return Err(Error::violation(reason.because("a sign-in over plain HTTP works on this machine only")));
    }
    if url::is_private(&uri) && !url::is_private(&target.url) {
        let what = format!("{place} is an address in this network, named by a server outside of it");
        return Err(Error::violation(what));
    }
    // A fragment would hide the parameters that are added to the address.
    if place.contains('#') {
        return Err(Error::violation(format!("{place} has a fragment")));
    }
    Ok(())
}

fn not_offered(target: &Target) -> Error {
    Error::new(Kind::NotOffered, Reason::of_upstream(&target.name, "offers no OAuth sign-in"))
}

/// Scopes as they are sent.
pub(crate) fn scope_text(scopes: &[String]) -> Option<String> {
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

/// The scopes that an answer grants: those that were asked for, where it names none.
pub(crate) fn granted(answer: Option<&str>, asked: &[String]) -> Vec<String> {
    answer.map_or_else(|| asked.to_vec(), split_scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let check =
            |issuer: &'static str, expected: &[&str]| assert_eq!(places(&Uri::from_static(issuer)), expected);
        check(
            "https://as.example",
            &[
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        );
        check(
            "https://as.example/tenant",
            &[
                "https://as.example/.well-known/oauth-authorization-server/tenant",
                "https://as.example/.well-known/openid-configuration/tenant",
                "https://as.example/tenant/.well-known/openid-configuration",
            ],
        );
    }

    #[test]
    fn issuers_are_compared_as_strings_but_for_the_slash_of_an_empty_path() {
        assert!(is_same_issuer("https://as.example/", "https://as.example"));
        assert!(!is_same_issuer("https://as.example/a/", "https://as.example/a"));
        assert!(!is_same_issuer("https://AS.example", "https://as.example"));
        assert!(!is_same_issuer("https://evil.example", "https://as.example"));
    }

    fn target(url: &'static str) -> Target {
        Target { name: "far".into(), url: Uri::from_static(url), settings: super::super::Settings::default() }
    }

    #[test]
    fn an_authorization_endpoint_with_a_fragment_is_refused() {
        let check = |endpoint: &str| {
            let server = ServerMetadata {
                authorization_endpoint: Some(endpoint.to_owned()),
                ..ServerMetadata::at_fixed_paths("https://as.example")
            };
            check_endpoints(&target("https://far.example/mcp"), &server)
        };
        assert!(check("https://as.example/authorize?tenant=1").is_ok());
        let error = check("https://as.example/authorize#x").unwrap_err();
        assert_eq!(error.to_string(), "https://as.example/authorize#x has a fragment");
    }

    #[test]
    fn a_server_outside_may_not_name_addresses_inside() {
        assert!(check_place(&target("https://far.example/mcp"), "https://192.168.1.1/token").is_err());
        assert!(check_place(&target("https://far.example/mcp"), "http://127.0.0.1/token").is_err());
        assert!(check_place(&target("http://127.0.0.1:1/mcp"), "http://127.0.0.1:2/token").is_ok());
        assert!(check_place(&target("https://far.example/mcp"), "http://as.example/token").is_err());
    }
}
