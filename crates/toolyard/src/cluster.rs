//! This gateway as a node of a cluster, if the config has one and the program was built with it.

#[cfg(not(feature = "cluster"))]
mod without;
#[cfg(feature = "cluster")]
mod with;

use toolyard_config::{Config, fingerprint};

#[cfg(feature = "cluster")]
pub(crate) use with::Node;
#[cfg(not(feature = "cluster"))]
pub(crate) use without::Node;

/// Identifies what all nodes of a cluster should have in common: upstreams, profiles and the rules of calls.
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "compared between nodes only"))]
fn digest(config: &Config) -> String {
    use sha2::{Digest as _, Sha256};
    let mut upstreams: Vec<String> = config
        .upstreams
        .on
        .iter()
        .map(|upstream| format!("{} {}", upstream.id, fingerprint(upstream)))
        .collect();
    upstreams.sort();
    let text = format!("{upstreams:?} {:?} {:?} {:?}", config.profiles, config.calls(), config.names);
    data_encoding::HEXLOWER.encode(&Sha256::digest(text)[..8])
}
