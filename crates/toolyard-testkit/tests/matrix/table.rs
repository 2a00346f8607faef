//! What each pair of revisions can do, as the table in the guide.

use std::fmt::Write as _;
use std::path::Path;

use toolyard_proto::Revision;

use crate::features::{FEATURES, Feature};

const BEGIN: &str = "<!-- written by UPDATE=1 cargo test -p toolyard-testkit --test matrix -->\n";
const END: &str = "<!-- end -->";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Works,
    /// The server asks for something that the client's revision does not have; both get an error.
    Refused,
    /// The server's revision has no such thing, so there is nothing to carry.
    Lacking,
}

impl Feature {
    pub(crate) fn outcome(&self, client: Revision, server: Revision) -> Outcome {
        match self {
            _ if server < self.server_since => Outcome::Lacking,
            _ if client < self.client_since => Outcome::Refused,
            _ => Outcome::Works,
        }
    }
}

fn render() -> String {
    let mut out = String::from("| feature | client |");
    for server in Revision::ALL {
        let _ = write!(out, " {server} |");
    }
    out.push_str("\n|---|---|---|---|---|---|---|\n");
    for feature in FEATURES {
        for client in Revision::ALL {
            let _ = write!(out, "| {} | {client} |", feature.name);
            for server in Revision::ALL {
                let cell = match feature.outcome(client, server) {
                    Outcome::Works => "yes",
                    Outcome::Refused => "refused",
                    Outcome::Lacking => "–",
                };
                let _ = write!(out, " {cell} |");
            }
            out.push('\n');
        }
    }
    out
}

/// The guide holds the table as it is.
pub(crate) fn check() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/eras.md");
    let guide = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = guide.split_once(BEGIN).expect("the guide has a place for the table");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    let new = format!("{before}{BEGIN}{}{END}{after}", render());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, new).unwrap();
    } else {
        assert!(guide == new, "docs/guide/eras.md is not what was measured; UPDATE=1 rewrites it");
    }
}
