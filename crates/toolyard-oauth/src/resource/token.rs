//! A token taken apart: a JWT in its compact form (RFC 7519). Nothing of it is proven here.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::Value;

/// The accepted signature algorithms. `none` and algorithms with a shared secret are never accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A JWT, as it claims to be.
#[derive(Debug)]
pub(super) struct Token<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Value,
    /// The part that is signed.
    pub(super) signed: &'t str,
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that a reader must know. None is known here.
    crit: Option<Value>,
}

impl<'t> Token<'t> {
    /// Parses a JWT. `None` if it does not look like one; the reason if it is one that is not accepted.
    pub(super) fn parse(text: &'t str) -> Result<Option<Self>, &'static str> {
        let Some((signed, signature)) = text.rsplit_once('.') else { return Ok(None) };
        let Some((header, claims)) = signed.split_once('.') else { return Ok(None) };
        // The header is a JSON object, which always begins like this.
        if !header.starts_with("ey") || claims.contains('.') {
            return Ok(None);
        }
        let header: Header = decode(header).ok_or("the header of the token is malformed")?;
        let algorithm =
            Algorithm::parse(&header.alg).ok_or("the token is signed in a way that is not accepted")?;
        if header.crit.is_some() {
            return Err("the token requires an unknown extension");
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err("the token is not an access token");
        }
        let claims: Value = decode(claims).ok_or("the claims of the token are malformed")?;
        let signature = BASE64URL_NOPAD
            .decode(signature.as_bytes())
            .map_err(|_| "the signature of the token is malformed")?;
        Ok(Some(Self { algorithm, key_id: header.kid, claims, signed, signature }))
    }
}

/// `at+jwt` is the type of access tokens (RFC 9068); many issuers write `JWT` for all kinds.
fn is_access_token(typ: &str) -> bool {
    let typ =
        typ.get(..12).filter(|start| start.eq_ignore_ascii_case("application/")).map_or(typ, |_| &typ[12..]);
    typ.eq_ignore_ascii_case("at+jwt") || typ.eq_ignore_ascii_case("jwt")
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64URL_NOPAD.decode(part.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_tokens_have_a_type_of_their_own_or_the_common_one() {
        for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"] {
            assert!(is_access_token(typ), "{typ}");
        }
        for typ in ["", "logout+jwt", "dpop+jwt", "application/", "secevent+jwt", "ééééééééé"] {
            assert!(!is_access_token(typ), "{typ}");
        }
    }
}
