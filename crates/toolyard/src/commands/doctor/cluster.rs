//! The cluster, as the gateway that runs sees it: whether this node is in it, and what other nodes do not share.

use serde_json::Value;

use super::{Finding, Severity, count};

/// Nothing if the gateway is not a node of a cluster.
pub(super) fn findings(report: &Value) -> Vec<Finding> {
    let cluster = &report["cluster"];
    if !cluster.is_object() {
        return Vec::new();
    }
    let nodes = cluster["nodes"].as_array().into_iter().flatten();
    let others: Vec<&Value> = nodes.filter(|node| node["self"] != true && node["alive"] == true).collect();
    let more = others.iter().flat_map(|node| unreachable(node).into_iter().chain(differs(node)));
    std::iter::once(membership(cluster, others.len())).chain(more).collect()
}

fn membership(cluster: &Value, others: usize) -> Finding {
    let problem = cluster["problem"].as_str();
    let wrong = |message: String, help: &str| Finding::new(Severity::Wrong, "cluster", message, help);
    let is_over = cluster["leaseMsLeft"] == 0;
    if cluster["connected"] != true {
        let why = problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
        let programs = if is_over { "; its lease has ended, so it runs no exported program" } else { "" };
        let help = "check that a server of `nats` in [cluster] runs and accepts this node; until then, every node \
                    serves what it reaches without NATS";
        return wrong(format!("this node is not connected to NATS{why}{programs}"), help);
    }
    if let Some(problem) = problem {
        return wrong(problem.to_owned(), "`toolyard cluster status` shows the nodes and their addresses");
    }
    if is_over {
        let help = "wait for a few seconds; if it stays so, look at the log of NATS: it does not accept what this node writes";
        return wrong("this node has no lease, so it runs no exported program".to_owned(), help);
    }
    Finding::good("cluster", format!("connected to NATS, with {}", count(others, "other node")))
}

/// A node to which the last connection failed.
fn unreachable(node: &Value) -> Option<Finding> {
    let link = &node["link"];
    let error = link["error"].as_str().filter(|_| link["by"] == "none")?;
    let message = format!("node {} cannot be reached: {error}", name(node));
    let help = "check `listen` and `advertise` in the [cluster] of that node, and firewalls between the two";
    Some(Finding::new(Severity::Wrong, "cluster", message, help))
}

/// A node whose config is not that of this one.
fn differs(node: &Value) -> Option<Finding> {
    let message = format!("node {} has other upstreams, profiles or rules than this one", name(node));
    let help = "that is fine if it is intended; otherwise, give all nodes the same config";
    (node["sameConfig"] == false).then(|| Finding::new(Severity::Note, "cluster", message, help))
}

fn name(node: &Value) -> &str {
    node["node"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn states(cluster: &Value) -> Vec<Severity> {
        let found = findings(&json!({ "cluster": cluster }));
        assert!(found.iter().all(|one| one.help.is_empty() == (one.state == Severity::Good)));
        found.iter().map(|one| one.state).collect()
    }

    #[test]
    fn everything_that_is_wrong_in_a_cluster_is_found_and_has_advice() {
        let good = json!({ "connected": true, "leaseMsLeft": 80_000, "nodes": [
            { "node": "a", "self": true, "alive": true, "sameConfig": true, "link": null },
            { "node": "b", "self": false, "alive": true, "sameConfig": true, "link": { "by": "direct" } },
            // A node that has left is not reported.
            { "node": "c", "self": false, "alive": false, "sameConfig": false, "link": { "by": "none", "error": "x" } },
        ] });
        assert_eq!(states(&good), [Severity::Good]);
        for (key, value) in [
            ("connected", json!(false)),
            ("leaseMsLeft", json!(0)),
            ("problem", json!("another node has the name `a`")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert_eq!(states(&bad), [Severity::Wrong], "{bad}");
        }
        let mut bad = good;
        bad["nodes"][1]["link"] = json!({ "by": "none", "error": "connection refused" });
        bad["nodes"][1]["sameConfig"] = json!(false);
        assert_eq!(states(&bad), [Severity::Good, Severity::Wrong, Severity::Note]);
    }

    #[test]
    fn a_gateway_without_a_cluster_has_no_finding_about_one() {
        assert!(findings(&json!({ "apps": [] })).is_empty());
    }
}
