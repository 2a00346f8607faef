//! Runs the hooks of a point, one after the other, each seeing what the one before it changed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use toolyard_proto::Pattern;

use crate::{Event, Hook, HookPlan, OnFailure, Point, Runtime, Verdict};

/// A note of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub hook: Arc<str>,
    pub text: String,
}

/// Which hook blocked, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub hook: Arc<str>,
    pub reason: String,
}

/// An event after its hooks have run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As the hooks left it.
    pub event: Event,
    pub is_changed: bool,
    pub notes: Vec<Note>,
    pub blocked: Option<Block>,
}

/// A hook that is ready to run.
pub struct Registered {
    pub name: Arc<str>,
    points: Vec<Point>,
    matches: Vec<Pattern>,
    order: i32,
    timeout: Duration,
    on_failure: OnFailure,
    hook: Arc<dyn Hook>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hook").field(&self.name).finish()
    }
}

/// All hooks of a gateway.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    plans: Vec<HookPlan>,
    /// In the order of `plans`.
    made: Vec<Option<Arc<Registered>>>,
    /// In the order in which they run.
    ordered: Vec<Arc<Registered>>,
}

impl Hooks {
    /// Makes the hooks of these plans. Those whose plan is the same in `before` are kept, with what they remember. A
    /// hook that cannot be made is logged and left out.
    pub fn new(plans: Vec<HookPlan>, runtime: &Runtime, before: &Self) -> Self {
        let kept = |plan: &HookPlan| {
            let at = before.plans.iter().position(|old| old == plan)?;
            before.made[at].clone()
        };
        let made: Vec<_> = plans.iter().map(|plan| kept(plan).or_else(|| register(plan, runtime))).collect();
        let mut ordered: Vec<Arc<Registered>> = made.iter().flatten().cloned().collect();
        ordered.sort_by_key(|hook| hook.order);
        Self { plans, made, ordered }
    }

    pub fn plans(&self) -> &[HookPlan] {
        &self.plans
    }

    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// The hooks of a point that a subject passes, in their order.
    pub fn of(&self, point: Point, subject: Option<&str>) -> Vec<Arc<Registered>> {
        let fits = |hook: &&Arc<Registered>| hook.points.contains(&point) && hook.fits(point, subject);
        self.ordered.iter().filter(fits).cloned().collect()
    }

    /// Runs the hooks that an event passes.
    pub async fn run(&self, event: Event) -> Outcome {
        run(&self.of(event.point, event.subject.as_deref()), event).await
    }
}

fn register(plan: &HookPlan, runtime: &Runtime) -> Option<Arc<Registered>> {
    let hook = runtime.make(plan);
    let hook =
        hook.inspect_err(|reason| tracing::warn!(hook = %plan.name, "a hook is off: {reason}")).ok()?;
    Some(Arc::new(Registered {
        name: plan.name.as_str().into(),
        points: plan.points.clone(),
        matches: plan.matches.iter().map(|pattern| Pattern::new(pattern)).collect(),
        order: plan.order,
        timeout: plan.timeout,
        on_failure: plan.on_failure,
        hook,
    }))
}

/// The outcome of an event that these hooks cannot be shown: each of them fails.
pub fn fail(hooks: &[Arc<Registered>], event: Event, failure: &str) -> Outcome {
    let blocked = hooks.iter().find_map(|hook| {
        let reason = hook.failed(&event, failure).block?;
        Some(Block { hook: hook.name.clone(), reason })
    });
    Outcome { event, is_changed: false, notes: Vec::new(), blocked }
}

/// Runs these hooks over an event, until one of them blocks.
pub async fn run(hooks: &[Arc<Registered>], event: Event) -> Outcome {
    let mut event = Arc::new(event);
    let mut is_changed = false;
    let mut notes = Vec::new();
    let mut blocked = None;
    for hook in hooks {
        let verdict = hook.run(&event).await;
        let named = |text: String| Note { hook: hook.name.clone(), text };
        notes.extend(verdict.note.map(named));
        for (key, value) in verdict.change {
            if event.point.may_change(&key) && event.data.get(&key) != Some(&value) {
                Arc::make_mut(&mut event).data.insert(key, value);
                is_changed = true;
            }
        }
        if let Some(reason) = verdict.block {
            blocked = Some(Block { hook: hook.name.clone(), reason });
            break;
        }
    }
    Outcome { event: Arc::unwrap_or_clone(event), is_changed, notes, blocked }
}

impl Registered {
    /// Whether it certainly passes a tool call with these arguments, or with this result: JSON text.
    pub fn ignores(&self, point: Point, json: &str) -> bool {
        self.hook.ignores(point, json)
    }

    /// How long it may run.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    fn fits(&self, point: Point, subject: Option<&str>) -> bool {
        let subject = subject.unwrap_or_default();
        let is_tool = matches!(point, Point::PreToolCall | Point::PostToolCall);
        let is_matched = match self.matches.as_slice() {
            [] => !is_tool || !self.hook.leaves_out(subject),
            matches => matches.iter().any(|pattern| pattern.matches(subject)),
        };
        is_matched && (!is_tool || self.hook.is_for_tool(subject))
    }

    async fn run(&self, event: &Arc<Event>) -> Verdict {
        match catch_unwind(AssertUnwindSafe(|| self.hook.judge(event))) {
            Ok(Some(verdict)) => return verdict,
            Ok(None) => {}
            Err(_) => return self.failed(event, "it panicked"),
        }
        // Each hook that runs has a time limit, so there is a turn for every one.
        let _turn = match self.hook.turns() {
            Some(turns) => turns.acquire_owned().await.ok(),
            None => None,
        };
        let running = AssertUnwindSafe(async { self.hook.run(event.clone()).await }).catch_unwind();
        let failure = match tokio::time::timeout(self.timeout, running).await {
            Ok(Ok(Ok(verdict))) => return verdict,
            Ok(Ok(Err(failure))) => failure,
            Ok(Err(_)) => "it panicked".to_owned(),
            Err(_) => format!("it was not finished after {} s", self.timeout.as_secs_f32()),
        };
        self.failed(event, &failure)
    }

    /// The verdict of a hook that failed for this reason.
    fn failed(&self, event: &Event, failure: &str) -> Verdict {
        tracing::warn!(hook = %self.name, point = %event.point, subject = ?event.subject, "a hook failed: {failure}");
        match self.on_failure {
            OnFailure::Pass => Verdict::pass(),
            OnFailure::Block => Verdict::block(format!("the hook failed: {failure}")),
        }
    }
}
