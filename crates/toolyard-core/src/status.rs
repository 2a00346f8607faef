//! The state of an upstream at one moment, in the one form that `yard`, the control API, `list` and `doctor` share.
//! The hub renders the same state in the form that its tools have always had.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use toolyard_proto::name::{UpstreamId, canonical};
use toolyard_proto::{Raw, Reason};

use crate::catalog::{Definitions, ListKind, Snapshot};
use crate::ledger::Count;
use crate::pins;
use crate::pipeline::Common;
use crate::plan::{Condition, UpstreamKind};
use crate::report::at;
use crate::upstream::Upstream;
use crate::upstream::health::Health;
use crate::upstream::state::{Phase, PhaseChange, State};

/// How many steps of an upstream's life are reported.
const STEPS: usize = 10;

/// Whether reasons have what a process wrote to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stderr {
    Shown,
    Hidden,
}

impl Stderr {
    /// Only an operator may see it in the control API.
    pub(crate) fn of(is_operator: bool) -> Self {
        if is_operator { Self::Shown } else { Self::Hidden }
    }

    pub(crate) fn summary(self, reason: Option<&Reason>) -> Option<String> {
        let reason = reason?;
        Some(if self == Self::Shown { reason.summary() } else { reason.without_stderr().summary() })
    }
}

/// One upstream at one moment.
#[derive(Clone, Debug)]
pub struct UpstreamStatus {
    pub id: String,
    pub kind: &'static str,
    pub state: State,
    pub last_activity: Option<SystemTime>,
    pub health: Health,
    pub is_connected: bool,
    pub is_listed: bool,
    /// Further facts about an instance.
    pub about: Option<Arc<Value>>,
    pub tools: usize,
    pub resources: usize,
    pub prompts: usize,
    /// Which of its definitions clients do not get, and why.
    pub faults: Vec<String>,
    /// Why lists that it declares could not be read; these are faults, too.
    pub failed_lists: Vec<String>,
    /// Tools that are not offered until their definitions are approved.
    pub held: Vec<Value>,
    /// Why its definitions could not be recorded.
    pub unrecorded: Option<Arc<str>>,
    /// The canonical ids of tools that an operator has switched off.
    pub off: Vec<String>,
    pub revision: Option<&'static str>,
    pub server: Option<Raw>,
    pub calls_in_flight: usize,
    pub calls: Count,
    /// The connection of the other era, where calls have opened one.
    second_link: Option<Value>,
}

impl Upstream {
    /// Its state now.
    pub fn status(&self) -> UpstreamStatus {
        let definitions = self.definitions();
        let definitions = definitions.as_deref();
        let count = |kind| definitions.map_or(0, |definitions| definitions.shown(kind));
        UpstreamStatus {
            id: self.id().to_string(),
            kind: self.kind().as_str(),
            state: self.true_state(),
            last_activity: self.last_activity(),
            health: self.health(),
            is_connected: self.links.live().is_some(),
            is_listed: self.is_listed(),
            about: self.described(),
            tools: count(ListKind::Tools),
            resources: count(ListKind::Resources),
            prompts: count(ListKind::Prompts),
            faults: definitions.map(Definitions::faults).unwrap_or_default(),
            failed_lists: definitions.map(Definitions::list_failures).unwrap_or_default(),
            held: definitions
                .map(|definitions| definitions.held().iter().map(|held| pins::to_json(self.id(), held)).collect())
                .unwrap_or_default(),
            unrecorded: definitions.and_then(|definitions| definitions.unrecorded().cloned()),
            off: definitions
                .map(|definitions| definitions.off().iter().map(|tool| canonical(self.id(), tool)).collect())
                .unwrap_or_default(),
            revision: definitions.map(|definitions| definitions.greeting.revision.as_str()),
            server: definitions.and_then(|definitions| definitions.greeting.server_info.clone()),
            calls_in_flight: self.calls(),
            calls: self.tally().count(),
            second_link: self.counterpart().map(|second| {
                json!({ "revision": second.revision.as_str(), "since": at(second.since), "inUse": second.in_use })
            }),
        }
    }
}

impl Upstream {
    /// Its state, or that at the gateway that has it. If the connection to that gateway fails, the state there is the cause
    /// only if it is a failure, too: otherwise that gateway cannot be reached, and what it reported last is old.
    fn true_state(&self) -> State {
        let mut state = self.state();
        let is_connected = matches!(state.phase, Phase::Active | Phase::Idle);
        if let Some(Condition { phase, reason }) = self.connector().condition_elsewhere()
            && (is_connected || matches!(phase, Phase::Retrying | Phase::Dead | Phase::SignIn))
        {
            (state.phase, state.reason) = (phase, reason);
        }
        state
    }
}

