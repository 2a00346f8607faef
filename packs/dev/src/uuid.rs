//! `uuid`: unique ids. Models are bad at making them up: what looks random to a model is not.

use ::uuid::Uuid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{clamp, tool};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wish {
    /// The number of ids.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    count: usize,
    /// The version of the UUIDs.
    #[serde(default)]
    version: Version,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Version {
    /// Random.
    #[default]
    V4,
    /// Begins with the time, so that later ids sort after earlier ones.
    V7,
}

fn one() -> usize {
    1
}

/// Makes new UUIDs.
#[tool(read_only)]
pub(crate) async fn uuid(wish: Wish) -> Vec<String> {
    let make = match wish.version {
        Version::V4 => Uuid::new_v4,
        Version::V7 => Uuid::now_v7,
    };
    (0..wish.count).map(|_| make().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ids_have_the_form_of_their_version() {
        for (version, digit) in [(Version::V4, b'4'), (Version::V7, b'7')] {
            let ids = uuid(Wish { count: 20, version }).await;
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
