//! Divides limits among nodes. Each node keeps what it uses already; the rest is divided by demand, and a small part
//! of it equally, so that a node without demand can begin. All nodes compute the same from the same numbers, and the
//! shares of a number of calls add up to that number.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolyard_core::limit_shares::{Demand, LimitDemand, LimitShares, Share};

/// The part of a limit that is divided equally.
const EQUAL: f64 = 0.1;
/// How much of its last value a demand keeps, so that shares do not jump.
const KEPT: f64 = 0.5;
/// How many keys of one limit are published; the other keys have the usual share.
const MOST_KEYS: usize = 1_000;

/// What one node asks of each limit, by the name of the limit.
pub(super) type Demands = BTreeMap<String, OfLimit>;

/// What one node asks of one limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OfLimit {
    concurrent: Option<usize>,
    window: Option<usize>,
    keys: BTreeMap<String, OfKey>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct OfKey {
    asked: f64,
    running: usize,
    started: usize,
}

/// Adds what was asked for in the last second. A limit without demand stays: this node has it.
pub(super) fn follow(own: &mut Demands, taken: Vec<LimitDemand>) {
    own.retain(|name, _| taken.iter().any(|one| *one.name == **name));
    for LimitDemand { name, limit, keys } in taken {
        let of_limit = own.entry(name.to_string()).or_default();
        of_limit.concurrent = limit.concurrent;
        of_limit.window = limit.window.map(|window| window.count);
        for of_key in of_limit.keys.values_mut() {
            *of_key = OfKey { asked: of_key.asked * KEPT, running: 0, started: 0 };
        }
        for (key, Demand { asked, running, started }) in keys {
            let before = of_limit.keys.get(&*key).map_or(0.0, |of_key| of_key.asked);
            let of_key = OfKey { asked: before + f64::from(asked), running, started };
            of_limit.keys.insert(key.to_string(), of_key);
        }
        of_limit.keys.retain(|_, of_key| of_key.asked > 0.01 || of_key.running + of_key.started > 0);
        while of_limit.keys.len() > MOST_KEYS {
            of_limit.keys.pop_last();
        }
    }
}

/// Adds limits that were not published yet, without demand: they are divided equally until then.
pub(super) fn with_new_limits(published: &mut Demands, now: &Demands) {
    for (name, OfLimit { concurrent, window, .. }) in now {
        let new = || OfLimit { concurrent: *concurrent, window: *window, keys: BTreeMap::new() };
        published.entry(name.clone()).or_insert_with(new);
    }
}

/// The shares of the node `me`, by the names of limits. A node of which nothing is known counts as one that has every
/// limit.
pub(super) fn shares(me: &str, nodes: &BTreeMap<String, Option<&Demands>>) -> HashMap<Arc<str>, LimitShares> {
    let Some(Some(own)) = nodes.get(me) else { return HashMap::new() };
    own.keys().map(|name| (Arc::from(name.as_str()), shares_of(name, &own[name], me, nodes))).collect()
}

fn shares_of(name: &str, own: &OfLimit, me: &str, nodes: &BTreeMap<String, Option<&Demands>>) -> LimitShares {
    let unknown = OfLimit::default();
    // The nodes that have this limit, in an order that is the same everywhere.
    let having: Vec<(&str, &OfLimit)> = nodes
        .iter()
        .filter_map(|(node, demands)| match demands {
            Some(demands) => demands.get(name).map(|of_limit| (node.as_str(), of_limit)),
            None => Some((node.as_str(), &unknown)),
        })
        .collect();
    let at = having.iter().position(|(node, _)| *node == me).unwrap_or_default();
    let share = |key: &str| {
        let of: Vec<OfKey> =
            having.iter().map(|(_, of_limit)| of_limit.keys.get(key).copied().unwrap_or_default()).collect();
        share_of(&of, at, own)
    };
    let keys = having.iter().flat_map(|(_, of_limit)| of_limit.keys.keys());
    let keys = keys.map(|key| (Arc::from(key.as_str()), share(key))).collect();
    LimitShares { usual: share_of(&vec![OfKey::default(); having.len()], at, own), keys }
}

