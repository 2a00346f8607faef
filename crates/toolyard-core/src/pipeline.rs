//! What every call passes, outermost first: the order is written in [`chain`] and nowhere else.

pub mod clock;
pub mod deadline;
mod route;

use std::fmt;
use std::sync::Arc;

use toolyard_transport::{Answer, BoxFuture};

pub use crate::call::{Call, Edits};
use crate::plan::Timeouts;

/// One stage that a call passes. It may look at the call, wait, refuse, or pass it on and look at the answer.
pub trait Step: Send + Sync + 'static {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer>;
}

/// The steps of an upstream, shared by all its calls.
pub type Chain = Arc<[Arc<dyn Step>]>;

/// The order of steps. A step that is not configured is not in the chain.
pub fn chain(timeouts: Timeouts) -> Chain {
    Arc::new([Arc::new(deadline::Deadline::new(timeouts)) as Arc<dyn Step>])
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
