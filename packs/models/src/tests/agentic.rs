//! A model that calls tools, and the bounds that stop it.

use super::*;
use crate::agentic::{Bounds, Offered, Run, StoppedBy, Toolbox, choose};

/// Tools that answer after a while with their own name.
pub(super) struct Shed {
    called: Mutex<Vec<(Duration, String, Value)>>,
    begun: Instant,
}

impl Default for Shed {
    fn default() -> Self {
        Self { called: Mutex::default(), begun: Instant::now() }
    }
}

impl Toolbox for Shed {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Offered>, ToolError>> {
        let tool = |name: &str, is_destructive| Offered {
            name: name.into(),
            id: None,
            description: String::new(),
            schema: json!({ "type": "object" }),
            is_destructive,
        };
        let tools = vec![tool("code__read", false), tool("git__log", false), tool("code__delete", true)];
        Box::pin(async move { Ok(tools) })
    }

    fn call(&self, name: &str, arguments: Value) -> BoxFuture<'_, Result<(String, bool), ToolError>> {
        let name = name.to_owned();
        Box::pin(async move {
            self.called.lock().push((self.begun.elapsed(), name.clone(), arguments));
            sleep(Duration::from_secs(5)).await;
            Ok((format!("{name} answered"), false))
        })
    }
}

/// An answer that calls these tools.
fn calls(names: &[&str]) -> Does {
    calls_with(names, json!({ "promptTokenCount": 100, "candidatesTokenCount": 25 }))
}

fn calls_with(names: &[&str], usage: Value) -> Does {
    let parts: Vec<Value> = names
        .iter()
        .map(|name| json!({ "functionCall": { "name": name, "args": { "path": "a" } } }))
        .collect();
    let mut event =
        json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }] });
    if !usage.is_null() {
        event["usageMetadata"] = usage;
    }
    Does::Stream(vec![event])
}

const LOOSE: Bounds = Bounds { turns: 10, time: Duration::from_mins(2), tokens: None, cost: None };

