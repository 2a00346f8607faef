//! Limits of the whole cluster: each node uses a share of every limit, by how much of it the clients of each node ask.
//! Nodes publish that once a second and compute their shares from it, so that no call waits for another node. Without
//! NATS the last shares hold.

mod divide;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, Message};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval};
use toolyard_core::Gateway;

use crate::record;
use crate::shared::Shared;
use divide::{Demands, follow, shares, with_new_limits};

/// How often shares are computed, so that a node that has joined counts soon.
const EVERY: Duration = Duration::from_millis(250);
/// How often demands are published.
const PUBLISH: Duration = Duration::from_secs(1);
/// A node that has published nothing for so long is treated as one that has every limit and asks nothing of it.
const SILENCE: Duration = Duration::from_secs(4);

#[derive(Serialize, Deserialize)]
struct Published {
    node: String,
    demands: Demands,
}

pub(crate) struct ShareKeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gateway: Gateway,
    pub(crate) client: Client,
    pub(crate) prefix: String,
}

/// What this node asks for. Shares are computed from what it has published, which the others know as well: with newer
/// numbers of its own, it would take what the others take, too.
#[derive(Default)]
struct Own {
    now: Demands,
    published: Demands,
    at: Option<Instant>,
}

/// What other nodes have published last.
type Others = HashMap<String, (Instant, Demands)>;

impl ShareKeeper {
    pub(crate) async fn run(self) {
        let subject = format!("{}.demand", self.prefix);
        let (mut own, mut others) = (Own::default(), Others::new());
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Ok(mut messages) = self.client.subscribe(subject.clone()).await else {
                ticks.tick().await;
                continue;
            };
            loop {
                tokio::select! {
                    _ = ticks.tick() => self.tick(&subject, &mut own, &mut others).await,
                    message = messages.next() => match message {
                        Some(message) => self.note(&subject, &message, &mut others),
                        None => break,
                    },
                }
            }
        }
    }

    fn note(&self, subject: &str, message: &Message, others: &mut Others) {
        let Some(published) = record::open::<Published>(&self.shared.keys, subject, &message.payload) else {
            return;
        };
        let is_known = self.shared.node(&published.node).is_some();
        if is_known && published.node != self.shared.node_name() {
            others.insert(published.node, (Instant::now(), published.demands));
        }
    }

    async fn tick(&self, subject: &str, own: &mut Own, others: &mut Others) {
        let is_due = own.at.is_none_or(|at| at.elapsed() >= PUBLISH);
        if is_due {
            own.at = Some(Instant::now());
            follow(&mut own.now, self.gateway.take_limit_demands());
        }
        if !self.shared.is_connected.load(Ordering::Relaxed) {
            return;
        }
        others.retain(|_, (at, _)| at.elapsed() < SILENCE);
        let node = self.shared.node_name();
        with_new_limits(&mut own.published, &own.now);
        let mut all: BTreeMap<String, Option<&Demands>> = BTreeMap::new();
        all.extend(self.shared.living_nodes().into_iter().map(|node| (node, None)));
        all.extend(others.iter().map(|(node, (_, demands))| (node.clone(), Some(demands))));
        all.insert(node.clone(), Some(&own.published));
        self.gateway.share_limits(all.len(), &shares(&node, &all));
        if !is_due {
            return;
        }
        own.published = own.now.clone();
        let published = Published { node, demands: own.published.clone() };
        let sealed = record::seal(&self.shared.keys, subject, &published);
        let _ = self.client.publish(subject.to_owned(), Bytes::from(sealed)).await;
    }
}
