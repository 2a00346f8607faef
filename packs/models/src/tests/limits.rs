//! Semaphores and the window behind them.

use futures_util::future::join_all;

use super::*;

async fn ask_many(bench: &Bench, count: usize, model: &str) {
    let calls = (0..count).map(|_| bench.ask(gemini(json!({ "model": model }))));
    for answer in join_all(calls).await {
        answer.unwrap();
    }
}

fn slow(count: usize, seconds: u64) -> Vec<Does> {
    vec![Does::Say("x", Duration::from_secs(seconds)); count]
}

#[tokio::test(start_paused = true)]
async fn a_model_answers_as_many_calls_at_once_as_its_semaphore_allows() {
    for (model, most) in [("gemini-3-flash", 10), ("gemini-3-pro-high", 3)] {
        let keys = config(json!({ "per_minute": 0 }));
        let bench = Bench::with(keys, slow(40, 5), |_, input| Verdict::Continue(input));
        ask_many(&bench, 40, model).await;
        assert_eq!(bench.script.most_running.load(Ordering::SeqCst), most, "{model}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_30_requests_start_in_any_minute_over_all_models() {
    let bench = Bench::new([]);
    let (flash, pro) = (ask_many(&bench, 60, "gemini-3-flash"), ask_many(&bench, 40, "gemini-3-pro-high"));
    tokio::join!(flash, pro);
    let at: Vec<Duration> = bench.script.sent().iter().map(|sent| sent.at).collect();
    assert_eq!(at.len(), 100);
    for span in at.windows(31) {
        assert!(
            span[30] >= span[0] + Duration::from_mins(1),
            "31 requests from {:?} to {:?}",
            span[0],
            span[30]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_place_at_a_model_is_held_while_the_window_is_full() {
    let keys = config(json!({ "per_minute": 1 }));
    let bench = Bench::with(keys, [], |_, input| Verdict::Continue(input));
    ask_many(&bench, 1, "gemini-3-pro-high").await;
    let waiting = bench.ask(gemini(json!({ "model": "gemini-3-pro-high" })));
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut waiting).await.is_err());
    assert_eq!(bench.models.running("gemini-3-pro-high"), 1);
    waiting.await.unwrap();
    assert_eq!(bench.script.sent()[1].at, Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn a_configured_limit_replaces_the_preset() {
    let mut keys = config(json!({ "per_minute": 0 }));
    keys["providers"]["google"]["models"]["gemini-3-flash"]["concurrent"] = 2.into();
    let bench = Bench::with(keys, slow(10, 1), |_, input| Verdict::Continue(input));
    ask_many(&bench, 10, "gemini-3-flash").await;
    assert_eq!(bench.script.most_running.load(Ordering::SeqCst), 2);
}
