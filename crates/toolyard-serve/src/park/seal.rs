//! The state that a client carries while its call is parked: sealed, so that it can be neither read nor made
//! up, and bound to who called what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::Value;
use sha2::{Digest, Sha256};
use toolyard_proto::{Method, Raw};

use toolyard_model::Origin;

/// Names one parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ParkId([u8; 16]);

impl ParkId {
    pub(super) fn random() -> Self {
        Self(random())
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// Who called what: a digest of the principal, the view, the method and the parameters as first sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding([u8; 32]);

impl Binding {
    pub(super) fn of(origin: &Origin, method: &Method, params: &Raw) -> Self {
        let mut digest = Sha256::new();
        for part in [
            origin.principal.name().as_bytes(),
            format!("{:?}", origin.view).as_bytes(),
            method.as_str().as_bytes(),
        ] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let params = params.without(&["_meta", "inputResponses", "requestState"]);
        digest.update(params.read::<Value>().map(canonical).unwrap_or_default().to_string());
        Self(digest.finalize().into())
    }
}

/// The same whatever order a client writes members in.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.into_iter().map(|(key, value)| (key, canonical(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.into_iter().collect()
        }
        Value::Array(values) => values.into_iter().map(canonical).collect(),
        value => value,
    }
}

/// What a state says, once opened.
pub(super) struct Opened {
    pub(super) id: ParkId,
    pub(super) expires: SystemTime,
    pub(super) bound: Binding,
}

/// Seals and opens states. The key lives as long as the process, like the calls it leads to.
pub(super) struct Seal {
    key: LessSafeKey,
    /// Tells our states from those of an upstream, which may be a gateway like this one.
    prefix: String,
}

impl Seal {
    pub(super) fn new() -> Self {
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &random::<32>()).expect("the key has the cipher's length");
        Self { key: LessSafeKey::new(key), prefix: format!("yard-{}.", HEXLOWER.encode(&random::<8>())) }
    }

    /// The state's text, if this endpoint made it.
    pub(super) fn own(&self, state: &Raw) -> Option<String> {
        state.as_string().filter(|text| text.starts_with(&self.prefix))
    }

    pub(super) fn seal(&self, id: ParkId, expires: SystemTime, binding: &Binding) -> String {
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut bytes = [&id.0[..], &expires.to_le_bytes(), &binding.0].concat();
        let nonce = random::<NONCE_LEN>();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut bytes)
            .expect("a few bytes can be sealed");
        format!("{}{}", self.prefix, BASE64URL_NOPAD.encode(&[&nonce[..], &bytes].concat()))
    }

    pub(super) fn open(&self, state: &str) -> Option<Opened> {
        let mut bytes = BASE64URL_NOPAD.decode(state.strip_prefix(&self.prefix)?.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let open = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), sealed).ok()?;
        let (id, rest) = open.split_first_chunk::<16>()?;
        let (expires, bound) = rest.split_first_chunk::<8>()?;
        let expires = UNIX_EPOCH + Duration::from_secs(u64::from_le_bytes(*expires));
        Some(Opened { id: ParkId(*id), expires, bound: Binding(bound.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_as_it_was_sealed_and_not_at_all_when_touched() {
        let (seal, other) = (Seal::new(), Seal::new());
        let (id, binding) = (ParkId::random(), Binding([7; 32]));
        let state = seal.seal(id, SystemTime::now(), &binding);
        let opened = seal.open(&state).unwrap();
        assert_eq!((opened.id, opened.bound), (id, binding));
        assert!(other.open(&state).is_none());
        assert!(other.own(&Raw::from_serialize(&state)).is_none());
        for at in 0..state.len() {
            let mut touched = state.clone().into_bytes();
            touched[at] ^= 1;
            assert!(
                String::from_utf8(touched).ok().is_none_or(|touched| seal.open(&touched).is_none()),
                "byte {at}"
            );
        }
        assert!(seal.open(&format!("{state}-TAMPERED")).is_none());
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[{"x":1,"y":2}]}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":[{"y":2,"x":1}],"a":1}"#).unwrap();
        assert_eq!(canonical(one).to_string(), canonical(two).to_string());
    }
}
