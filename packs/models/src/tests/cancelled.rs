//! Requests whose caller cancels, or whose time is up, are in the report with the usage that is known.

use super::*;
use crate::agentic::{Bounds, StoppedBy, choose};
use crate::ledger::{Report, Requests};

/// The report, once it has rows for this many requests. A row of a cancelled request is written on another thread.
async fn report(bench: &Bench, requests: i64) -> Report {
    for _ in 0..100_000 {
        let report = bench.models.ledger.report(Requests::default()).unwrap();
        if report.total.requests >= requests {
            return report;
        }
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
    }
    panic!("no rows of {requests} requests: {:?}", bench.models.ledger.report(Requests::default()));
}

fn half_an_answer() -> Vec<Value> {
    vec![json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "text": "half of" }] } }],
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 7 },
    })]
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_reported_with_the_tokens_known_so_far_and_without_a_guessed_cost() {
    let bench = Bench::new([Does::Hang(half_an_answer())]);
    let call = bench.ask(gemini(json!({ "agent_context": explore() })));
    tokio::time::timeout(Duration::from_secs(5), call).await.unwrap_err();
    let report = report(&bench, 1).await;
    let total = &report.total;
    assert_eq!((total.requests, total.cancelled, total.failed), (1, 1, 0), "{report:?}");
    assert_eq!((total.input_tokens, total.output_tokens), (100, 7), "{report:?}");
    assert_eq!((total.cost, total.without_price), (None, 1), "{report:?}");
    assert_eq!((report.by_agent[0].name.as_str(), report.by_session[0].name.as_str()), ("explore", "s-1"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cancelled_before_an_answer_is_reported_without_tokens() {
    let bench = Bench::new([Does::Say("too late", Duration::from_mins(1))]);
    tokio::time::timeout(Duration::from_secs(5), bench.ask(gemini(json!({})))).await.unwrap_err();
    let total = report(&bench, 1).await.total;
    assert_eq!((total.cancelled, total.input_tokens, total.without_price), (1, 0, 1), "{total:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_while_it_waits_for_its_turn_has_no_row() {
    let bench = Bench::with(config(json!({ "per_minute": 1 })), [], |_, input| Verdict::Continue(input));
    bench.ask(gemini(json!({}))).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), bench.ask(gemini(json!({})))).await.unwrap_err();
    bench.ask(gemini(json!({}))).await.unwrap();
    assert_eq!(report(&bench, 2).await.total.requests, 2);
    assert_eq!(bench.script.sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_request_that_the_timeout_of_a_run_with_tools_cuts_off_is_reported() {
    let bench = Bench::new([Does::Hang(half_an_answer())]);
    let shed = Arc::new(super::agentic::Shed::default());
    let bounds = Bounds { turns: 10, time: Duration::from_secs(12), tokens: None, cost: None };
    let chosen = choose(crate::agentic::Toolbox::list(&*shed).await.unwrap(), &["*".into()], &[]).unwrap();
    let progress = Progress::new(&Context::detached());
    let run = bench.models.work(gemini(json!({})), chosen, shed, bounds, &progress).await.unwrap();
    assert_eq!(run.stopped_by, StoppedBy::Timeout);
    let total = report(&bench, 1).await.total;
    assert_eq!((total.cancelled, total.input_tokens, total.cost), (1, 100, None), "{total:?}");
}

#[tokio::test(start_paused = true)]
async fn tokens_of_an_answer_that_broke_off_are_reported_without_a_guessed_cost() {
    let bench = Bench::new([Does::Cut(half_an_answer())]);
    bench.ask(gemini(json!({}))).await.unwrap_err();
    let total = report(&bench, 1).await.total;
    assert_eq!((total.failed, total.input_tokens, total.output_tokens), (1, 100, 7), "{total:?}");
    assert_eq!((total.cost, total.without_price), (None, 1), "{total:?}");
}
