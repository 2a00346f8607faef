//! The hooks of the gateway, for packs that run them around their own work, such as calls of models.

use std::sync::{Arc, Weak};

use serde_json::Value;
use toolyard_core::Gateway;
use toolyard_hooks::Point;
use toolyard_model::BoxFuture;
use toolyard_tool::host::{Hooks, Verdict};

/// The gateway owns its packs, so they hold it weakly.
pub(crate) struct PackHooks(Weak<Gateway>);

impl PackHooks {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(gateway)))
    }
}

impl Hooks for PackHooks {
    /// The member `model` of the input is what hooks for some models only match. At a point that does not exist, and
    /// while the gateway stops, everything passes.
    fn run(&self, point: &str, input: Value) -> BoxFuture<Verdict> {
        let (Some(point), Some(gateway)) = (Point::parse(point), self.0.upgrade()) else {
            return Box::pin(async { Verdict::Continue(input) });
        };
        let subject = input["model"].as_str().map(Arc::from);
        Box::pin(async move {
            let outcome = gateway.run_hooks(point, subject, input).await;
            match outcome.blocked {
                Some(block) => Verdict::Block(block.reason),
                None => Verdict::Continue(Value::Object(outcome.event.data)),
            }
        })
    }

    fn has_any(&self, point: &str, subject: &str) -> bool {
        let (Some(point), Some(gateway)) = (Point::parse(point), self.0.upgrade()) else { return false };
        gateway.has_hooks_for(point, subject)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_core::Plan;
    use toolyard_core::plan::CallRules;
    use toolyard_hooks::{Event, Hook, HookKind, HookPlan, OwnHook, Verdict as HookVerdict};
    use toolyard_model::Scope;

    use super::*;

    /// Blocks one model and changes the prompt of all others.
    struct Guarding;

    impl Hook for Guarding {
        fn run(&self, event: Arc<Event>) -> BoxFuture<Result<HookVerdict, String>> {
            let verdict = match event.subject.as_deref() {
                Some("dear") => HookVerdict::block("too dear"),
                _ => HookVerdict::change("prompt", json!("changed")),
            };
            Box::pin(async { Ok(verdict) })
        }
    }

    #[tokio::test]
    async fn packs_run_the_hooks_of_the_gateway() {
        let scope = Scope::new();
        let kind = HookKind::Own(OwnHook(Arc::new(Guarding)));
        let hooks = vec![HookPlan::new("guarding", Point::PreModelInvoke, kind)];
        let calls = CallRules { hooks, ..CallRules::default() };
        let gateway = Arc::new(Gateway::start(Plan { calls, ..Plan::default() }, &scope));
        let hooks = PackHooks::of(&gateway);
        let blocked = hooks.run("pre_model_invoke", json!({ "model": "dear", "prompt": "p" })).await;
        assert_eq!(blocked, Verdict::Block("too dear".into()));
        let changed = hooks.run("pre_model_invoke", json!({ "model": "cheap", "prompt": "p" })).await;
        assert_eq!(changed, Verdict::Continue(json!({ "model": "cheap", "prompt": "changed" })));
        assert!(hooks.has_any("pre_model_invoke", "cheap") && !hooks.has_any("post_model_invoke", "cheap"));
        let input = json!({ "prompt": "p" });
        assert_eq!(hooks.run("no_such_point", input.clone()).await, Verdict::Continue(input));
        scope.end().await;
    }
}