impl UpstreamStatus {
    /// That of an upstream that does not run.
    pub(crate) fn disabled(id: &UpstreamId, kind: UpstreamKind, reason: Reason) -> Self {
        let state = State {
            phase: Phase::Disabled,
            reason: Some(reason),
            settled: true,
            ..State::new(SystemTime::UNIX_EPOCH)
        };
        Self {
            id: id.to_string(),
            kind: kind.as_str(),
            state,
            last_activity: None,
            health: Health::default(),
            is_connected: false,
            is_listed: false,
            about: None,
            tools: 0,
            resources: 0,
            prompts: 0,
            faults: Vec::new(),
            failed_lists: Vec::new(),
            held: Vec::new(),
            unrecorded: None,
            off: Vec::new(),
            revision: None,
            server: None,
            calls_in_flight: 0,
            calls: Count::default(),
            second_link: None,
        }
    }

    pub fn to_json(&self, stderr: Stderr) -> Value {
        let state = &self.state;
        // Since when an upstream has been disabled is not recorded.
        let since = (state.phase != Phase::Disabled).then(|| at(state.since));
        let mut json = json!({
            "id": self.id,
            "kind": self.kind,
            "state": state.phase.as_str(),
            "since": since,
            "reason": stderr.summary(state.reason.as_ref()),
            "hint": state.reason.as_ref().and_then(Reason::hint),
            "failures": state.failures,
            "connectedAt": state.connected.map(at),
            "lastActivity": self.last_activity.map(at),
            "health": self.health.to_json(stderr),
            "listed": self.is_listed,
            "about": self.about,
            "tools": self.tools,
            "resources": self.resources,
            "prompts": self.prompts,
            "faults": self.faults,
            "failedLists": self.failed_lists,
            "held": self.held,
            "unrecorded": self.unrecorded,
            "off": self.off,
            "revision": self.revision,
            "server": self.server,
            "callsInFlight": self.calls_in_flight,
            "calls": count(&self.calls),
        });
        let starting = state.starting_since().and_then(|since| since.elapsed().ok());
        if let Some(time) = starting {
            json["startingForSeconds"] = time.as_secs().into();
        }
        if let Some(second) = &self.second_link {
            json["secondLink"] = second.clone();
        }
        json
    }

    /// The same with the last steps of its life, newest first.
    pub fn to_json_with_history(&self, stderr: Stderr) -> Value {
        let step = |change: &PhaseChange| {
            let reason = stderr.summary(change.reason.as_ref());
            json!({ "at": at(change.at), "from": change.from.as_str(), "to": change.to.as_str(), "reason": reason })
        };
        let mut json = self.to_json(stderr);
        json["history"] = self.state.history.changes().rev().take(STEPS).map(step).collect();
        json
    }
}

/// All upstreams, those that do not run last. Without apps that have unregistered.
pub(crate) fn all(upstreams: &[Arc<Upstream>], common: &Common, stderr: Stderr) -> Vec<Value> {
    let present = upstreams.iter().filter(|upstream| !upstream.has_unregistered());
    let present = present.map(|upstream| upstream.status());
    present.chain(common.disabled_statuses()).map(|status| status.to_json(stderr)).collect()
}

/// How much a gateway offers at one moment.
pub(crate) struct Totals {
    pub(crate) active: usize,
    pub(crate) tools: usize,
    /// Definitions that clients of many upstreams do not get.
    pub(crate) left_out: usize,
}

impl Totals {
    pub(crate) fn new(upstreams: &[Arc<Upstream>], snapshot: &Snapshot) -> Self {
        let listed = || snapshot.parts().iter().filter(|part| part.listed).map(|part| &part.definitions);
        let left_out = |definitions: &Arc<Definitions>| -> usize {
            ListKind::ALL.iter().map(|kind| definitions.list(*kind).len() - definitions.shown(*kind)).sum()
        };
        Self {
            active: upstreams.iter().filter(|upstream| upstream.links.live().is_some()).count(),
            tools: listed().map(|definitions| definitions.shown(ListKind::Tools)).sum(),
            left_out: listed().map(left_out).sum(),
        }
    }
}

pub(crate) fn count(count: &Count) -> Value {
    json!({
        "total": count.calls,
        "failed": count.failed,
        "meanMs": milliseconds(count.mean()),
        "slowestMs": milliseconds(count.slowest),
    })
}

/// To the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
