//! `uuid`: ids that nobody else has. Models make them up badly: what looks random to them is not.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{ToolError, clamp, tool};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wish {
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    count: usize,
    /// Which kind.
    #[serde(default)]
    version: Version,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Version {
    /// Random.
    #[default]
    V4,
    /// Begins with the time, so that later ones sort behind earlier ones.
    V7,
}

fn one() -> usize {
    1
}

/// Makes new UUIDs.
#[tool(read_only)]
pub(crate) async fn uuid(wish: Wish) -> Result<Vec<String>, ToolError> {
    (0..wish.count).map(|_| make(wish.version)).collect()
}

fn make(version: Version) -> Result<String, ToolError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    if let Version::V7 = version {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    }
    let number = match version {
        Version::V4 => 0x40,
        Version::V7 => 0x70,
    };
    bytes[6] = number | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let digits = HEXLOWER.encode(&bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ids_have_the_form_of_their_version() {
        for (version, digit) in [(Version::V4, b'4'), (Version::V7, b'7')] {
            let ids = uuid(Wish { count: 20, version }).await.unwrap();
            let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
            assert_eq!(distinct.len(), 20);
            for id in &ids {
                let bytes = id.as_bytes();
                let dashes: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'-').collect();
                assert_eq!((bytes.len(), dashes), (36, vec![8, 13, 18, 23]), "{id}");
                assert_eq!(bytes[14], digit, "{id}");
                assert!(b"89ab".contains(&bytes[19]), "{id}");
            }
        }
    }
}
