//! The state of the gateway as a stream: everything once, then once a second what has changed. However many calls
//! there are, a reader costs the same, and a slow one gets the next state instead of a backlog.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use toolyard_model::{ControlEvent, ControlRequest, ControlResponse, Principal};

use super::calls;
use crate::Gateway;
use crate::status::Stderr;

/// How often a reader gets what has changed.
const EVERY: Duration = Duration::from_secs(1);
/// How many calls that have ended one tick lists; a reader that wants more reads `/calls`.
const MOST_CALLS: usize = 100;

/// The state that was already sent to one reader.
struct LiveReader {
    gateway: Gateway,
    asking: Option<Principal>,
    is_first: bool,
    upstreams: HashMap<String, Value>,
    sessions: Option<Vec<Value>>,
    /// The number of the next call that it has not seen.
    next_call: usize,
}

impl Gateway {
    pub(super) fn live(&self, request: &ControlRequest) -> ControlResponse {
        let reader = LiveReader {
            gateway: self.clone(),
            asking: (!request.is_operator).then(|| request.principal.clone()),
            is_first: true,
            upstreams: HashMap::new(),
            sessions: None,
            next_call: 0,
        };
        let ticks = stream::unfold(reader, async |mut reader| {
            if !reader.is_first {
                tokio::time::sleep(EVERY).await;
            }
            let event = reader.tick();
            Some((event, reader))
        });
        ControlResponse::Events(ticks.boxed())
    }
}

impl LiveReader {
    fn tick(&mut self) -> ControlEvent {
        if self.asking.is_none() {
            self.gateway.common().ledger.watch();
        }
        let (changed, gone) = self.changed_upstreams();
        let (ended, missed) = self.new_calls();
        let mut json = json!({
            "status": self.gateway.status_json(),
            "upstreams": changed,
            "gone": gone,
            "open": self.gateway.open_calls_json(self.asking.as_ref()),
            "ended": ended,
            "missed": missed,
        });
        let sessions = self.gateway.shared().sessions.to_json(self.asking.as_ref());
        if self.sessions.as_ref() != Some(&sessions) {
            json["sessions"] = json!(sessions);
            self.sessions = Some(sessions);
        }
        let name = if std::mem::take(&mut self.is_first) { "state" } else { "tick" };
        ControlEvent { id: None, name, data: json.to_string() }
    }

    fn changed_upstreams(&mut self) -> (Vec<Value>, Vec<String>) {
        let now = self.gateway.live_upstreams(self.is_first, Stderr::of(self.asking.is_none()));
        let mut changed = Vec::new();
        let mut known = HashMap::with_capacity(now.len());
        for one in now {
            let id = one["id"].as_str().unwrap_or_default().to_owned();
            let compared = without_samples(&one);
            if self.upstreams.get(&id) != Some(&compared) {
                changed.push(one);
            }
            known.insert(id, compared);
        }
        let gone = self.upstreams.keys().filter(|id| !known.contains_key(*id)).cloned().collect();
        self.upstreams = known;
        (changed, gone)
    }

    /// The calls that have ended since the last tick, the newest first, and how many more there were.
    fn new_calls(&mut self) -> (Vec<Value>, usize) {
        let ended = self.gateway.common().ledger.ended_calls();
        let next = ended.first().map_or(self.next_call, |(number, _)| number + 1);
        let asking = self.asking.as_ref();
        let mut new = ended
            .iter()
            .take_while(|(number, _)| *number >= self.next_call)
            .filter(|(_, one)| asking.is_none_or(|asking| *asking.name() == one.record.principal));
        let listed: Vec<Value> = new.by_ref().take(MOST_CALLS).map(calls::to_json).collect();
        // The ledger itself forgets old calls; of other clients' calls not even the number is given.
        let all = if asking.is_none() { next - self.next_call } else { listed.len() + new.count() };
        self.next_call = next;
        // What ended before the stream began was not missed.
        let missed = if self.is_first { 0 } else { all.saturating_sub(listed.len()) };
        (listed, missed)
    }
}

fn without_samples(one: &Value) -> Value {
    let mut compared = one.clone();
    compared.as_object_mut().map(|members| members.remove("samples"));
    compared
}

impl Gateway {
    /// Every upstream with its latest sample, and at first with those of the last minutes.
    fn live_upstreams(&self, with_samples: bool, stderr: Stderr) -> Vec<Value> {
        let live = |upstream: &std::sync::Arc<crate::upstream::Upstream>| {
            let mut json = upstream.status().to_json(stderr);
            json["latest"] = upstream.samples.latest();
            if with_samples {
                json["samples"] = upstream.samples.to_json();
            }
            json
        };
        let mut all: Vec<Value> = self.upstreams().iter().map(live).collect();
        all.extend(self.common().disabled_statuses().iter().map(|one| one.to_json(stderr)));
        all
    }
}
