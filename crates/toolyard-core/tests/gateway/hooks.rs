//! Hooks around calls of tools: what they change, note and block, on every kind of tool.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolyard_core::{Gateway, ToolRule, ToolSettings, Validate};
use toolyard_hooks::{Event, Hook, HookKind, HookPlan, OnFailure, OwnHook, Point, Verdict};
use toolyard_model::{AnswerBody, BoxFuture};
use toolyard_proto::{CallError, Raw, Revision};

use crate::support::{Behaviour, Client, Double, plan, raw, start};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::NEWEST_LEGACY;

type Judge = Box<dyn Fn(&Event) -> Verdict + Send + Sync>;

struct Judged(Judge);

impl Hook for Judged {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let verdict = (self.0)(&event);
        Box::pin(async move { Ok(verdict) })
    }
}

pub(crate) fn hook(
    name: &str,
    point: Point,
    judge: impl Fn(&Event) -> Verdict + Send + Sync + 'static,
) -> HookPlan {
    HookPlan::new(name, point, HookKind::Own(OwnHook(Arc::new(Judged(Box::new(judge))))))
}

/// The text that the double echoes: the parameters it received.
fn received(answer: &Value) -> Value {
    serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn hooks_change_arguments_and_results_and_add_notes() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let before = hook("before", Point::PreToolCall, |event| {
        let mut arguments = event.data["arguments"].clone();
        arguments["x"] = json!(2);
        Verdict::change("arguments", arguments).with_note(Some("doubled".to_owned()))
    });
    let after = hook("after", Point::PostToolCall, move |event| {
        noted.lock().push(event.to_json());
        let mut result = event.data["result"].clone();
        result["content"][0]["text"] =
            json!(result["content"][0]["text"].as_str().unwrap().replace("name", "NAME"));
        Verdict::change("result", result)
    });
    let double = Double::new(NEW, &["t"]);
    let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![before, after]);
    let client = Client::named(&gateway, NEW, "", "ann");
    client.tools().await;
    let answer = client.call("a__t", json!({ "x": 1, "y": "z" })).await.unwrap();
    let sent = received(&answer);
    assert_eq!((&sent["arguments"], &sent["NAME"]), (&json!({ "x": 2, "y": "z" }), &json!("t")));
    assert_eq!(answer["content"][1], json!({ "type": "text", "text": "[before] doubled" }));
    assert_eq!(answer["_meta"]["dev.toolyard/notes"], json!([{ "hook": "before", "text": "doubled" }]));
    let seen = seen.lock();
    assert_eq!((&seen[0]["tool"], &seen[0]["principal"]), (&json!("a:t"), &json!("ann")));
    assert_eq!(seen[0]["arguments"], json!({ "x": 2, "y": "z" }), "the arguments that were sent");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_call_is_not_sent_and_a_blocked_result_is_withheld() {
    let before = hook("guard", Point::PreToolCall, |event| match event.data["arguments"]["path"].as_str() {
        Some("/etc") => Verdict::block("outside of the project"),
        _ => Verdict::pass(),
    });
    let after = hook("leak", Point::PostToolCall, |event| {
        let is_secret = event.data["result"].to_string().contains("secret");
        if is_secret { Verdict::block("it holds a secret") } else { Verdict::pass() }
    });
    let double = Double::new(NEW, &["t"]);
    let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![before, after]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for (arguments, sent, expected) in [
        (json!({ "path": "/etc" }), 0, "hook `guard` blocked a call of a:t: outside of the project"),
        (json!({ "path": "secret" }), 1, "hook `leak` blocked the result of a:t: it holds a secret"),
    ] {
        let answer = client.call("a__t", arguments).await.unwrap();
        assert_eq!(
            (answer["isError"].as_bool(), &answer["content"][0]["text"]),
            (Some(true), &json!(expected))
        );
        assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "blocked");
        assert_eq!(double.seen.lock().len(), sent);
    }
    assert!(client.call("a__t", json!({})).await.unwrap().get("isError").is_none());
}

