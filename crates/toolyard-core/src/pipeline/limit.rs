//! Limits how many calls run at once or start within a time; the others wait their turn, in a fair and bounded queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::json;
use toolyard_limits::{Demand, Keyed, Limit, Permit, Refusal, Share};
use toolyard_model::{Answer, BoxFuture, ClientKey};
use toolyard_proto::{CallError, Method, Notification, Raw};

use super::{Call, Next, Step, hold_until_end};
use crate::ledger::Mark;

/// A named limit, as the config gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitPlan {
    pub name: Arc<str>,
    pub per: Per,
    pub limit: Limit,
}

/// Which calls share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// All calls of all tools that the limit is given to.
    #[default]
    Group,
    Principal,
    /// A session, a connection, or the requests with one credential.
    Client,
    Upstream,
    Tool,
    /// The argument `model` of the call.
    Model,
}

impl Per {
    pub const ALL: [(&'static str, Self); 6] = [
        ("group", Self::Group),
        ("principal", Self::Principal),
        ("client", Self::Client),
        ("upstream", Self::Upstream),
        ("tool", Self::Tool),
        ("model", Self::Model),
    ];

    fn key(self, call: &Call) -> Arc<str> {
        match self {
            Self::Group => Arc::default(),
            Self::Principal => call.origin.principal.name().clone(),
            Self::Client => client(&call.origin.client),
            Self::Upstream => call.upstream.name().clone(),
            Self::Tool => call.entry.as_ref().map(|entry| entry.canonical.clone()).unwrap_or_default(),
            Self::Model => {
                let model = call.params.at(&["arguments", "model"]).and_then(|model| model.as_string());
                model.unwrap_or_default().into()
            }
        }
    }
}

/// How much calls ask of one limit, for gateways that have it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDemand {
    /// The name of the limit.
    pub name: Arc<str>,
    pub limit: Limit,
    /// The keys of it, such as principals, with what is asked of each.
    pub keys: Vec<(Arc<str>, Demand)>,
}

/// What this gateway may use of one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitShares {
    /// For keys that are not named.
    pub usual: Share,
    pub keys: HashMap<Arc<str>, Share>,
}

/// The limits in use. A limit whose settings are unchanged after a reload continues to count.
#[derive(Debug, Default)]
pub(super) struct Limiters {
    known: Mutex<HashMap<LimitPlan, Weak<Keyed>>>,
    /// How many gateways have these limits together; a new limit begins with an equal share. 0 if it is this one alone.
    gateways: AtomicUsize,
}

impl Limiters {
    pub(super) fn shared(&self, plan: &LimitPlan) -> Shared {
        Shared { plan: plan.clone(), limiters: self.of(plan) }
    }

    fn of(&self, plan: &LimitPlan) -> Arc<Keyed> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limiters) = known.get(plan).and_then(Weak::upgrade) {
            return limiters;
        }
        known.retain(|_, limiters| limiters.strong_count() > 0);
        let limiters = Arc::new(Keyed::new(plan.limit.clone()));
        let gateways = self.gateways.load(Ordering::Relaxed);
        if gateways > 1 {
            limiters.set_shares(equal_share(&plan.limit, gateways), &HashMap::new());
        }
        known.insert(plan.clone(), Arc::downgrade(&limiters));
        limiters
    }

    /// The limits that gateways can have together. Sessions and connections are on one gateway anyway.
    fn common(&self) -> Vec<(Arc<str>, Arc<Keyed>)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let common = known.iter().filter(|(plan, _)| plan.per != Per::Client);
        common.filter_map(|(plan, limiters)| Some((plan.name.clone(), limiters.upgrade()?))).collect()
    }

    pub(super) fn take_demands(&self) -> Vec<LimitDemand> {
        let demand = |(name, keyed): (Arc<str>, Arc<Keyed>)| LimitDemand {
            name,
            limit: keyed.limit().clone(),
            keys: keyed.take_demands(),
        };
        self.common().into_iter().map(demand).collect()
    }

    pub(super) fn set_shares(&self, gateways: usize, shares: &HashMap<Arc<str>, LimitShares>) {
        self.gateways.store(gateways, Ordering::Relaxed);
        for (limit, keyed) in self.common() {
            if let Some(shares) = shares.get(&limit) {
                keyed.set_shares(shares.usual, &shares.keys);
            }
        }
    }
}

