//! Seals the state that the client keeps between the rounds of a call. The state is not secret, since most of it is
//! from the client; the seal proves that it is returned unchanged, and for the same call.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac::{self, HMAC_SHA256};

pub(crate) struct Seal(hmac::Key);

impl Seal {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, key))
    }

    pub(crate) fn random() -> Self {
        Self::new(crate::random::token().as_bytes())
    }

    /// `body`, bound to the call that `call` describes.
    pub(crate) fn close(&self, call: &str, body: &str) -> String {
        let tag = hmac::sign(&self.0, &signed(call, body));
        [body.as_bytes(), tag.as_ref()].map(|part| BASE64URL_NOPAD.encode(part)).join(".")
    }

    /// The body, if nothing was changed and it was made for this call.
    pub(crate) fn open(&self, call: &str, sealed: &str) -> Option<String> {
        let (body, tag) = sealed.split_once('.')?;
        let [body, tag] = [body, tag].map(|part| BASE64URL_NOPAD.decode(part.as_bytes()).ok());
        let body = String::from_utf8(body?).ok()?;
        hmac::verify(&self.0, &signed(call, &body), &tag?).ok()?;
        Some(body)
    }
}

/// The length prefix separates the bound part from the carried part.
fn signed(call: &str, body: &str) -> Vec<u8> {
    format!("{}:{call}{body}", call.len()).into_bytes()
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::Seal;

    #[test]
    fn only_the_untouched_state_of_the_same_call_is_opened() {
        let (seal, other) = (Seal::new(b"a"), Seal::random());
        let sealed = seal.close("call", "body");
        assert_eq!(seal.open("call", &sealed).as_deref(), Some("body"));
        assert_eq!(seal.close("call", "body"), sealed);
        assert_eq!(seal.open("another", &sealed), None);
        assert_eq!(seal.open("call", &format!("{sealed}-TAMPERED")), None);
        assert_eq!(seal.open("call", ""), None);
        assert_eq!(other.open("call", &sealed), None);
    }
}