fn shipped(name: &str) -> HookPlan {
    let kind = HookKind::Shipped { name: name.to_owned(), settings: Value::Null };
    HookPlan::new(name, Point::PostToolCall, kind)
}

/// Answers every call with this error.
fn failing(error: CallError) -> Arc<Double> {
    let behaviour: Behaviour = Arc::new(move |_, _| {
        let error = error.clone();
        Box::pin(async move { Err(error) })
    });
    Double::with(NEW, &["t"], behaviour)
}

#[tokio::test(start_paused = true)]
async fn a_json_rpc_error_passes_the_hooks_after_the_call_and_stays_one() {
    let reported = json!({
        "code": -32050, "message": "no login with token=abcdefgh12345678",
        "data": { "environment": ["API_KEY=abcdefgh12345678"], "kept": 1.0 },
    });
    let double = failing(CallError::reported(raw(reported.clone())));
    let noting = hook("before", Point::PreToolCall, |_| Verdict::note("seen"));
    let passing = hook("pass", Point::PostToolCall, |_| Verdict::pass());
    let ask = async |hooks: Vec<HookPlan>| {
        let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = hooks);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        client.call("a__t", json!({})).await.unwrap_err().to_raw().as_str().to_owned()
    };
    assert_eq!(ask(vec![passing]).await, ask(vec![]).await, "it is unchanged");
    let left: Value = serde_json::from_str(&ask(vec![shipped("redact"), noting]).await).unwrap();
    assert_eq!(left["message"], "no login with token=[redacted]\n[before] seen");
    assert_eq!(left["code"], -32050);
    assert_eq!(left["data"], json!({ "environment": ["API_KEY=[redacted]"], "kept": 1.0 }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_on_its_way_has_a_result_with_the_notes_of_its_hooks() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let lost = CallError::lost("the connection was lost with token=abcdefgh12345678");
    for (double, kind) in [
        (failing(lost), "lost"),
        (failing(CallError::unavailable("it cannot be reached: token=abcdefgh12345678")), "unavailable"),
        (Double::with(NEW, &["t"], silent), "timeout"),
    ] {
        let before = hook("before", Point::PreToolCall, |_| Verdict::note("noted"));
        let after = hook("after", Point::PostToolCall, |event| {
            let result = &event.data["result"];
            Verdict::note(format!("{} {}", result["isError"], result["_meta"]["dev.toolyard/error"]["kind"]))
        });
        let hooks = vec![before, shipped("redact"), after];
        let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = hooks);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let answer = client.call("a__t", json!({})).await.unwrap();
        let texts: Vec<&str> = answer["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"].as_str().unwrap())
            .collect();
        let seen = format!("[after] true \"{kind}\"");
        assert_eq!(texts[1..], ["[before] noted", &seen], "{kind}");
        assert!(!texts[0].contains("abcdefgh12345678"), "{kind}: {answer}");
        assert_eq!((&answer["isError"], &answer["resultType"]), (&json!(true), &json!("complete")), "{kind}");
        assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], kind);
        assert_eq!(answer["_meta"]["dev.toolyard/notes"][0], json!({ "hook": "before", "text": "noted" }));
        let report = crate::api::get(&gateway, "/report").await;
        let status = if kind == "timeout" { "timeout" } else { "failed" };
        assert_eq!(report["calls"][0]["status"], status, "{kind}: the record has the error");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_that_take_their_time_see_a_timeout_and_may_block_it() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], silent);
    let slow = HookKind::Own(OwnHook(Arc::new(Slow)));
    let slow =
        HookPlan { timeout: Duration::from_mins(5), ..HookPlan::new("slow", Point::PostToolCall, slow) };
    let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![slow]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "hook `slow` blocked the result of a:t: withheld");
    assert_eq!(double.dropped.load(std::sync::atomic::Ordering::SeqCst), 1, "the call was cancelled");
}

/// Takes longer than a call may, and blocks.
struct Slow;