/// One of so many equal parts, rounded down.
fn equal_share(limit: &Limit, gateways: usize) -> Share {
    Share {
        rate: 1.0 / f64::from(u32::try_from(gateways).unwrap_or(u32::MAX)),
        concurrent: limit.concurrent.map(|count| count / gateways),
        window: limit.window.map(|window| window.count / gateways),
    }
}

/// The step for these limits, if there are any.
pub(super) fn step(plans: &[LimitPlan], limiters: &Limiters) -> Option<Arc<dyn Step>> {
    let limits: Arc<[Shared]> = plans.iter().map(|plan| limiters.shared(plan)).collect();
    (!limits.is_empty()).then(|| Arc::new(Limited { limits }) as Arc<dyn Step>)
}

struct Limited {
    limits: Arc<[Shared]>,
}

/// A limit and what it has let pass.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    plan: LimitPlan,
    limiters: Arc<Keyed>,
}

impl Step for Limited {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        let limits = self.limits.clone();
        Box::pin(async move {
            let mut permits = Vec::with_capacity(limits.len());
            // A permit is held while the call waits for the next one.
            for limit in limits.iter() {
                permits.push(limit.acquire(&call).await?);
            }
            call.reach(Mark::Queued);
            hold_until_end(next.run(call).await, permits)
        })
    }
}

impl Shared {
    /// For work of a pack that is not a call: `key` is what the limit counts separately, and the pack takes turns as
    /// one client does.
    pub(crate) async fn acquire_for(self, client: Arc<str>, key: &str) -> Result<Permit, Refusal> {
        let key = if self.plan.per == Per::Group { "" } else { key };
        self.limiters.of(&key.into()).acquire(&client, |_| {}).await
    }

    async fn acquire(&self, call: &Call) -> Result<Permit, CallError> {
        let limiter = self.limiters.of(&self.plan.per.key(call));
        let reports = AtomicU32::new(0);
        let report = |ahead| report_place(call, ahead, reports.fetch_add(1, Ordering::Relaxed));
        let permit = limiter.acquire(&client(&call.origin.client), report).await;
        if let Some(clock) = &call.deadline {
            clock.touch();
        }
        permit.map_err(|refusal| self.refused(call, refusal))
    }

    fn refused(&self, call: &Call, refusal: Refusal) -> CallError {
        let wait = refusal.retry_after();
        let message = format!("limit `{}` refused a call of {}: {refusal}", self.plan.name, call.subject());
        let hint = format!("try again in {} s, or raise the limit", wait.as_secs_f32());
        CallError::limit(message).with_hint(hint).retry_after(wait).at(call.upstream.name())
    }
}

/// Reports to the client where its call is in the queue, if it asked for progress. While a call waits for its turn, the
/// upstream is not silent, so the idle time starts again.
fn report_place(call: &Call, ahead: usize, reports: u32) {
    if let Some(clock) = &call.deadline {
        clock.touch();
    }
    let Some(token) = call.params.meta("progressToken") else { return };
    let message = match ahead {
        0 => "waiting for a limit; next in line".to_owned(),
        1 => "waiting for a limit; 1 call is ahead".to_owned(),
        _ => format!("waiting for a limit; {ahead} calls are ahead"),
    };
    // Progress may only rise, and the tool's own begins at 0 or above.
    let progress = -1.0 / f64::from(reports + 1);
    let params = json!({ "progress": progress, "message": message });
    let params = Raw::from(params).with("progressToken", &token);
    call.peer.notify_own(Notification::new(Method::PROGRESS, params));
}

/// The client that takes turns with others in a queue.
fn client(client: &ClientKey) -> Arc<str> {
    match client {
        ClientKey::Session(id) => id.clone(),
        ClientKey::Connection(number) => format!("connection {number}").into(),
        ClientKey::Principal(principal) => principal.name().clone(),
        ClientKey::Request(number) => format!("request {number}").into(),
        ClientKey::Gateway => "gateway".into(),
    }
}