/// What the node `at` may use, if this is asked and used of one key by each node.
fn share_of(nodes: &[OfKey], at: usize, limit: &OfLimit) -> Share {
    let count = f64::from(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
    let all: f64 = nodes.iter().map(|node| node.asked).sum();
    let part = |node: &OfKey| {
        if all > 0.0 { EQUAL / count + (1.0 - EQUAL) * node.asked / all } else { 1.0 / count }
    };
    let parts: Vec<f64> = nodes.iter().map(part).collect();
    let whole = |total: usize, used: fn(&OfKey) -> usize| {
        let in_use: usize = nodes.iter().map(used).sum();
        used(&nodes[at]) + divided(total.saturating_sub(in_use), &parts)[at]
    };
    Share {
        rate: parts[at],
        concurrent: limit.concurrent.map(|total| whole(total, |node| node.running)),
        window: limit.window.map(|total| whole(total, |node| node.started)),
    }
}

/// A number divided by parts that add up to one: what is left after rounding down goes to the largest remainders.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "numbers of calls are small"
)]
fn divided(total: usize, parts: &[f64]) -> Vec<usize> {
    let exact: Vec<f64> = parts.iter().map(|part| total as f64 * part).collect();
    let mut given: Vec<usize> = exact.iter().map(|exact| exact.floor() as usize).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| (exact[*b].fract()).total_cmp(&exact[*a].fract()));
    let left = total.saturating_sub(given.iter().sum());
    for at in order.into_iter().cycle().take(left) {
        given[at] += 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use toolyard_core::limit_shares::{Limit, Window};

    use super::*;

    fn demands(keys: &[(&str, f64, usize)]) -> Demands {
        let of = |(key, asked, started): &(&str, f64, usize)| {
            ((*key).to_owned(), OfKey { asked: *asked, running: 0, started: *started })
        };
        let keys = keys.iter().map(of).collect();
        Demands::from([("l".to_owned(), OfLimit { concurrent: Some(1), window: Some(60), keys })])
    }

    fn window(me: &str, key: &str, nodes: &BTreeMap<String, Option<&Demands>>) -> usize {
        let all = shares(me, nodes);
        all["l"].keys.get(key).unwrap_or(&all["l"].usual).window.unwrap()
    }

    #[test]
    fn shares_follow_demand_and_add_up_to_what_is_left() {
        let (a, b, c) =
            (demands(&[("ann", 30.0, 20)]), demands(&[("ann", 10.0, 5), ("bob", 5.0, 0)]), demands(&[]));
        let nodes = BTreeMap::from([("a".into(), Some(&a)), ("b".into(), Some(&b)), ("c".into(), Some(&c))]);
        for key in ["ann", "bob", "new"] {
            let sum: usize = ["a", "b", "c"].iter().map(|me| window(me, key, &nodes)).sum();
            assert_eq!(sum, 60, "{key}");
        }
        assert!(window("a", "ann", &nodes) > 40 && window("b", "bob", &nodes) > 50);
        assert!(window("c", "ann", &nodes) > 0, "a node without demand can begin");
        assert_eq!(window("c", "new", &nodes), 20);
        // What others have started is not given away again.
        let (a, b) = (demands(&[("ann", 0.0, 40)]), demands(&[("ann", 9.0, 20)]));
        let nodes = BTreeMap::from([("a".into(), Some(&a)), ("b".into(), Some(&b))]);
        assert_eq!((window("a", "ann", &nodes), window("b", "ann", &nodes)), (40, 20));
    }

    #[test]
    fn one_place_goes_to_one_node() {
        let (a, b) = (demands(&[("", 5.0, 0)]), demands(&[("", 5.0, 0)]));
        let nodes = BTreeMap::from([("a".into(), Some(&a)), ("b".into(), Some(&b))]);
        let places = ["a", "b"].map(|me| shares(me, &nodes)["l"].keys[""].concurrent.unwrap());
        assert_eq!(places, [1, 0]);
    }

    #[test]
    fn only_nodes_that_have_a_limit_or_may_have_it_get_a_share() {
        let (own, other) = (demands(&[("", 5.0, 0)]), Demands::new());
        let nodes = BTreeMap::from([("a".into(), Some(&own)), ("b".into(), Some(&other))]);
        assert_eq!((window("a", "", &nodes), window("a", "new", &nodes)), (60, 60));
        let nodes = BTreeMap::from([("a".into(), Some(&own)), ("b".into(), None)]);
        assert_eq!((window("a", "", &nodes), window("a", "new", &nodes)), (57, 30));
    }

    /// A node whose clients call as fast as they can.
    struct Busy {
        name: String,
        used: usize,
        asked: u32,
        now: Demands,
        published: Demands,
        share: usize,
        /// When it computes its share next, in milliseconds; each fourth time it publishes.
        tick: u64,
        ticks: u64,
        /// How many calls arrive in ten milliseconds.
        pace: usize,
    }

    /// How many calls pass within four seconds of a burst at three nodes without earlier calls, and how many
    /// more in the two seconds after it. As in the keeper of shares, what others publish is seen after a while.
    fn burst(random: &mut impl FnMut(u64) -> u64) -> (usize, usize) {
        let limit = Limit {
            window: Some(Window { count: 60, per: std::time::Duration::from_mins(10) }),
            ..Limit::default()
        };
        let taken = |demand| vec![LimitDemand { name: "l".into(), limit: limit.clone(), keys: demand }];
        let mut idle = Demands::new();
        follow(&mut idle, taken(Vec::new()));
        let mut nodes: Vec<Busy> = ["a", "b", "c"]
            .map(|name| Busy {
                name: name.to_owned(),
                used: 0,
                asked: 0,
                now: idle.clone(),
                published: idle.clone(),
                share: 20,
                tick: random(250),
                ticks: random(4),
                pace: 1 + usize::try_from(random(20)).unwrap(),
            })
            .into();
        // What is on its way: when it arrives, from which node, and what it asks.
        let mut sent: Vec<(u64, usize, Demands)> = Vec::new();
        let mut seen = vec![idle; 3];
        let mut first = 0;
        for time in (0..6_000).step_by(10) {
            for (_, from, demands) in sent.extract_if(.., |(at, ..)| *at <= time) {
                seen[from] = demands;
            }
            for (at, node) in nodes.iter_mut().enumerate() {
                node.asked += u32::try_from(node.pace).unwrap();
                node.used = (node.used + node.pace).min(node.used.max(node.share));
                if time < node.tick {
                    continue;
                }
                (node.tick, node.ticks) = (node.tick + 250, node.ticks + 1);
                let is_due = node.ticks % 4 == 0;
                if is_due {
                    let demand =
                        Demand { asked: std::mem::take(&mut node.asked), running: 0, started: node.used };
                    follow(&mut node.now, taken(vec![("".into(), demand)]));
                }
                let mut all: BTreeMap<String, Option<&Demands>> =
                    ["a", "b", "c"].into_iter().map(String::from).zip(seen.iter().map(Some)).collect();
                all.insert(node.name.clone(), Some(&node.published));
                node.share = window(&node.name, "", &all);
                if is_due {
                    node.published = node.now.clone();
                    sent.push((time + 10 * random(10), at, node.published.clone()));
                }
            }
            if time < 4_000 {
                first = nodes.iter().map(|node| node.used).sum();
            }
        }
        (first, nodes.iter().map(|node| node.used).sum::<usize>() - first)
    }

    #[test]
    fn a_burst_at_three_nodes_at_once_reaches_the_limit_passes_at_most_two_and_a_half_times_it_and_then_nothing()
     {
        let mut seed = 7_u64;
        let mut random = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        let mut most = 0;
        for _ in 0..1_000 {
            let (first, later) = burst(&mut random);
            assert!((60..=150).contains(&first), "{first} of 60");
            assert_eq!(later, 0, "{first} before");
            most = most.max(first);
        }
        assert!(most > 90, "the bursts were not at once: {most}");
    }

    #[test]
    fn a_demand_fades_and_a_limit_that_is_gone_is_forgotten() {
        let mut own = Demands::new();
        let limit = Limit {
            window: Some(Window { count: 60, per: std::time::Duration::from_secs(1) }),
            ..Limit::default()
        };
        let taken = |asked| {
            let demand = Demand { asked, ..Demand::default() };
            vec![LimitDemand { name: "l".into(), limit: limit.clone(), keys: vec![("k".into(), demand)] }]
        };
        follow(&mut own, taken(8));
        follow(&mut own, taken(0));
        assert!((own["l"].keys["k"].asked - 4.0).abs() < 1e-9);
        for _ in 0..20 {
            follow(&mut own, taken(0));
        }
        assert!(own["l"].keys.is_empty());
        follow(&mut own, Vec::new());
        assert!(own.is_empty());
    }
}