impl Hook for Slow {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_mins(4)).await;
            Ok(Verdict::block("withheld"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_that_get_no_turn_end_with_the_call_that_timed_out() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], silent);
    let stuck = HookPlan::new("stuck", Point::PostToolCall, HookKind::Own(OwnHook(Arc::new(Stuck))));
    let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![stuck]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let call = client.call("a__t", json!({}));
    let answer = tokio::time::timeout(Duration::from_mins(10), call).await.unwrap().unwrap();
    assert_eq!(answer["content"][0]["text"], "a:t timed out, and so did the hooks after it");
    assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "timeout");
}

/// Never gets a turn.
struct Stuck;

impl Hook for Stuck {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        Box::pin(async { Ok(Verdict::pass()) })
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        Some(Arc::new(Semaphore::new(0)))
    }
}

/// The bytes of the result of a call with these arguments, if the upstream answers with this text.
async fn relayed(result: &'static str, arguments: &str, hooks: Vec<HookPlan>) -> String {
    let behaviour: Behaviour = Arc::new(move |_, _| {
        Box::pin(async move { Ok(AnswerBody::Whole(Raw::parse(result.as_bytes()).unwrap(), OLD)) })
    });
    let double = Double::with(OLD, &["t"], behaviour);
    let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = hooks);
    let client = Client::new(&gateway, OLD, "");
    client.tools().await;
    let params = format!(r#"{{"name":"a__t","arguments":{arguments}}}"#);
    match client.send_exactly("tools/call", Raw::parse(params).unwrap()).await {
        Ok(AnswerBody::Whole(result, _)) => result.as_str().to_owned(),
        Ok(AnswerBody::Stream(_)) => panic!("nothing streams here"),
        Err(error) => error.to_tool_result().as_str().to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_see_text_with_half_a_surrogate_pair() {
    const HALF: &str =
        r#"{"content":[{"type":"text","text":"\ud83d token=abcdefgh12345678"}],"isError":true}"#;
    let passing = hook("pass", Point::PostToolCall, |_| Verdict::pass());
    assert_eq!(relayed(HALF, "{}", vec![passing]).await, HALF, "the bytes are kept");
    let redacted = relayed(HALF, "{}", vec![shipped("redact")]).await;
    let redacted: Value = serde_json::from_str(&redacted).unwrap();
    assert_eq!(redacted["content"][0]["text"], "\u{fffd} token=[redacted]");
    assert_eq!(redacted["isError"], true);
    let noting = hook("n", Point::PostToolCall, |_| Verdict::note("seen"));
    let noted = relayed(HALF, "{}", vec![noting]).await;
    let kept = r#"{"content":[{"type":"text","text":"\ud83d token=abcdefgh12345678"},{""#;
    assert!(noted.starts_with(kept) && noted.contains(r#"}],"isError":true,"#), "{noted}");
    assert!(noted.contains("[n] seen"), "{noted}");
    let guard = hook("guard", Point::PreToolCall, |event| match event.data["arguments"]["x"].as_str() {
        Some("\u{fffd}") => Verdict::block("half"),
        _ => Verdict::pass(),
    });
    let blocked = relayed(HALF, r#"{"x":"\ud83d"}"#, vec![guard]).await;
    assert!(blocked.contains("hook `guard` blocked a call of a:t: half"), "{blocked}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_cannot_be_shown_a_value_fails() {
    const HUGE: &str = r#"{"content":[],"structuredContent":{"n":1e999}}"#;
    for (on_failure, expected) in [
        (OnFailure::Pass, HUGE),
        (OnFailure::Block, "the hook failed: `result` cannot be read: number out of range"),
    ] {
        let redact = HookPlan { on_failure, ..shipped("redact") };
        let after = HookPlan { on_failure, ..hook("after", Point::PostToolCall, |_| Verdict::pass()) };
        let answer = relayed(HUGE, "{}", vec![redact, after]).await;
        assert!(answer.contains(expected), "{answer}");
        assert_eq!(on_failure == OnFailure::Pass, answer.contains("1e999"), "{answer}");
    }
    let before = hook("before", Point::PreToolCall, |_| Verdict::pass());
    let before = HookPlan { on_failure: OnFailure::Block, ..before };
    let blocked = relayed(HUGE, r#"{"n":1e999}"#, vec![before]).await;
    assert!(
        blocked.contains("blocked a call of a:t: the hook failed: `arguments` cannot be read"),
        "{blocked}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_replace_an_error_by_a_result() {
    let error = json!({ "code": -32603, "message": "prompt is too long" });
    for error in [CallError::reported(raw(error)), CallError::lost("prompt is too long")] {
        let double = failing(error);
        let recovery = shipped("session-recovery");
        let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![recovery]);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let answer = client.call("a__t", json!({})).await.unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("[recovered] the conversation is too long"), "{answer}");
        assert!(answer.get("isError").is_none() && answer["resultType"] == "complete", "{answer}");
    }
}

/// Answers calls with a task that is over at once, with a result that has a secret.
fn tasks(revision: Revision) -> Arc<Double> {
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let result =
            json!({ "content": [{ "type": "text", "text": "a secret" }], "structuredContent": { "n": "x" } });
        let over =
            json!({ "resultType": "complete", "taskId": "t1", "status": "completed", "result": result });
        let made = json!({ "taskId": "t1", "status": "working", "resultType": "task" });
        let answer = match request.method.as_str() {
            "tools/call" if revision == NEW => made,
            "tools/call" => json!({ "task": { "taskId": "t1", "status": "working" } }),
            "tasks/result" => result,
            _ => over,
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(answer), revision)) })
    });
    Double::with(revision, &["t"], behaviour)
}

/// The result of a task of `a:t`, as the client fetches it.
async fn fetched(gateway: &Gateway, revision: Revision, view: &str) -> Value {
    let mut client = Client::new(gateway, revision, view);
    client.declare(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    client.tools().await;
    let name = if view.is_empty() { "a__t" } else { "t" };
    let call = json!({ "name": name, "arguments": {}, "task": { "ttl": 60_000 } });
    let made = client.ask("tools/call", call).await.unwrap();
    let id = made["taskId"].as_str().or(made["task"]["taskId"].as_str()).unwrap().to_owned();
    if revision == NEW {
        return client.ask("tasks/get", json!({ "taskId": id })).await.unwrap()["result"].clone();
    }
    client.ask("tasks/result", json!({ "taskId": id })).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn results_of_tasks_pass_the_hooks_after_the_call() {
    for (revision, view) in [(NEW, ""), (NEW, "a"), (OLD, ""), (OLD, "a")] {
        let before = hook("before", Point::PreToolCall, |_| Verdict::note("noted"));
        let after = hook("after", Point::PostToolCall, |event| {
            let mut result = event.data["result"].clone();
            result["content"][0]["text"] = json!(format!("seen {}", event.data["arguments"]));
            Verdict::change("result", result)
        });
        let double = tasks(revision);
        let gateway = start(&[("a", &double)], |plan| plan.calls.hooks = vec![before, after]);
        let result = fetched(&gateway, revision, view).await;
        let texts = [&result["content"][0]["text"], &result["content"][1]["text"]];
        assert_eq!(texts, [&json!("seen {}"), &json!("[before] noted")], "{revision:?} {view}: {result}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_blocked_or_invalid_result_of_a_task_is_withheld() {
    let leak = || hook("leak", Point::PostToolCall, |_| Verdict::block("not for you"));
    let both = ToolSettings { validate: Some(Validate::Both), ..ToolSettings::default() };
    for (hooks, settings, expected) in [
        (vec![leak()], ToolSettings::default(), "hook `leak` blocked the result of a:t"),
        (vec![], both, "the result of a:t does not fit its schema"),
    ] {
        for revision in [NEW, OLD] {
            let double = tasks(revision);
            let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
            double.tools.lock()[0]["outputSchema"] = schema;
            let rule = ToolRule { pattern: "a:t".into(), settings: settings.clone(), ..ToolRule::default() };
            let hooks = hooks.clone();
            let gateway = start(&[("a", &double)], |plan| {
                (plan.calls.hooks, plan.calls.tools) = (hooks, vec![rule]);
            });
            let result = fetched(&gateway, revision, "").await;
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with(expected) && !result.to_string().contains("a secret"), "{result}");
            assert_eq!(result["isError"], true);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_are_for_the_tools_they_match_and_can_be_off_for_some() {
    let noting = hook("n", Point::PreToolCall, |_| Verdict::note("seen"));
    let noting = HookPlan { matches: vec!["a:*".to_owned()], ..noting };
    let double = Double::new(NEW, &["t", "u"]);
    let off = ToolSettings { hooks: Some(false), ..ToolSettings::default() };
    let gateway = start(&[("a", &double), ("b", &double)], |plan| {
        plan.calls.hooks = vec![noting];
        plan.calls.tools = vec![ToolRule { pattern: "a:u".into(), settings: off, ..ToolRule::default() }];
    });
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for (name, noted) in [("a__t", true), ("a__u", false), ("b__t", false)] {
        let answer = client.call(name, json!({})).await.unwrap();
        assert_eq!(answer["_meta"].get("dev.toolyard/notes").is_some(), noted, "{name}");
    }
    gateway.reload(plan(&[("a", &double), ("b", &double)]));
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert!(answer["_meta"].get("dev.toolyard/notes").is_none(), "a reload removes hooks");
}

#[tokio::test(start_paused = true)]
async fn a_session_has_hooks_when_it_begins_and_each_time_it_idles() {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let observe = move |event: &Event| {
        sender.send((event.point, event.data.clone())).unwrap();
        Verdict::pass()
    };
    let observer = HookPlan {
        points: vec![Point::SessionStart, Point::SessionIdle],
        ..hook("observe", Point::SessionStart, observe)
    };
    let gateway = start(&[("a", &Double::new(NEW, &["t"]))], |plan| plan.calls.hooks = vec![observer]);
    let client = Client::named(&gateway, NEW, "", "ann");
    client.begin();
    let (point, data) = events.recv().await.unwrap();
    assert_eq!((point, &data["principal"]), (Point::SessionStart, &json!("ann")));
    for _ in 0..2 {
        let before = tokio::time::Instant::now();
        let (point, data) = events.recv().await.unwrap();
        assert_eq!((point, data["idleSeconds"].as_u64() >= Some(60)), (Point::SessionIdle, true));
        assert!(before.elapsed().as_secs() <= 70, "{:?}", before.elapsed());
        client.tools().await;
    }
    client.end();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(events.try_recv().is_err(), "a session that has ended does not idle");
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_adds_a_hook_for_idle_sessions_reports_no_busy_one() {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let observer = hook("observe", Point::SessionIdle, move |event| {
        sender.send(event.data["principal"].clone()).unwrap();
        Verdict::pass()
    });
    let double = Double::new(NEW, &["t"]);
    let gateway = start(&[("a", &double)], |_| {});
    let (busy, idle) = (Client::named(&gateway, NEW, "", "busy"), Client::named(&gateway, NEW, "", "idle"));
    busy.begin();
    idle.begin();
    let mut with_hook = plan(&[("a", &double)]);
    with_hook.calls.hooks = vec![observer];
    let mut with_hook = Some(with_hook);
    for second in 0..300 {
        if second == 120 {
            gateway.reload(with_hook.take().unwrap());
        }
        busy.tools().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(events.try_recv().unwrap(), "idle");
    assert!(events.try_recv().is_err(), "the busy one is not reported, the other one once");
}

#[tokio::test(start_paused = true)]
async fn a_point_can_be_run_from_outside_of_a_call() {
    let model = hook("model", Point::PreModelInvoke, |_| Verdict::change("prompt", json!("better")));
    let model = HookPlan { matches: vec!["gemini-*".to_owned()], ..model };
    let gateway = start(&[("a", &Double::new(NEW, &["t"]))], |plan| plan.calls.hooks = vec![model]);
    let run = async |model: &str| {
        let outcome =
            gateway.run_hooks(Point::PreModelInvoke, Some(model.into()), json!({ "prompt": "p" })).await;
        outcome.event.data["prompt"].clone()
    };
    assert_eq!((run("gemini-3").await, run("gpt").await), (json!("better"), json!("p")));
}
