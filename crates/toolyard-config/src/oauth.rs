//! `oauth` of `[upstreams.NAME]`: how the gateway signs in at a server.

use std::fmt;

use super::reader::{Field, Reader};
use super::tree::Value;

/// The settings for signing in at one server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    /// Never sign in: the server is used without credentials, or with those in `headers`.
    pub is_off: bool,
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// The address of a client id metadata document.
    pub client_metadata_url: Option<String>,
    pub scopes: Option<Vec<String>>,
    /// The authorization server, where the server names none.
    pub issuer: Option<String>,
    /// The port that the browser comes back to.
    pub callback_port: Option<u16>,
    /// Whether all principals share one sign-in.
    pub shared: bool,
}

impl fmt::Debug for OAuthConfig {
    /// The secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig")
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// A table, or `false` for none.
pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> OAuthConfig {
    if let Value::Flag(flag) = field.value() {
        return OAuthConfig { is_off: !flag, ..OAuthConfig::default() };
    }
    let Some(mut section) = field.section(reader) else { return OAuthConfig::default() };
    let client_id = section.take("client_id").and_then(|field| field.expanded(reader));
    let client_secret_field = section.take("client_secret");
    let client_secret = client_secret_field.as_ref().and_then(|field| field.expanded(reader));
    if let (Some(field), None) = (&client_secret_field, &client_id) {
        field.error(
            reader,
            "goes only with `client_id`",
            "set `client_id` to the id of the registered client",
        );
    }
    let client_metadata_url =
        section.take("client_metadata_url").and_then(|field| read_url(reader, &field, "client.json"));
    let scopes = section.take("scopes").map(|field| field.expanded_list(reader));
    let issuer = section.take("issuer").and_then(|field| read_url(reader, &field, "login"));
    let callback_port = section.take("callback_port").and_then(|field| read_port(reader, &field));
    let shared = section
        .take("credentials")
        .and_then(|field| field.choice(reader, &[("principal", false), ("shared", true)]));
    section.finish(reader);
    OAuthConfig {
        is_off: false,
        client_id,
        client_secret,
        client_metadata_url,
        scopes,
        issuer,
        callback_port,
        shared: shared.unwrap_or_default(),
    }
}

/// An `https` address; on this machine `http` will do.
pub(crate) fn read_url(reader: &mut Reader<'_>, field: &Field, example: &str) -> Option<String> {
    let text = field.expanded(reader)?;
    let url = text.parse::<http::Uri>().ok().filter(|url| url.host().is_some());
    let is_local = |url: &http::Uri| matches!(url.host(), Some("127.0.0.1" | "[::1]" | "localhost"));
    let is_good = url.is_some_and(|url| match url.scheme_str() {
        Some("https") => true,
        Some("http") => is_local(&url),
        _ => false,
    });
    if !is_good {
        let example = field.example(reader, &format!("\"https://example.com/{example}\""));
        field.error(
            reader,
            format!("expected an https:// address, found \"{text}\""),
            format!("write {example}"),
        );
        return None;
    }
    Some(text)
}

fn read_port(reader: &mut Reader<'_>, field: &Field) -> Option<u16> {
    let port = field.integer(reader)?;
    let checked = u16::try_from(port).ok().filter(|port| *port > 0);
    if checked.is_none() {
        field.error(reader, format!("there is no port {port}"), "write a number from 1 to 65535");
    }
    checked
}
