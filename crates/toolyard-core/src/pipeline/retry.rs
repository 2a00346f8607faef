//! Sends a call again where that is safe and, where the config names one, to another tool.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolyard_model::{Answer, AnswerBody, BoxFuture, View};
use toolyard_proto::{CallError, Fault, Kind, Method, Raw, Retry};

use super::{Call, Next, Step};
use crate::bridge::{self, monotonic};
use crate::catalog::{Catalog, ViewEntry};
use crate::upstream::retry::chance;

/// How often a call is sent, and how long to wait in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryPlan {
    /// In all, the first one included.
    pub attempts: u32,
    /// Before the second attempt; each further wait is twice as long.
    pub wait: Duration,
    pub max_wait: Duration,
}

impl Default for RetryPlan {
    fn default() -> Self {
        Self { attempts: 3, wait: Duration::from_secs(1), max_wait: Duration::from_secs(30) }
    }
}

/// Waits are spread by this share either way, so that calls that failed together are not repeated together.
const SPREAD: f64 = 0.1;
/// A fallback of a fallback of a fallback is the last.
const MOST_FALLBACKS: u8 = 3;

impl RetryPlan {
    /// The wait after `failed` attempts. `chance` is from 0 to 1.
    fn wait_after(self, failed: u32, chance: f64) -> Duration {
        let factor = 2_u32.saturating_pow(failed.saturating_sub(1).min(16));
        let wait = self.wait.saturating_mul(factor).min(self.max_wait);
        wait.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * chance.clamp(0.0, 1.0))
    }
}

/// The settings of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RetrySettings {
    pub(super) plan: Option<RetryPlan>,
    /// Whether carrying a call out twice does no harm, as the config states.
    pub(super) idempotent: Option<bool>,
    /// Whether the tool's own annotations count, where the config does not state it.
    pub(super) trusts_annotations: bool,
    /// The canonical id of another tool; `other:*` is the tool of the same name there.
    pub(super) fallback: Option<Arc<str>>,
    /// How long an upstream that refused a call because of too many calls gets no calls.
    pub(super) cool_down: Option<Duration>,
}

impl RetrySettings {
    fn is_idempotent(&self, call: &Call) -> bool {
        let annotated = || {
            let entry = call.entry.as_ref().filter(|_| self.trusts_annotations)?;
            let annotations = entry.own.member("annotations")?;
            let is = |key: &str| annotations.member(key).is_some_and(|flag| flag.as_str() == "true");
            Some(is("readOnlyHint") || is("idempotentHint"))
        };
        self.idempotent.or_else(annotated).unwrap_or(false)
    }
}

/// The catalog in which fallbacks are found. Set once the catalog is there.
pub(super) type CatalogCell = Arc<OnceLock<Weak<Catalog>>>;

/// Until when upstreams get no calls.
#[derive(Clone, Debug, Default)]
pub(super) struct CoolDowns(Arc<Mutex<HashMap<Arc<str>, Instant>>>);

impl CoolDowns {
    fn begin(&self, upstream: &Arc<str>, time: Duration) {
        let mut until = self.0.lock();
        until.retain(|_, until| *until > Instant::now());
        until.insert(upstream.clone(), Instant::now() + time);
    }

    fn is_on(&self, upstream: &Arc<str>) -> bool {
        let until = self.0.lock();
        until.get(upstream).is_some_and(|until| *until > Instant::now())
    }
}

/// The step, unless nothing is set.
pub(super) fn step(
    settings: &RetrySettings,
    catalog: &CatalogCell,
    cool: &CoolDowns,
) -> Option<Arc<dyn Step>> {
    let is_needed = settings.plan.is_some() || settings.fallback.is_some();
    let settings = Arc::new(settings.clone());
    let catalog = catalog.clone();
    let cool_downs = cool.clone();
    is_needed.then(|| Arc::new(Retrying { settings, catalog, cool_downs }) as Arc<dyn Step>)
}

struct Retrying {
    settings: Arc<RetrySettings>,
    catalog: CatalogCell,
    cool_downs: CoolDowns,
}

impl Step for Retrying {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let settings = self.settings.clone();
        let catalog = self.catalog.clone();
        let cool_downs = self.cool_downs.clone();
        call.peer = monotonic(&call.peer);
        Box::pin(async move {
            let fallback = settings.fallback.clone().filter(|_| call.method == Method::TOOLS_CALL);
            let spare = fallback.map(|name| (name, call.clone()));
            let upstream = call.upstream.name().clone();
            let cool_down = settings.cool_down.filter(|_| spare.is_some());
            let is_idempotent = settings.is_idempotent(&call);
            let answer = if cool_down.is_some() && cool_downs.is_on(&upstream) {
                Err(CallError::turned_away(Retry::Always, format!("upstream `{upstream}` is cooling down")))
            } else {
                attempts(&settings, is_idempotent, call, &next).await
            };
            let Err(error) = answer else { return answer };
            if let Some(time) = cool_down.filter(|_| is_too_many(&error) && !cool_downs.is_on(&upstream)) {
                cool_downs.begin(&upstream, time);
            }
            match spare.filter(|_| may_fall_back(&error, is_idempotent)) {
                Some((name, call)) => fall_back(&catalog, &name, call, error).await,
                None => Err(error),
            }
        })
    }
}

/// Whether the upstream answered that there were too many calls: only then is it certain that it did nothing.
fn is_too_many(error: &CallError) -> bool {
    matches!(error.kind, Kind::TurnedAway) && error.retry == Retry::Always
}

