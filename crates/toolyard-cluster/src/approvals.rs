//! What waits for an operator at other nodes: each node publishes its own once a second, and a decision is sent to the
//! node where the call or tool waits. That node alone decides, so that one approval lets one call pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message};
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use toolyard_core::{ApprovalsElsewhere, Gateway, shorten_arguments};
use toolyard_model::BoxFuture;

use crate::approval_store::ApprovalStore;
use crate::record;
use crate::shared::Shared;

const EVERY: Duration = Duration::from_secs(1);
/// What a node has published counts for so long.
const VALID: Duration = Duration::from_secs(4);
/// How long another node may take to decide.
const DECISION: Duration = Duration::from_secs(5);
/// Longer arguments are cut where they are published. The store has them whole.
const LONGEST: usize = 2_000;
/// How many calls and how many tools of one node are published.
const MOST: usize = 100;

#[derive(Serialize, Deserialize)]
struct Published {
    node: String,
    waiting: Value,
}

#[derive(Serialize, Deserialize)]
struct Decision {
    id: String,
    is_approved: bool,
}

/// The approvals of the other nodes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OtherApprovals {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Client,
    pub(crate) prefix: Arc<str>,
    pub(crate) known: Known,
    pub(crate) store: ApprovalStore,
    pub(crate) gateway: Gateway,
}

/// What each node has published last.
pub(crate) type Known = Arc<Mutex<BTreeMap<String, (Instant, Value)>>>;

impl OtherApprovals {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Value)>> {
        let mut known = self.known.lock();
        known.retain(|_, (at, _)| at.elapsed() < VALID);
        known
    }

    fn subject(&self) -> String {
        format!("{}.waiting", self.prefix)
    }

    fn decisions_of(&self, node: &str) -> String {
        format!("{}.decide.{node}", self.prefix)
    }

    /// Publishes what waits here, notes what waits elsewhere, and carries out decisions, until it is dropped.
    pub(crate) async fn run(self, gateway: Gateway) {
        let own = self.decisions_of(&self.shared.node_name());
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let opened = async {
                Ok::<_, async_nats::SubscribeError>((
                    self.client.subscribe(self.subject()).await?,
                    self.client.subscribe(own.clone()).await?,
                ))
            };
            let Ok((mut published, mut decisions)) = opened.await else {
                ticks.tick().await;
                continue;
            };
            loop {
                tokio::select! {
                    _ = ticks.tick() => self.publish(&gateway.waiting()).await,
                    Some(message) = published.next() => self.note(&message),
                    Some(message) = decisions.next() => self.carry_out(&own, message, &gateway).await,
                    else => break,
                }
            }
        }
    }

    async fn publish(&self, waiting: &Value) {
        let short = json!({ "calls": shortened(&waiting["calls"]), "tools": shortened(&waiting["tools"]) });
        let published = Published { node: self.shared.node_name(), waiting: short };
        let sealed = record::seal(&self.shared.keys, &self.subject(), &published);
        let _ = self.client.publish(self.subject(), Bytes::from(sealed)).await;
    }

    fn note(&self, message: &Message) {
        let opened = record::open::<Published>(&self.shared.keys, &self.subject(), &message.payload);
        let Some(Published { node, waiting }) = opened else { return };
        if node != self.shared.node_name() && self.shared.node(&node).is_some() {
            self.known().insert(node, (Instant::now(), waiting));
        }
    }

    async fn carry_out(&self, subject: &str, message: Message, gateway: &Gateway) {
        let opened = record::open::<Decision>(&self.shared.keys, subject, &message.payload);
        let (Some(Decision { id, is_approved }), Some(reply)) = (opened, message.reply) else { return };
        let decided = gateway.decide(&id, is_approved);
        let sealed = record::seal(&self.shared.keys, &format!("{subject} {id}"), &decided);
        let _ = self.client.publish(reply, Bytes::from(sealed)).await;
    }

    async fn decide(self, id: String, is_approved: bool) -> Option<Result<Value, String>> {
        let Some(node) = self.node_with(&id) else {
            return self.store.decide(&id, is_approved, &self.gateway).await;
        };
        let subject = self.decisions_of(&node);
        let decision = record::seal(&self.shared.keys, &subject, &Decision { id: id.clone(), is_approved });
        let asked = timeout(DECISION, self.client.request(subject.clone(), Bytes::from(decision))).await;
        let Ok(Ok(answer)) = asked else {
            return Some(Err(format!("the node `{node}`, where it waits, did not answer; try again")));
        };
        let purpose = format!("{subject} {id}");
        record::open::<Option<Result<Value, String>>>(&self.shared.keys, &purpose, &answer.payload)?
    }

    /// The node where something of this id waits: a call, a tool, or an upstream with held tools.
    fn node_with(&self, id: &str) -> Option<String> {
        let is_it = |one: &Value| {
            let own = one["id"].as_str().unwrap_or_default();
            own == id || own.split_once(':').is_some_and(|(upstream, _)| upstream == id)
        };
        let has_it = |waiting: &Value| {
            ["calls", "tools"].iter().any(|key| waiting[key].as_array().into_iter().flatten().any(is_it))
        };
        let known = self.known();
        known.iter().find(|(_, (_, waiting))| has_it(waiting)).map(|(node, _)| node.clone())
    }
}

impl ApprovalsElsewhere for OtherApprovals {
    fn waiting(&self) -> Value {
        let mut all = json!({ "calls": [], "tools": [] });
        for (node, (_, waiting)) in self.known().iter() {
            for key in ["calls", "tools"] {
                let mut more = waiting[key].as_array().cloned().unwrap_or_default();
                for one in &mut more {
                    one["node"] = json!(node);
                }
                if let Some(list) = all[key].as_array_mut() {
                    list.extend(more);
                }
            }
        }
        if let Some(calls) = all["calls"].as_array_mut() {
            calls.extend(self.store.left_behind(&self.gateway));
        }
        all
    }

    fn waiting_call(&self, id: &str) -> Option<Value> {
        self.store.waiting_call(id, &self.gateway)
    }

    fn decide(&self, id: &str, is_approved: bool) -> BoxFuture<Option<Result<Value, String>>> {
        Box::pin(self.clone().decide(id.to_owned(), is_approved))
    }
}

fn shortened(list: &Value) -> Vec<Value> {
    let mut list: Vec<Value> = list.as_array().into_iter().flatten().take(MOST).cloned().collect();
    for one in &mut list {
        shorten_arguments(one, LONGEST);
        let length = one.get("differences").map_or(0, |value| value.to_string().len());
        if length > LONGEST {
            let change =
                format!("{length} bytes, too many for a list of other nodes; its own node shows them");
            one["differences"] = json!([{ "place": "(not shown)", "change": change }]);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_and_long_lists_are_cut_where_they_are_published() {
        let call = json!({ "id": "1", "arguments": { "text": "x".repeat(5_000) } });
        let short = shortened(&json!([call]));
        let arguments = short[0]["arguments"].as_str().unwrap();
        assert!(arguments.starts_with("{\"text\":\"xxx") && arguments.len() == LONGEST, "{arguments}");
        assert_eq!((&short[0]["cut"], &short[0]["bytes"]), (&json!(true), &json!(5_011)));
        assert_eq!(shortened(&json!(vec![call; 1_000])).len(), MOST);
    }
}
