//! Which crate may depend on which, as in ARCHITECTURE.md. A new crate needs a row here.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use crate::workspace::{Metadata, Package, root};

struct Rule {
    package: &'static str,
    /// Packages of this repository that it may depend on.
    ours: &'static [&'static str],
    /// What it must not name in its manifest.
    never_named: &'static [&'static str],
    /// What must not be in its tree at all.
    never_linked: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule { package: "toolyard-proto", ours: &[], never_named: &[], never_linked: RUNTIMES },
    Rule {
        package: "toolyard-model",
        ours: &["toolyard-guard", "toolyard-proto"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "hyper", "rustls"],
    },
    Rule {
        package: "toolyard-serve",
        ours: &["toolyard-proto", "toolyard-model"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "rustls"],
    },
    Rule {
        package: "toolyard-link",
        ours: &["toolyard-dial", "toolyard-guard", "toolyard-proto", "toolyard-model"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats"],
    },
    Rule {
        package: "toolyard-core",
        ours: &[
            "toolyard-policy",
            "toolyard-proto",
            "toolyard-model",
            "toolyard-hooks",
            "toolyard-limits",
            "toolyard-link",
            "toolyard-rank",
        ],
        never_named: &["axum", "clap", "anyhow", "tracing-subscriber"],
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-cluster",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-link", "toolyard-core"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &[],
    },
    Rule {
        package: "toolyard-tool",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-serve", "toolyard-tool-macros"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "rustls"],
    },
    Rule { package: "toolyard-guard", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: RUNTIMES },
    Rule {
        package: "toolyard-config",
        ours: &[
            "toolyard-policy",
            "toolyard-guard",
            "toolyard-proto",
            "toolyard-model",
            "toolyard-limits",
            "toolyard-link",
            "toolyard-core",
            "toolyard-hooks",
        ],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-dial",
        ours: &[],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-openapi",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-link"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-clients",
        ours: &["toolyard-proto", "toolyard-config"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-shim",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-serve", "toolyard-config"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-dashboard",
        ours: &["toolyard-model"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "hyper", "rustls"],
    },
    Rule {
        package: "toolyard-metrics",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-core"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-traces",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-link", "toolyard-core"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-audit",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-core"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-hooks",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-link"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule { package: "toolyard-limits", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: &["hyper"] },
    Rule {
        package: "toolyard-host",
        ours: &["toolyard-guard", "toolyard-proto", "toolyard-model", "toolyard-link", "toolyard-tool"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule {
        package: "toolyard-oauth",
        ours: &[
            "toolyard-dial",
            "toolyard-proto",
            "toolyard-model",
            "toolyard-link",
            "toolyard-serve",
            "toolyard-secrets",
        ],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "clap"],
    },
    Rule { package: "toolyard-secrets", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: RUNTIMES },
    Rule { package: "toolyard-lsp", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: &["hyper"] },
    Rule { package: "toolyard-policy", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: RUNTIMES },
    Rule { package: "toolyard-rank", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: RUNTIMES },
    Rule { package: "toolyard-tool-macros", ours: &[], never_named: &[], never_linked: RUNTIMES },
    Rule { package: "toolyard-jail", ours: &[], never_named: FOR_THE_PROGRAM, never_linked: RUNTIMES },
    Rule {
        package: "toolyard-app",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-tool"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "rustls"],
    },
    Rule {
        package: "toolyard-ui",
        ours: &["toolyard-app", "toolyard-model", "toolyard-tool"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["accesskit", "async-nats", "egui", "rustls"],
    },
    Rule {
        package: "toolyard-accesskit",
        ours: &["toolyard-ui"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "egui", "rustls"],
    },
    Rule {
        package: "toolyard-egui",
        ours: &["toolyard-accesskit", "toolyard-model", "toolyard-ui"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &["async-nats", "rustls"],
    },
    Rule {
        package: "notes-app",
        ours: &["toolyard-egui", "toolyard-ui"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &[],
    },
    Rule {
        package: "toolyard-testkit",
        ours: &["toolyard-proto", "toolyard-model", "toolyard-serve", "toolyard-tool"],
        never_named: &[],
        never_linked: &[],
    },
    Rule {
        package: "clock-app",
        ours: &["toolyard-app", "toolyard-tool"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &[],
    },
    Rule { package: "hello-tool", ours: &["toolyard-tool"], never_named: FOR_THE_PROGRAM, never_linked: &[] },
    Rule { package: "notes-tool", ours: &["toolyard-tool"], never_named: FOR_THE_PROGRAM, never_linked: &[] },
    Rule {
        package: "watcher-pack",
        ours: &["toolyard-tool"],
        never_named: FOR_THE_PROGRAM,
        never_linked: &[],
    },
    Rule { package: "toolyard-bench", ours: &[], never_named: &[], never_linked: &[] },
    Rule { package: "xtask", ours: &[], never_named: &[], never_linked: &[] },
];

/// Tools we ship are written with nothing but the SDK.
const PACK: Rule = Rule {
    package: "packs/*",
    ours: &[
        "toolyard-dial",
        "toolyard-tool",
        "toolyard-jail",
        "toolyard-limits",
        "toolyard-lsp",
        "toolyard-rank",
    ],
    never_named: FOR_THE_PROGRAM,
    never_linked: &[],
};

const RUNTIMES: &[&str] = &["tokio", "mio", "socket2", "hyper", "async-std", "smol", "chrono", "time"];
/// Arguments, the last word on errors and where logs go are decided in the program alone.
const FOR_THE_PROGRAM: &[&str] = &["clap", "anyhow", "tracing-subscriber"];

/// The program may use everything of ours, except what exists for tests and measurements.
const PROGRAM: &str = "toolyard";
/// Only tests may depend on it.
const TESTKIT: &str = "toolyard-testkit";
/// Tools written with the SDK alone, as others would. Their tests may use everything.
const EXAMPLES: [&str; 5] = ["clock-app", "hello-tool", "notes-app", "notes-tool", "watcher-pack"];
/// Nothing may depend on them.
const LEAVES: [&str; 2] = ["xtask", "toolyard-bench"];

pub(super) fn check(metadata: &Metadata, findings: &mut Findings) {
    let members: BTreeSet<&str> = metadata.workspace_members.iter().map(String::as_str).collect();
    let ours: Vec<&Package> =
        metadata.packages.iter().filter(|package| members.contains(package.id.as_str())).collect();
    let our_names: BTreeSet<&str> = ours.iter().map(|package| package.name.as_str()).collect();
    let tree = Tree::new(metadata);
    for package in ours {
        let rule = rule_for(package);
        if rule.is_none() && package.name != PROGRAM {
            findings.error(&package.name, "say in RULES of xtask/src/tidy/edges.rs and in ARCHITECTURE.md what this crate may depend on");
        }
        for dependency in &package.dependencies {
            let is_ours = our_names.contains(dependency.name.as_str());
            if let Some(why) =
                objection(rule, &package.name, &dependency.name, dependency.kind.as_deref(), is_ours)
            {
                findings.error(&package.name, &format!("must not depend on `{}`: {why}", dependency.name));
            }
        }
        for name in rule.map_or(&[][..], |rule| rule.never_linked) {
            if let Some(path) = tree.path(&package.id, name) {
                let what = format!("`{name}` must not be in its tree, and is: {}", path.join(" → "));
                findings.error(&package.name, &what);
            }
        }
    }
}

fn rule_for(package: &Package) -> Option<&'static Rule> {
    if package.manifest_path.starts_with(root().join("packs")) {
        return Some(&PACK);
    }
    RULES.iter().find(|rule| rule.package == package.name)
}

/// Why an edge must not be, if it must not.
fn objection(
    rule: Option<&Rule>,
    package: &str,
    dependency: &str,
    kind: Option<&str>,
    is_ours: bool,
) -> Option<&'static str> {
    let in_tests_only = kind == Some("dev");
    if !is_ours {
        let is_named = rule.is_some_and(|rule| rule.never_named.contains(&dependency));
        return (is_named && !in_tests_only).then_some("this crate is meant to be free of it");
    }
    if dependency == package {
        return None;
    }
    if LEAVES.contains(&dependency) {
        return Some("nothing depends on it");
    }
    if dependency == TESTKIT {
        return (!in_tests_only).then_some("it is for tests: make it a dev-dependency");
    }
    // Its peers are put on both sides of a gateway, in its own tests.
    if package == TESTKIT && in_tests_only && ["toolyard-core", "toolyard-link"].contains(&dependency) {
        return None;
    }
    // The endpoint is tested with our own links as clients.
    if package == "toolyard-serve" && in_tests_only && dependency == "toolyard-link" {
        return None;
    }
    // Examples are spoken to through every door, also behind a gateway.
    if EXAMPLES.contains(&package) && in_tests_only {
        return None;
    }
    let is_allowed = package == PROGRAM || rule.is_some_and(|rule| rule.ours.contains(&dependency));
    (!is_allowed).then_some("the table of crates in ARCHITECTURE.md has no such edge")
}

/// Which crate depends on which outside of tests.
struct Tree<'a> {
    names: BTreeMap<&'a str, &'a str>,
    edges: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Tree<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        let names =
            metadata.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
        let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let edges = nodes
            .map(|node| {
                let normal =
                    node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
                (node.id.as_str(), normal.map(|edge| edge.pkg.as_str()).collect())
            })
            .collect();
        Self { names, edges }
    }

    /// The way from a package to one of that name, if there is one.
    fn path(&self, from: &'a str, name: &str) -> Option<Vec<&'a str>> {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![vec![from]];
        while let Some(path) = open.pop() {
            let last = *path.last()?;
            for next in self.edges.get(last).into_iter().flatten().copied() {
                if !seen.insert(next) {
                    continue;
                }
                let mut longer = path.clone();
                longer.push(next);
                if self.names.get(next) == Some(&name) {
                    return Some(longer.iter().filter_map(|id| self.names.get(id).copied()).collect());
                }
                open.push(longer);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(package: &str, dependency: &str, kind: Option<&str>, is_allowed: bool) {
        let rule = RULES.iter().find(|rule| rule.package == package);
        let is_ours = dependency.starts_with("toolyard") || dependency == "xtask";
        let objection = objection(rule, package, dependency, kind, is_ours);
        assert_eq!(objection.is_none(), is_allowed, "{package} → {dependency}: {objection:?}");
    }

    #[test]
    fn only_the_edges_of_the_table_are_allowed() {
        check("toolyard-core", "toolyard-proto", None, true);
        check("toolyard-proto", "toolyard-core", None, false);
        check("toolyard-core", "toolyard-tool", None, false);
        check("toolyard-core", "clap", None, false);
        check("toolyard-core", "tokio", None, true);
        check("toolyard", "toolyard-core", None, true);
    }

    #[test]
    fn what_is_for_tests_stays_in_tests() {
        check("toolyard", "toolyard-testkit", Some("dev"), true);
        check("toolyard", "toolyard-testkit", None, false);
        check("toolyard", "xtask", Some("dev"), false);
        check("toolyard-core", "anyhow", Some("dev"), true);
    }

    #[test]
    fn a_forbidden_crate_is_found_deep_in_the_tree() {
        let package = |id: &str, name: &str| json!({ "id": id, "name": name, "manifest_path": "", "dependencies": [], "targets": [] });
        let metadata = json!({
            "packages": [package("a", "toolyard-proto"), package("b", "middle"), package("c", "tokio")],
            "workspace_members": ["a"],
            "target_directory": "",
            "resolve": { "nodes": [
                { "id": "a", "deps": [{ "pkg": "b", "dep_kinds": [{ "kind": null }] }] },
                { "id": "b", "deps": [{ "pkg": "c", "dep_kinds": [{ "kind": null }] }] },
            ]},
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let mut findings = Findings::default();
        super::check(&metadata, &mut findings);
        assert_eq!(
            findings.errors,
            ["toolyard-proto: `tokio` must not be in its tree, and is: toolyard-proto → middle → tokio"]
        );
    }
}
