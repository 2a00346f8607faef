//! The public keys of an issuer (RFC 7517), and the signatures that they prove.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::token::Algorithm;

/// Issuers publish a handful.
const MOST_KEYS: usize = 100;

/// The keys of one issuer that can prove signatures.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Clone, Debug)]
pub(super) struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Clone, Debug)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The point in its long form.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Parses a set of keys; `None` if it is not one. Keys of other kinds are left out, as the standard requires.
    pub(super) fn parse(document: &Value) -> Option<Self> {
        let keys = document["keys"].as_array()?;
        Some(Self(keys.iter().take(MOST_KEYS).filter_map(Key::parse).collect()))
    }

    /// The key for a signature. Without an id, only if there is no choice.
    pub(super) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| key.algorithm() == algorithm);
        if let Some(id) = id {
            return fitting.find(|key| key.id.as_deref() == Some(id));
        }
        let only = fitting.next()?;
        fitting.next().is_none().then_some(only)
    }
}

impl Key {
    fn parse(key: &Value) -> Option<Self> {
        let text = |name: &str| key[name].as_str();
        let bytes = |name: &str| BASE64URL_NOPAD.decode(text(name)?.trim_end_matches('=').as_bytes()).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let public = match (text("kty")?, text("crv")) {
            ("RSA", _) => Public::Rsa { modulus: bytes("n")?, exponent: bytes("e")? },
            ("EC", Some("P-256")) => Public::P256([vec![4], bytes("x")?, bytes("y")?].concat()),
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes("x")?),
            _ => return None,
        };
        let key = Self { id: text("kid").map(str::to_owned), public };
        let is_usable = text("alg").is_none_or(|alg| key.names().contains(&alg));
        is_usable.then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::Rsa { .. } => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// The accepted values of `alg` for such a key.
    fn names(&self) -> &'static [&'static str] {
        match self.public {
            Public::Rsa { .. } => &["RS256"],
            Public::P256(_) => &["ES256"],
            Public::Ed25519(_) => &["EdDSA", "Ed25519"],
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified =
            match &self.public {
                Public::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
                Public::P256(point) => {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
                }
                Public::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
            };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_an_id_a_key_is_used_only_if_there_is_no_choice() {
        let ed = |id: &str| json!({ "kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": id });
        let one = KeySet::parse(&json!({ "keys": [ed("a")] })).unwrap();
        assert!(one.find(Algorithm::EdDsa, None).is_some());
        assert!(one.find(Algorithm::EdDsa, Some("a")).is_some());
        assert!(one.find(Algorithm::EdDsa, Some("b")).is_none());
        assert!(one.find(Algorithm::Rs256, Some("a")).is_none(), "the key decides what it is used for");
        let two = KeySet::parse(&json!({ "keys": [ed("a"), ed("b")] })).unwrap();
        assert!(two.find(Algorithm::EdDsa, None).is_none());
    }

    #[test]
    fn keys_for_other_purposes_are_left_out() {
        let mut keys = json!({ "keys": [
            { "kty": "oct", "k": "AAAA", "kid": "a" },
            { "kty": "OKP", "crv": "Ed25519", "x": "AAAA", "use": "enc" },
            { "kty": "RSA", "n": "AAAA", "e": "AQAB", "alg": "RSA-OAEP" },
            { "kty": "new", "crv": "Ed25519" },
            7,
        ] });
        assert_eq!(KeySet::parse(&keys).unwrap().0.len(), 0);
        keys["keys"] = json!("none");
        assert!(KeySet::parse(&keys).is_none());
    }
}
