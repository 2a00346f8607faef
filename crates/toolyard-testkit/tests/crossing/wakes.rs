//! A step of the gateway may poll a call beside timers, with wakers of its own in between: the call is still woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use toolyard_core::Plan;
use toolyard_core::pipeline::{Call, ExtraSteps, Next, Step};
use toolyard_model::{Answer, BoxFuture};
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_testkit::script::Manner;

use crate::world::{Reach, World, say};

/// Polls each call in a `FuturesUnordered` between two timers, and counts the calls.
struct BesideTimers(Arc<AtomicUsize>);

impl Step for BesideTimers {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let timer = |seconds| -> BoxFuture<Option<Answer>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                None
            })
        };
        let answering = next.run(call);
        Box::pin(async move {
            let mut all: FuturesUnordered<BoxFuture<Option<Answer>>> = FuturesUnordered::new();
            all.push(timer(100));
            all.push(Box::pin(async move { Some(answering.await) }));
            all.push(timer(200));
            loop {
                if let Some(Some(answer)) = all.next().await {
                    return answer;
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_polls_a_call_beside_timers_does_not_delay_it() {
    for revision in [Revision::NEWEST, Revision::V2025_11_25] {
        let calls = Arc::new(AtomicUsize::new(0));
        let steps = ExtraSteps(vec![Arc::new(BesideTimers(calls.clone()))]);
        let adjust = |plan: Plan| Plan { steps, ..plan };
        let world = World::planned(revision, Manner::Full, Reach::Http, Options::default(), adjust).await;
        world.client(Revision::NEWEST).await;
        let before = calls.load(Ordering::SeqCst);
        for round in 0..50 {
            let started = Instant::now();
            let (status, answer) = world.post(&say("echo")).await;
            assert!(status == 200 && answer["result"]["isError"] != true, "{answer}");
            let took = started.elapsed();
            assert!(took < Duration::from_secs(5), "{revision}: round {round} took {took:?}");
        }
        assert_eq!(calls.load(Ordering::SeqCst) - before, 50, "every call passed the step");
    }
}
