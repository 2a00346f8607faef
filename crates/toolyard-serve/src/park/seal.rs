//! The state that a client carries while its call is parked: sealed, so that it can be neither read nor
//! forged, and bound to the caller and the request.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};
use toolyard_model::{Keys, Origin};
use toolyard_proto::{Method, Raw};

/// The id of a parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ParkId([u8; 16]);

impl ParkId {
    pub(super) fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        Self(bytes)
    }
}

/// The caller and the request: a digest of the principal, the view, the method and the parameters as first sent.
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

/// A canonical form, which does not depend on the order of members.
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

/// The content of a state, once opened.
pub(super) struct OpenedState {
    /// The run of the gateway in which the call was parked. A parked call ends with its process.
    pub(super) run: [u8; 8],
    pub(super) id: ParkId,
    pub(super) expires: SystemTime,
    pub(super) bound: Binding,
}

const PURPOSE: &str = "parked call";
/// Followed by the gateway that the client called, where that one has relayed the call to this one. The client's answer
/// takes the same way, whichever gateway it is sent to: only there the request has the form in which it was parked
/// here.
const VIA: &str = "yard-via-";

/// Seals and opens states.
pub(super) struct Seal {
    keys: Arc<Keys>,
    /// Distinguishes our states from those of an upstream, which may be a gateway like this one.
    prefix: String,
}

impl Seal {
    pub(super) fn new(keys: Arc<Keys>) -> Self {
        let prefix = format!("yard-{}.", keys.gateway());
        Self { keys, prefix }
    }

    /// The state's text, if this gateway made it, in this run or an earlier one.
    pub(super) fn own(&self, state: &Raw) -> Option<String> {
        state.as_string().filter(|text| self.sealed(text).is_some())
    }

    /// The sealed part of a state of this gateway.
    fn sealed<'a>(&self, state: &'a str) -> Option<&'a str> {
        let relayed = || {
            let (_, own) = state.strip_prefix(VIA)?.split_once('.')?;
            own.strip_prefix(self.keys.gateway())?.strip_prefix('.')
        };
        state.strip_prefix(&self.prefix).or_else(relayed)
    }

    pub(super) fn run(&self) -> [u8; 8] {
        self.keys.run()
    }

    pub(super) fn seal(
        &self,
        id: ParkId,
        expires: SystemTime,
        binding: &Binding,
        via: Option<&str>,
    ) -> String {
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let bytes = [&self.run()[..], &id.0, &expires.to_le_bytes(), &binding.0].concat();
        let sealed = self.keys.seal(PURPOSE, &bytes);
        match via {
            Some(via) => format!("{VIA}{via}.{}.{sealed}", self.keys.gateway()),
            None => format!("{}{sealed}", self.prefix),
        }
    }

    pub(super) fn open(&self, state: &str) -> Option<OpenedState> {
        let opened = self.keys.open(PURPOSE, self.sealed(state)?)?;
        let (run, rest) = opened.split_first_chunk::<8>()?;
        let (id, rest) = rest.split_first_chunk::<16>()?;
        let (expires, bound) = rest.split_first_chunk::<8>()?;
        let expires = UNIX_EPOCH + Duration::from_secs(u64::from_le_bytes(*expires));
        Some(OpenedState { run: *run, id: ParkId(*id), expires, bound: Binding(bound.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_as_it_was_sealed_and_not_at_all_when_changed() {
        let (seal, other) = (Seal::new(Arc::default()), Seal::new(Arc::default()));
        let (id, binding) = (ParkId::random(), Binding([7; 32]));
        let relayed = seal.seal(id, SystemTime::now(), &binding, Some("abc"));
        assert_eq!(seal.open(&relayed).unwrap().id, id);
        assert!(relayed.starts_with("yard-via-abc.") && other.own(&Raw::from_serialize(&relayed)).is_none());
        let state = seal.seal(id, SystemTime::now(), &binding, None);
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
