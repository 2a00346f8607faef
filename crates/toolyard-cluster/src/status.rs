//! The cluster as this node sees it, for `toolyard cluster status` and the control API.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::ownership::Now;
use crate::record::NodeRecord;
use crate::shared::{Shared, State};

pub(crate) fn status(shared: &Shared) -> Value {
    let now = shared.now();
    let state = shared.state();
    let me = state.ownership.me();
    let left = state.ownership.valid_until().saturating_sub(now.fast);
    let nodes: Vec<Value> = state.nodes.values().map(|node| node_json(shared, &state, node, now)).collect();
    let owners: Vec<Value> = state
        .owners
        .iter()
        .map(|(id, owner)| {
            let holder = state.ownership.owners().get(id);
            json!({
                "id": id,
                "node": owner.member.node,
                "kind": owner.kind,
                "exported": owner.is_exported,
                "fence": holder.map(|holder| holder.revision),
                "alive": state.is_alive(&owner.member, now),
            })
        })
        .collect();
    json!({
        "node": me.node,
        "epoch": me.epoch,
        "connected": shared.is_connected.load(Ordering::Relaxed),
        "problem": state.refusal.clone().or_else(|| shared.problem.get()),
        "auditCopied": u64::try_from(shared.shipped.load(Ordering::Relaxed)).ok(),
        "inSync": state.in_sync,
        "leaseMsLeft": u64::try_from(left.as_millis()).unwrap_or_default(),
        "nodes": nodes,
        "owners": owners,
    })
}

fn node_json(shared: &Shared, state: &State, node: &NodeRecord, now: Now) -> Value {
    let is_self = node.member == *state.ownership.me();
    let silence = state.ownership.silence(&node.member, now).unwrap_or_default();
    let owned = state.owners.values().filter(|owner| owner.member == node.member).count();
    json!({
        "node": node.member.node,
        "epoch": node.member.epoch,
        "address": node.address,
        "version": node.version,
        "started": node.started,
        "self": is_self,
        "alive": state.is_alive(&node.member, now),
        "silentMs": u64::try_from(silence.as_millis()).unwrap_or_default(),
        "owns": owned,
        "link": shared.ways.to_json(&node.member.node),
        "sameConfig": node.config == state.own.config,
    })
}
