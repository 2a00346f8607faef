//! `[auth.oauth]`: whose tokens the gateway accepts from its clients.

use std::fmt;

use super::oauth::read_url;
use super::reader::{Field, Reader};

/// The claims that hold roles, if the config names none.
const ROLE_CLAIMS: [&str; 2] = ["roles", "groups"];

/// The issuers of tokens, and what a token must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceConfig {
    pub issuers: Vec<String>,
    /// The accepted audiences of tokens, in place of the address of the view.
    pub audience: Vec<String>,
    /// Scopes that each token must have.
    pub scopes: Vec<String>,
    /// Claims whose values are roles.
    pub role_claims: Vec<String>,
    /// Where the keys are, if the issuer's metadata does not name it.
    pub jwks_uri: Option<String>,
    pub introspection: Option<IntrospectionConfig>,
}

/// How the issuer is asked about tokens that are not JWTs.
#[derive(Clone, PartialEq, Eq)]
pub struct IntrospectionConfig {
    pub url: Option<String>,
    pub client_id: String,
    pub client_secret: Option<String>,
}

impl fmt::Debug for IntrospectionConfig {
    /// The secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionConfig").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Option<ResourceConfig> {
    let (place, mut section) = (field.clone(), field.section(reader)?);
    let issuers_field = section.take("issuers");
    let issuers = issuers_field.as_ref().map(|field| read_issuers(reader, field)).unwrap_or_default();
    let mut list = |key, reader: &mut Reader<'_>| section.take(key).map(|field| field.expanded_list(reader));
    let audience = list("audience", reader).unwrap_or_default();
    let role_claims = list("role_claims", reader);
    let scopes_field = section.take("scopes");
    let scopes = scopes_field.as_ref().map(|field| read_scopes(reader, field)).unwrap_or_default();
    let jwks_uri = section.take("jwks_uri");
    if let Some(field) = jwks_uri.as_ref().filter(|_| issuers.len() > 1) {
        field.error(
            reader,
            "goes only with one issuer",
            "remove it: the metadata of each issuer names its keys",
        );
    }
    let jwks_uri = jwks_uri.and_then(|field| read_url(reader, &field, "jwks"));
    let introspection = section.take("introspection").and_then(|field| read_introspection(reader, field));
    section.finish(reader);
    if issuers_field.is_none() {
        let help = format!("write {}", reader.example("issuers", "[\"https://login.example\"]"));
        place.error(reader, "`issuers` is missing", help);
    }
    let role_claims = role_claims.unwrap_or_else(|| ROLE_CLAIMS.map(str::to_owned).to_vec());
    Some(ResourceConfig { issuers, audience, scopes, role_claims, jwks_uri, introspection })
}

fn read_issuers(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let items = field.items(reader);
    if items.is_empty() {
        let help = format!("write {}", field.example(reader, "[\"https://login.example\"]"));
        field.error(reader, "expected at least one issuer", help);
    }
    items.iter().filter_map(|item| read_issuer(reader, item)).collect()
}

/// The issuer as it is in `iss`, which is compared letter by letter.
fn read_issuer(reader: &mut Reader<'_>, item: &Field) -> Option<String> {
    let text = read_url(reader, item, "login")?;
    if text.contains(['?', '#']) {
        let help = "write the issuer exactly as its tokens have it in `iss`";
        item.error(reader, format!("an issuer has no query and no fragment, found \"{text}\""), help);
        return None;
    }
    Some(text)
}

fn read_scopes(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let mut scopes = field.expanded_list(reader);
    let is_scope = |scope: &String| {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        !scope.is_empty() && scope.bytes().all(is_allowed)
    };
    if let Some(wrong) = scopes.iter().find(|scope| !is_scope(scope)) {
        let help = "write each scope on its own, without spaces and quotation marks";
        field.error(reader, format!("expected scopes, found \"{wrong}\""), help);
    }
    scopes.retain(is_scope);
    scopes
}

fn read_introspection(reader: &mut Reader<'_>, field: Field) -> Option<IntrospectionConfig> {
    let (place, mut section) = (field.clone(), field.section(reader)?);
    let url = section.take("url").and_then(|field| read_url(reader, &field, "introspect"));
    let client_id = section.take("client_id").map(|field| field.expanded(reader));
    let client_secret = section.take("client_secret").and_then(|field| field.expanded(reader));
    section.finish(reader);
    let Some(client_id) = client_id else {
        let help = "set it to the client that the issuer has registered for this gateway";
        place.error(reader, "`client_id` is missing", help);
        return None;
    };
    Some(IntrospectionConfig { url, client_id: client_id?, client_secret })
}