async fn work(bench: &Bench, patterns: &[&str], bounds: Bounds) -> (Result<Run, ToolError>, Arc<Shed>) {
    let shed = Arc::new(Shed::default());
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let chosen = choose(shed.list().await.unwrap(), &patterns, &[]).unwrap();
    let progress = Progress::new(&Context::detached());
    let run = bench.models.work(gemini(json!({})), chosen, shed.clone(), bounds, &progress).await;
    (run, shed)
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_run_at_the_same_time_and_their_results_go_back_in_order() {
    let bench = Bench::new([calls(&["code__read", "git__log"]), say("both read")]);
    let (run, shed) = work(&bench, &["*"], LOOSE).await;
    let run = run.unwrap();
    assert_eq!((run.stopped_by, run.answered.unwrap().reply.text.as_str()), (StoppedBy::Answer, "both read"));
    let called = shed.called.lock().clone();
    assert_eq!(called[0].0, called[1].0, "{called:?}");
    let second = &bench.script.sent()[1].body["contents"];
    assert_eq!(second[1]["parts"][0]["functionCall"]["name"], "code__read");
    let results = &second[2]["parts"];
    assert_eq!(results[0]["functionResponse"]["response"]["result"], "code__read answered");
    assert_eq!(results[1]["functionResponse"]["response"]["result"], "git__log answered");
    assert_eq!(run.turns[0].calls.len(), 2);
    assert_eq!((run.usage.unwrap().input_tokens, run.usage.unwrap().output_tokens), (200, 50));
}

#[tokio::test(start_paused = true)]
async fn a_runaway_is_stopped_by_each_bound() {
    let check = async |bounds: Bounds, expected: StoppedBy, requests: usize| {
        let bench = Bench::new(vec![calls(&["code__read"]); 50]);
        let run = work(&bench, &["*"], bounds).await.0.unwrap();
        assert_eq!(run.stopped_by, expected);
        assert_eq!(bench.script.sent().len(), requests, "{expected:?}");
    };
    check(Bounds { turns: 3, ..LOOSE }, StoppedBy::MaxTurns, 3).await;
    // Each turn takes 5 s for its call.
    check(Bounds { time: Duration::from_secs(12), ..LOOSE }, StoppedBy::Timeout, 3).await;
    check(Bounds { tokens: Some(300), ..LOOSE }, StoppedBy::MaxTokens, 3).await;
    // 0.00035 for each turn.
    check(Bounds { cost: Some(0.000_6), ..LOOSE }, StoppedBy::MaxCost, 2).await;
}

/// `name: how it ended` of each call.
fn ends(run: &Run) -> Vec<String> {
    let calls = run.turns.iter().flat_map(|turn| &turn.calls);
    let how = |failed, unfinished| match (failed, unfinished) {
        (false, false) => "done",
        (true, false) => "failed",
        (_, true) => "unfinished",
    };
    calls
        .map(|call| format!("{}: {} {}", call.tool, how(call.failed, call.unfinished), call.duration_ms))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn calls_are_reported_although_the_time_was_up_before_they_had_ended() {
    let bench = Bench::new([calls(&["git__log"]), calls(&["nothing", "code__read", "git__log"])]);
    let run = work(&bench, &["*"], Bounds { time: Duration::from_secs(8), ..LOOSE }).await.0.unwrap();
    assert_eq!((run.stopped_by, run.turns.len()), (StoppedBy::Timeout, 2));
    let expected = [
        "git__log: done 5000",
        "nothing: failed 0",
        "code__read: unfinished 3000",
        "git__log: unfinished 3000",
    ];
    assert_eq!(ends(&run), expected);
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_not_begun_before_the_time_was_up_are_not_reported() {
    let bench = Bench::new([calls(&["code__read"; 20])]);
    let run = work(&bench, &["*"], Bounds { time: Duration::from_secs(8), ..LOOSE }).await.0.unwrap();
    let ends = ends(&run);
    assert_eq!(ends.iter().filter(|end| *end == "code__read: done 5000").count(), 8, "{ends:?}");
    assert_eq!(ends.iter().filter(|end| *end == "code__read: unfinished 3000").count(), 8, "{ends:?}");
    assert_eq!(ends.len(), 16, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_provider_in_a_later_turn_comes_with_the_turns_before_it() {
    let bench = Bench::new([calls(&["code__read"]), calls(&["git__log"]), Does::Fail(400)]);
    let run = work(&bench, &["*"], LOOSE).await.0.unwrap();
    assert_eq!((run.stopped_by, run.turns.len()), (StoppedBy::Error, 2));
    assert_eq!(ends(&run), ["code__read: done 5000", "git__log: done 5000"]);
    let error = run.error.as_ref().unwrap().to_string();
    assert!(error.contains("`gemini-3-flash` of provider `google` answered with status 400"), "{error}");
    assert_eq!(run.usage.unwrap().input_tokens, 200);

    let bench = Bench::new([Does::Fail(400)]);
    let error = work(&bench, &["*"], LOOSE).await.0.unwrap_err().to_string();
    assert!(error.contains("answered with status 400"), "without a turn, the error is all there is: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_bound_on_tokens_stops_a_run_whose_provider_does_not_report_them() {
    let bench = Bench::new(vec![calls_with(&["code__read"], Value::Null); 50]);
    let (run, shed) = work(&bench, &["*"], Bounds { tokens: Some(1_000_000), ..LOOSE }).await;
    let run = run.unwrap();
    assert_eq!((run.stopped_by, run.usage), (StoppedBy::MaxTokens, None));
    assert_eq!((bench.script.sent().len(), shed.called.lock().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bound_on_the_cost_of_a_model_without_a_price_is_refused() {
    let bench = Bench::new([]);
    let shed = Arc::new(Shed::default());
    let chosen = choose(shed.list().await.unwrap(), &["*".into()], &[]).unwrap();
    let bounds = Bounds { cost: Some(1.0), ..LOOSE };
    let invocation = gemini(json!({ "model": "gemini-3-pro-high" }));
    let run = bench.models.work(invocation, chosen, shed, bounds, &Progress::new(&Context::detached())).await;
    assert!(run.unwrap_err().to_string().starts_with("`max_cost` needs the prices of `gemini-3-pro-high`"));
    assert_eq!(bench.script.sent().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_model_gets_only_the_tools_that_match_and_may_not_destroy_without_a_question() {
    let bench = Bench::new([calls(&["git__log", "code__delete"]), say("nothing done")]);
    let (run, shed) = work(&bench, &["code:*"], LOOSE).await;
    run.unwrap();
    assert_eq!(shed.called.lock().len(), 0, "neither call was made");
    let sent = bench.script.sent();
    let offered = &sent[0].body["tools"][0]["functionDeclarations"];
    assert_eq!(offered.as_array().unwrap().len(), 2, "{offered}");
    let results = sent[1].body["contents"][2]["parts"].to_string();
    assert!(results.contains("there is no tool `git__log`"), "{results}");
    assert!(results.contains("may change or delete something, and the user cannot be asked"), "{results}");
}

#[test]
fn patterns_that_match_nothing_are_refused() {
    let error = choose(Vec::new(), &["code:*".into()], &[]).unwrap_err().to_string();
    assert!(error.starts_with("no tool that you may use matches `code:*`"), "{error}");
}
