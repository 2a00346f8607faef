//! `hash`: the checksum of a text, which a model can only guess.

use data_encoding::{BASE64, HEXLOWER};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256, Sha512};
use toolyard_tool::tool;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wish {
    /// The text, as UTF-8.
    text: String,
    /// Which checksum.
    #[serde(default)]
    algorithm: Algorithm,
    /// How it is written.
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    #[default]
    Sha256,
    Sha512,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    #[default]
    Hex,
    Base64,
}

/// Computes the SHA-2 checksum of a text.
#[tool(read_only, idempotent)]
pub(crate) async fn hash(wish: Wish) -> String {
    let digest = match wish.algorithm {
        Algorithm::Sha256 => Sha256::digest(&wish.text).to_vec(),
        Algorithm::Sha512 => Sha512::digest(&wish.text).to_vec(),
    };
    match wish.encoding {
        Encoding::Hex => HEXLOWER.encode(&digest),
        Encoding::Base64 => BASE64.encode(&digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn checksums_are_those_of_the_standard() {
        let of = async |algorithm, encoding| hash(Wish { text: "abc".into(), algorithm, encoding }).await;
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(Algorithm::Sha256, Encoding::Hex).await, hex);
        assert_eq!(
            of(Algorithm::Sha256, Encoding::Base64).await,
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
        assert!(of(Algorithm::Sha512, Encoding::Hex).await.starts_with("ddaf35a193617aba"));
    }
}
