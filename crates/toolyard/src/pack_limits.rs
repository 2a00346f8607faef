//! The limits of the config, for packs that send requests of their own, such as those to models.

use std::sync::{Arc, Weak};

use toolyard_core::Gateway;
use toolyard_model::BoxFuture;
use toolyard_tool::host::{Limited, Limits, Permit};

/// The client as which packs take turns with the others.
const CLIENT: &str = "packs";

/// The gateway owns its packs, so they hold it weakly.
pub(crate) struct PackLimits(Weak<Gateway>);

impl PackLimits {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(gateway)))
    }
}

impl Limits for PackLimits {
    /// While the gateway stops, nothing is limited.
    fn acquire(&self, name: &str, key: &str) -> BoxFuture<Result<Permit, Limited>> {
        let Some(gateway) = self.0.upgrade() else { return Box::pin(async { Ok(Permit::unlimited()) }) };
        let (name, key) = (name.to_owned(), key.to_owned());
        Box::pin(async move {
            match gateway.acquire_limit(&name, CLIENT, &key).await {
                Ok(Some(permit)) => Ok(Permit::new(permit)),
                Ok(None) => Ok(Permit::unlimited()),
                Err(refusal) => Err(Limited::new(&name, refusal.to_string(), refusal.retry_after())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolyard_core::plan::CallRules;
    use toolyard_core::{LimitPlan, Per, Plan};
    use toolyard_model::Scope;

    use super::*;

    #[tokio::test]
    async fn packs_wait_under_the_limits_of_the_config() {
        let scope = Scope::new();
        let mut limit = LimitPlan { name: "few".into(), per: Per::Model, limit: <_>::default() };
        limit.limit.concurrent = Some(1);
        limit.limit.max_wait = Duration::from_millis(20);
        let calls = CallRules { limits: vec![limit], ..CallRules::default() };
        let gateway = Arc::new(Gateway::start(Plan { calls, ..Plan::default() }, &scope));
        let limits = PackLimits::of(&gateway);
        let held = limits.acquire("few", "large").await.unwrap();
        drop(limits.acquire("few", "small").await.expect("each model has its own"));
        drop(limits.acquire("another", "large").await.expect("there is no such limit"));
        let refused = limits.acquire("few", "large").await.unwrap_err();
        assert!(refused.to_string().starts_with("limit `few`: "), "{refused}");
        assert!(refused.retry_after() > Duration::ZERO);
        drop(held);
        drop(limits.acquire("few", "large").await.unwrap());
        scope.end().await;
    }
}
