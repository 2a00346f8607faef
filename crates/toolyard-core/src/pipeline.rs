//! What every call passes, outermost first: the order is written in [`chain`] and nowhere else.

mod audit;
pub mod clock;
pub mod deadline;
mod route;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use toolyard_model::{Answer, BoxFuture};

pub use crate::call::{Call, Edits};
use crate::ledger::Ledger;
use crate::plan::{Timeouts, ToolRule};
use crate::report::Sections;

/// One stage that a call passes. It may look at the call, wait, refuse, or pass it on and look at the answer.
pub trait Step: Send + Sync + 'static {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer>;
}

/// The steps of an upstream, shared by all its calls.
pub type Chain = Arc<[Arc<dyn Step>]>;

/// What the steps of all upstreams share, and what is told of them.
#[derive(Default)]
pub(crate) struct Common {
    pub(crate) ledger: Arc<Ledger>,
    /// What is said of single tools; changed by a reload.
    pub(crate) rules: ArcSwap<Vec<ToolRule>>,
    /// What else is told of the gateway.
    pub(crate) sections: Sections,
}

/// The order of steps. A step that is not configured is not in the chain.
pub(crate) fn chain(timeouts: Timeouts, common: &Arc<Common>) -> Chain {
    let audit: Arc<dyn Step> = Arc::new(audit::Audit::new(common.ledger.clone()));
    let deadline: Arc<dyn Step> = Arc::new(deadline::Deadline::new(timeouts, common.clone()));
    Arc::new([audit, deadline])
}

/// The rest of the chain, ending with the route to the upstream.
#[derive(Clone)]
pub struct Next {
    steps: Chain,
    at: usize,
}

impl Next {
    pub fn all(steps: Chain) -> Self {
        Self { steps, at: 0 }
    }

    pub fn run(mut self, call: Call) -> BoxFuture<Answer> {
        let Some(step) = self.steps.get(self.at).cloned() else { return Box::pin(route::route(call)) };
        self.at += 1;
        step.run(call, self)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} of {})", self.at, self.steps.len())
    }
}
