//! What nodes write into the store, sealed with the cluster's key: a program that can write to NATS but does not know
//! the key can neither read it nor pose as a node.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_core::plan::Condition;
use toolyard_core::upstream::state::{Phase, State};
use toolyard_model::Keys;
use toolyard_proto::Reason;

use crate::ownership::Member;

/// The value of a lease of which the member was fenced. It needs no seal: it only takes a node out, which any
/// program that can delete keys could do as well.
pub(crate) const FENCED: &[u8] = b"fenced";
/// In characters. All of a record travels with each renewal of a lease.
const LONGEST_REASON: usize = 200;

/// A node, as the others need to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) member: Member,
    /// Where other nodes connect to it, `host:port`. Nothing if they cannot.
    pub(crate) address: Option<String>,
    /// The public key of its connections, as a `SubjectPublicKeyInfo`.
    #[serde(with = "base64")]
    pub(crate) key: Vec<u8>,
    /// The id of the gateway, by which its parked calls are recognised.
    pub(crate) gateway: String,
    pub(crate) version: String,
    /// A digest of its config, to show where nodes differ.
    pub(crate) config: String,
    /// Identifies the process on its machine.
    pub(crate) process: Option<ProcessRecord>,
    /// When it started, in seconds since 1970.
    pub(crate) started: u64,
    /// Upstreams that it has and that are not active.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conditions: BTreeMap<String, ConditionRecord>,
    /// What instances that it has say about themselves, such as their names and folders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) instances: BTreeMap<String, Value>,
}

/// Where an upstream is in its life, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConditionRecord {
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stderr: Option<String>,
    pub(crate) hint: Option<String>,
}

impl ConditionRecord {
    pub(crate) fn of(state: &State) -> Self {
        let short = |text: &str| text.chars().take(LONGEST_REASON).collect();
        let reason = state.reason.as_ref();
        Self {
            state: state.phase.as_str().to_owned(),
            reason: reason.map(|reason| short(&reason.without_stderr().summary())),
            stderr: reason.and_then(Reason::stderr).map(short),
            hint: reason.and_then(Reason::hint).map(short),
        }
    }

    /// As it is at the node that wrote it.
    pub(crate) fn condition(&self, node: &str) -> Option<Condition> {
        let reason = self.reason.as_ref().map(|reason| {
            let mut reason = Reason::new(format!("{reason} (at the node `{node}`)"));
            if let Some(lines) = &self.stderr {
                reason = reason.with_stderr(lines.clone());
            }
            if let Some(hint) = &self.hint {
                reason = reason.with_hint(hint.clone());
            }
            reason
        });
        Some(Condition { phase: Phase::parse(&self.state)?, reason })
    }
}

/// A process, so that another one on the same machine can tell whether it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    /// The boot of the machine.
    pub(crate) boot: String,
    pub(crate) pid: u32,
    /// When it started, as the system counts it.
    pub(crate) started: u64,
}

/// The owner of an id, and what it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnerRecord {
    pub(crate) member: Member,
    /// The kind of upstream that it is on its node.
    pub(crate) kind: String,
    /// Whether other nodes may show it.
    pub(crate) is_exported: bool,
}

/// Seals a record for the key that it is stored under.
pub(crate) fn seal(keys: &Keys, key: &str, record: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_vec(record).unwrap_or_default();
    keys.seal(&purpose(key), &json).into_bytes()
}

/// Nothing if it was not sealed for this key with the cluster's secret.
pub(crate) fn open<T: DeserializeOwned>(keys: &Keys, key: &str, sealed: &[u8]) -> Option<T> {
    let opened = keys.open(&purpose(key), std::str::from_utf8(sealed).ok()?)?;
    serde_json::from_slice(&opened).ok()
}

fn purpose(key: &str) -> String {
    format!("cluster record {key}")
}

mod base64 {
    //! Bytes as text.

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::BASE64URL_NOPAD;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64URL_NOPAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64URL_NOPAD.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_opens_only_under_its_key_and_with_the_secret() {
        let keys = Keys::shared(&[7; 32], "a");
        let member = Member { node: "a".into(), epoch: "1".into() };
        let record = OwnerRecord { member, kind: "app".into(), is_exported: true };
        let sealed = seal(&keys, "notes", &record);
        assert_eq!(open::<OwnerRecord>(&Keys::shared(&[7; 32], "b"), "notes", &sealed), Some(record));
        assert_eq!(open::<OwnerRecord>(&keys, "other", &sealed), None);
        assert_eq!(open::<OwnerRecord>(&Keys::shared(&[8; 32], "a"), "notes", &sealed), None);
        assert_eq!(open::<OwnerRecord>(&keys, "notes", FENCED), None);
    }
}
