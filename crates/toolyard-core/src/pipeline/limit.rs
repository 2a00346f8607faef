//! Limits how many calls run at once or start within a time; the others wait their turn, in a fair and bounded queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::json;
use toolyard_limits::{Demand, Keyed, Limit, Permit, Refusal, Share};
use toolyard_model::{Answer, BoxFuture, Origin};
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
    /// A principal with all of its agents.
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
            Self::Principal => call.origin.principal.user().clone(),
            Self::Client => call.origin.turn(),
            Self::Upstream => call.upstream.name().clone(),
            Self::Tool => call.entry.as_ref().map(|entry| entry.canonical.clone()).unwrap_or_default(),
            Self::Model => {
                let model = call.params.at(&["arguments", "model"]).and_then(|model| model.as_string());
                model.unwrap_or_default().into()
            }
        }
    }

    fn key_of_work(self, work: &PackWork) -> Arc<str> {
        let of_caller = |key: fn(&Origin) -> Arc<str>| work.origin.as_deref().map(key);
        match self {
            Self::Group => Arc::default(),
            Self::Principal => of_caller(|origin| origin.principal.user().clone()).unwrap_or_default(),
            Self::Client => work.turn(),
            Self::Upstream => work.pack.clone(),
            Self::Tool => {
                work.tool.as_ref().map(|tool| format!("{}:{tool}", work.pack).into()).unwrap_or_default()
            }
            Self::Model => work.model.clone(),
        }
    }
}

/// Work of a pack under a limit of the config, beyond the call that it is done for.
#[derive(Clone, Debug)]
pub struct PackWork {
    pub pack: Arc<str>,
    /// The pack's own name of the tool that does it; nothing for work that no call waits for.
    pub tool: Option<Arc<str>>,
    /// The client that made the call.
    pub origin: Option<Arc<Origin>>,
    pub model: Arc<str>,
}

impl PackWork {
    /// The caller takes turns with the other clients; work that no call waits for does so as one client for each pack.
    fn turn(&self) -> Arc<str> {
        self.origin.as_ref().map_or_else(|| format!("pack {}", self.pack).into(), |origin| origin.turn())
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

/// The share of one limit that this gateway may use.
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
    pub(super) fn shared(&self, plan: &LimitPlan) -> SharedLimit {
        SharedLimit { plan: plan.clone(), limiters: self.of(plan) }
    }

    fn of(&self, plan: &LimitPlan) -> Arc<Keyed> {
        let mut known = self.known.lock();
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
        let known = self.known.lock();
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

/// The share of each of `gateways` gateways, rounded down.
fn equal_share(limit: &Limit, gateways: usize) -> Share {
    Share {
        rate: 1.0 / f64::from(u32::try_from(gateways).unwrap_or(u32::MAX)),
        concurrent: limit.concurrent.map(|count| count / gateways),
        window: limit.window.map(|window| window.count / gateways),
    }
}

/// The step for these limits, if there are any.
pub(super) fn step(plans: &[LimitPlan], limiters: &Limiters) -> Option<Arc<dyn Step>> {
    let limits: Arc<[SharedLimit]> = plans.iter().map(|plan| limiters.shared(plan)).collect();
    (!limits.is_empty()).then(|| Arc::new(Limited { limits }) as Arc<dyn Step>)
}

struct Limited {
    limits: Arc<[SharedLimit]>,
}

/// What a call holds while it runs. A call that goes to another tool gives its permits back first. If it kept them, it
/// would wait for itself where both tools have the same limit, and calls that fall back in both directions would wait
/// for each other.
#[derive(Debug)]
pub struct Permits(Mutex<Vec<Permit>>);

impl Permits {
    pub(crate) fn release(&self) {
        let permits = std::mem::take(&mut *self.0.lock());
        drop(permits);
    }
}

/// A limit and what it has let pass.
#[derive(Clone, Debug)]
pub(crate) struct SharedLimit {
    plan: LimitPlan,
    limiters: Arc<Keyed>,
}

impl Step for Limited {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let limits = self.limits.clone();
        Box::pin(async move {
            let mut permits = Vec::with_capacity(limits.len());
            let reports = AtomicU32::new(call.place_reports);
            // A permit is held while the call waits for the next one, so all tools have their limits in the same order.
            for limit in limits.iter() {
                permits.push(limit.acquire(&call, &reports).await?);
            }
            call.place_reports = reports.into_inner();
            call.reach(Mark::Queued);
            let permits = Arc::new(Permits(Mutex::new(permits)));
            call.permits = Arc::downgrade(&permits);
            hold_until_end(next.run(call).await, permits)
        })
    }
}

impl SharedLimit {
    /// Acquires the limit for work of a pack that is not a call of its own. `report` receives the number of waiters
    /// ahead.
    pub(crate) async fn acquire_for(
        self,
        work: &PackWork,
        report: impl Fn(usize),
    ) -> Result<Permit, Refusal> {
        let limiter = self.limiters.of(&self.plan.per.key_of_work(work));
        limiter.acquire(&work.turn(), report).await
    }

    /// `reports` counts what the client has received about its place, for all limits of the call together.
    async fn acquire(&self, call: &Call, reports: &AtomicU32) -> Result<Permit, CallError> {
        let limiter = self.limiters.of(&self.plan.per.key(call));
        let report = |ahead| report_place(call, ahead, reports.fetch_add(1, Ordering::Relaxed));
        let permit = limiter.acquire(&call.origin.turn(), report).await;
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
