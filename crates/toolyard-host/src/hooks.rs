//! The hooks of the user, which come with the gateway. Before they are there, everything passes.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use toolyard_model::BoxFuture;
use toolyard_tool::host::{Hooks, Verdict};

#[derive(Default)]
pub(crate) struct LateHooks(OnceLock<Arc<dyn Hooks>>);

impl LateHooks {
    pub(crate) fn set(&self, hooks: Arc<dyn Hooks>) {
        let _ = self.0.set(hooks);
    }
}

impl Hooks for LateHooks {
    fn run(&self, point: &str, input: Value) -> BoxFuture<Verdict> {
        match self.0.get() {
            Some(hooks) => hooks.run(point, input),
            None => Box::pin(async { Verdict::Continue(input) }),
        }
    }
}
