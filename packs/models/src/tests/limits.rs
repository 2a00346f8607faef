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
    for (model, most) in
        [("gemini-3-flash", 10), ("gemini-3-pro", 5), ("gemini-3-pro-high", 3), ("gpt-5.2", 3)]
    {
        // The limit is that of the name, whichever provider answers.
        let mut keys = config(json!({ "per_minute": 0 }));
        keys["providers"]["google"]["models"][model] = json!({});
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

#[tokio::test(start_paused = true)]
async fn requests_take_turns_with_calls_of_tools_at_the_limits_that_the_config_names() {
    let keys = config(json!({ "per_minute": 0, "limits": ["gentle"] }));
    let bench = Bench::with(keys, slow(5, 2), |_, input| Verdict::Continue(input));
    ask_many(&bench, 5, "gemini-3-flash").await;
    assert_eq!(bench.script.most_running.load(Ordering::SeqCst), 1, "`gentle` has one place");
    assert_eq!(bench.script.begun.elapsed(), Duration::from_secs(10));
    let expected = ("gentle".to_owned(), "gemini-3-flash".to_owned());
    assert_eq!(*bench.limits.acquired.lock(), vec![expected; 5], "the model is the key");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_gateway_that_refuses_is_an_error_and_nothing_is_sent() {
    let keys = config(json!({ "limits": ["closed"] }));
    let bench = Bench::with(keys, [], |_, input| Verdict::Continue(input));
    let error = bench.ask(gemini(json!({}))).await.unwrap_err().to_string();
    let expected = "is at its limit: limit `closed`: 16 calls are waiting already; try again in 7 s";
    assert!(error.contains(expected), "{error}");
    assert_eq!(bench.script.sent().len(), 0);
}
