//! The limits of the config, for packs that send requests of their own, such as those to models.

use std::sync::{Arc, Weak};

use toolyard_core::{Gateway, PackWork};
use toolyard_model::BoxFuture;
use toolyard_tool::host::{Limited, LimitedWork, Limits, Permit};

/// The gateway owns its packs, so they hold it weakly.
pub(crate) struct PackLimits(Weak<Gateway>);

impl PackLimits {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(gateway)))
    }
}

impl Limits for PackLimits {
    /// While the gateway stops, nothing is limited.
    fn acquire(&self, name: &str, work: LimitedWork) -> BoxFuture<Result<Permit, Limited>> {
        let Some(gateway) = self.0.upgrade() else { return Box::pin(async { Ok(Permit::unlimited()) }) };
        let name = name.to_owned();
        Box::pin(async move {
            let LimitedWork { pack, model, call, report } = work;
            let (origin, tool) = call.unzip();
            let work = PackWork { pack, tool, origin, model };
            match gateway.acquire_limit(&name, work, report).await {
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

    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};
    use toolyard_core::plan::CallRules;
    use toolyard_core::{LimitPlan, Per, Plan};
    use toolyard_model::{ClientKey, Origin, Principal, Scope, View};
    use toolyard_proto::Revision;

    use super::*;

    /// A gateway with the limit `few`, one at a time.
    fn gateway(per: Per, max_wait: Duration, scope: &Scope) -> Arc<Gateway> {
        let mut limit = LimitPlan { name: "few".into(), per, limit: <_>::default() };
        (limit.limit.concurrent, limit.limit.max_wait) = (Some(1), max_wait);
        let calls = CallRules { limits: vec![limit], ..CallRules::default() };
        Arc::new(Gateway::start(Plan { calls, ..Plan::default() }, scope))
    }

    fn background(model: &str) -> LimitedWork {
        LimitedWork { pack: "models".into(), model: model.into(), call: None, report: Box::new(|_| {}) }
    }

    /// Work for a call of this tool by a client of this principal.
    fn call(principal: &str, client: u64, tool: &str) -> LimitedWork {
        let (principal, client) = (Principal::token(principal), ClientKey::Connection(client));
        let origin = Origin::new(View::Everything, principal, client, Revision::NEWEST);
        LimitedWork { call: Some((Arc::new(origin), tool.into())), ..background("m") }
    }

    #[tokio::test(start_paused = true)]
    async fn packs_wait_under_the_limits_of_the_config() {
        let scope = Scope::new();
        let gateway = gateway(Per::Model, Duration::from_millis(20), &scope);
        let limits = PackLimits::of(&gateway);
        let held = limits.acquire("few", background("large")).await.unwrap();
        drop(limits.acquire("few", background("small")).await.expect("each model has its own"));
        drop(limits.acquire("another", background("large")).await.expect("there is no such limit"));
        let refused = limits.acquire("few", background("large")).await.unwrap_err();
        assert!(refused.to_string().starts_with("limit `few`: "), "{refused}");
        assert!(refused.retry_after() > Duration::ZERO);
        drop(held);
        drop(limits.acquire("few", background("large")).await.unwrap());
        scope.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_limit_counts_what_it_is_for() {
        // What may run beside work for ann's first client that calls `ask`.
        let others = [
            ("another principal", call("bob", 2, "ask")),
            ("another client", call("ann", 2, "ask")),
            ("another tool", call("ann", 1, "list")),
            ("another pack", LimitedWork { pack: "music".into(), ..call("ann", 1, "ask") }),
            ("another model", LimitedWork { model: "n".into(), ..call("ann", 1, "ask") }),
        ];
        let beside = |per: Per| match per {
            Per::Group => vec![],
            Per::Principal => vec!["another principal"],
            Per::Client => vec!["another principal", "another client"],
            Per::Tool => vec!["another tool", "another pack"],
            Per::Upstream => vec!["another pack"],
            Per::Model => vec!["another model"],
        };
        for (name, per) in Per::ALL {
            let scope = Scope::new();
            let gateway = gateway(per, Duration::ZERO, &scope);
            let limits = PackLimits::of(&gateway);
            let _held = limits.acquire("few", call("ann", 1, "ask")).await.unwrap();
            let mut started = Vec::new();
            for (what, work) in &others {
                let (pack, model, call) = (work.pack.clone(), work.model.clone(), work.call.clone());
                let work = LimitedWork { pack, model, call, report: Box::new(|_| {}) };
                if limits.acquire("few", work).await.is_ok() {
                    started.push(*what);
                }
            }
            assert_eq!(started, beside(per), "per {name}");
            scope.end().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_take_turns_and_learn_their_place_while_they_wait() {
        let scope = Scope::new();
        let gateway = gateway(Per::Group, Duration::from_mins(1), &scope);
        let limits = PackLimits::of(&gateway);
        let begun = Instant::now();
        let work = async |client: u64| {
            let places = Arc::new(Mutex::new(Vec::new()));
            let received = places.clone();
            let report = Box::new(move |ahead: usize| received.lock().push(ahead));
            let permit = limits.acquire("few", LimitedWork { report, ..call("ann", client, "ask") }).await;
            let started = begun.elapsed().as_secs();
            sleep(Duration::from_secs(3)).await;
            drop(permit.unwrap());
            let places = places.lock().clone();
            (started, places)
        };
        let (first, second, third, other) = tokio::join!(work(1), work(1), work(1), work(2));
        assert_eq!([first.0, second.0, other.0, third.0], [0, 3, 6, 9]);
        assert!(first.1.is_empty());
        assert!(second.1.len() >= 3 && second.1.iter().all(|ahead| *ahead == 0), "{:?}", second.1);
        assert_eq!(third.1[..2], [1, 2], "another client came before it");
        assert!(third.1.len() >= 8 && third.1.last() == Some(&0), "a report each second: {:?}", third.1);
        scope.end().await;
    }
}