/// Sends the call until it is answered, the error forbids another attempt, or the attempts are used up. An answer that
/// has begun is never an error here.
async fn attempts(settings: &RetrySettings, is_idempotent: bool, mut call: Call, next: &Next) -> Answer {
    let plan = settings.plan.unwrap_or(RetryPlan { attempts: 1, ..RetryPlan::default() });
    let mut failed = 0;
    loop {
        let error = match next.clone().run(call.clone()).await {
            Err(error) => error,
            answer => return answer,
        };
        failed += 1;
        let wait = plan.wait_after(failed, chance()).max(error.retry_after.unwrap_or_default());
        let is_worth_it =
            may_repeat(&error, is_idempotent) && failed < plan.attempts && wait <= plan.max_wait * 2;
        if !is_worth_it || !has_time(&call, wait) {
            return Err(error);
        }
        tracing::debug!(target: "calls", tool = %call.subject(), failed, ?wait, "a call is tried again: {error}");
        sleep(wait).await;
        if let Some(clock) = &call.deadline {
            clock.touch();
        }
        call.sent_again(format!("attempt {} after: {error}", failed + 1));
    }
}

fn may_repeat(error: &CallError, is_idempotent: bool) -> bool {
    match error.retry {
        Retry::Always => true,
        Retry::IfIdempotent => is_idempotent,
        Retry::Never => false,
    }
}

/// Another tool may be called if the first has certainly done nothing, or if doing it twice does no harm.
fn may_fall_back(error: &CallError, is_idempotent: bool) -> bool {
    let was_refused = matches!(error.kind, Kind::TurnedAway) && error.retry == Retry::Never;
    error.origin != Fault::Client && (was_refused || may_repeat(error, is_idempotent))
}

/// Whether the deadline allows another wait.
fn has_time(call: &Call, wait: Duration) -> bool {
    call.deadline.as_ref().is_none_or(|clock| Instant::now() + wait < clock.due().0)
}

/// Sends the call to another tool, through the chain of that tool. The permits of the first tool are released before, so
/// that calls of both cannot wait for each other. The answer names the fallback. A fallback cannot ask by its answer,
/// because the client would answer to the tool that it called.
async fn fall_back(catalog: &CatalogCell, name: &str, mut call: Call, error: CallError) -> Answer {
    let found = catalog.get().and_then(Weak::upgrade).and_then(|catalog| find(&catalog, name, &call));
    let Some(ViewEntry { entry, chain }) = found.filter(|_| call.fallbacks < MOST_FALLBACKS) else {
        return Err(error.because(format!("its fallback {name} is not available here")));
    };
    let (because, name) = (error.message(), entry.canonical.clone());
    call.release_permits();
    call.fallbacks += 1;
    call.params = call.params.with("name", &entry.own_name_raw).into();
    call.headers = entry.headers().made(&call.params);
    call.upstream = entry.upstream.clone();
    call.entry = Some(entry);
    call.needs_whole = true;
    call.sent_again(format!("to {name} instead: {because}"));
    match Next::start(chain, call).await? {
        AnswerBody::Whole(result, _) if bridge::asks(&result) => {
            Err(error.because(format!("its fallback {name} asks the user, which a fallback cannot do for this client; call {name} directly")))
        }
        AnswerBody::Whole(result, revision) => {
            Ok(AnswerBody::Whole(stated(&result, &name, &because), revision))
        }
        answer @ AnswerBody::Stream(_) => Ok(answer),
    }
}

/// The tool with this canonical id, if the client may call it in its view. A view of one upstream leads to others only
/// through a fallback, so there the config decides.
pub(super) fn find(catalog: &Catalog, name: &str, call: &Call) -> Option<ViewEntry> {
    let own = call.entry.as_ref().map_or("", |entry| entry.own_name.as_str());
    let canonical = match name.strip_suffix(":*") {
        Some(upstream) => format!("{upstream}:{own}"),
        None => name.to_owned(),
    };
    let snapshot = catalog.snapshot();
    let view = match &call.origin.view {
        view @ (View::Everything | View::Profile(_)) => view,
        View::Upstream(_) | View::Hub | View::Lean => &View::Everything,
    };
    let found = snapshot.view(view)?.tool(&canonical)?;
    let is_nested_wrongly = |parent: &Arc<toolyard_model::Parent>| {
        parent.refusal(found.entry.upstream.name(), &found.entry.own_name).is_some()
    };
    let is_refused = snapshot.rules().steps.hides(&call.origin, &found.entry)
        || call.parent.as_ref().is_some_and(is_nested_wrongly);
    (!is_refused).then_some(found)
}

fn stated(result: &Raw, name: &str, because: &str) -> Raw {
    let mut value: Value = result.read().unwrap_or_default();
    if !value["_meta"].is_object() {
        value["_meta"] = json!({});
    }
    value["_meta"]["dev.toolyard/fallback"] = json!({ "tool": name, "because": because });
    let text = format!("[fallback] answered by {name}, because {because}");
    if let Some(content) = value["content"].as_array_mut() {
        content.push(json!({ "type": "text", "text": text }));
    }
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_spread_by_a_tenth() {
        let plan = RetryPlan { attempts: 9, wait: Duration::from_secs(10), max_wait: Duration::from_mins(2) };
        let waits: Vec<u64> = (1..=6).map(|failed| plan.wait_after(failed, 0.5).as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 120, 120]);
        assert_eq!((plan.wait_after(1, 0.0).as_secs(), plan.wait_after(1, 1.0).as_secs()), (9, 11));
    }
}
