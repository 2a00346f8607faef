//! Hooks of every kind, with real programs and a real HTTP server: what each can do, and what a failing one does not.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed setup is a failed test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use toolyard_hooks::{
    CommandHook, Event, Hook, HookKind, HookPlan, Hooks, OnFailure, Outcome, OwnHook, Point, Runtime,
    Verdict, WebHook,
};
use toolyard_model::BoxFuture;

fn shell(name: &str, script: &str) -> HookPlan {
    let command = CommandHook {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        cwd: None,
        sandbox: None,
    };
    let plan = HookPlan::new(name, Point::PreToolCall, HookKind::Command(command));
    HookPlan { timeout: Duration::from_secs(20), ..plan }
}

fn call(arguments: &Value) -> Event {
    Event::new(Point::PreToolCall, Some("files:read".into()), json!({ "arguments": arguments }))
}

async fn run(plans: Vec<HookPlan>) -> Outcome {
    let hooks = Hooks::new(plans, &Runtime::default(), &Hooks::default());
    hooks.run(call(&json!({ "path": "a" }))).await
}

#[tokio::test]
async fn a_command_reads_the_event_and_changes_it() {
    let script = r#"read -r event; case "$event" in *'"tool":"files:read"'*'"path":"a"'*)
        echo '{"change":{"arguments":{"path":"b"},"tool":"other"},"note":"moved"}';; esac"#;
    let outcome = run(vec![shell("move", script)]).await;
    assert_eq!(outcome.event.data["arguments"], json!({ "path": "b" }));
    assert_eq!(outcome.event.data.get("tool"), None, "a hook changes the arguments alone");
    assert_eq!((outcome.is_changed, outcome.notes[0].text.as_str()), (true, "moved"));
}

#[tokio::test]
async fn the_exit_status_passes_warns_or_blocks() {
    let outcome =
        run(vec![shell("quiet", "cat >/dev/null"), shell("warn", "echo careful >&2; exit 1")]).await;
    assert_eq!((outcome.is_changed, outcome.blocked.clone()), (false, None));
    assert_eq!(outcome.notes[0].text, "careful");
    let later = shell("later", r#"echo '{"note":"never"}'"#);
    let outcome =
        run(vec![shell("no", "echo 'not today' >&2; exit 2"), HookPlan { order: 1, ..later }]).await;
    assert_eq!(outcome.blocked.unwrap().reason, "not today");
    assert!(outcome.notes.is_empty(), "later hooks do not run");
}

#[tokio::test]
async fn a_failing_hook_passes_or_blocks_as_it_is_set() {
    for (script, reason) in [
        ("echo oops", "the hook failed: it returned something other than a JSON object: \"oops\""),
        ("kill -9 $$", "the hook failed: it was ended by signal SIGKILL"),
        ("exit 3", "the hook failed: it exited with status 3"),
    ] {
        let good = HookPlan { order: 1, ..shell("good", r#"echo '{"note":"still here"}'"#) };
        let outcome = run(vec![shell("bad", script), good]).await;
        assert_eq!((outcome.blocked, outcome.notes[0].text.as_str()), (None, "still here"), "{script}");
        let closed = HookPlan { on_failure: OnFailure::Block, ..shell("bad", script) };
        assert_eq!(run(vec![closed]).await.blocked.unwrap().reason, reason);
    }
}

#[tokio::test]
async fn a_hanging_hook_ends_at_its_time_limit_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 600 & echo $! > {}; wait", file.display());
    let hanging = HookPlan { timeout: Duration::from_secs(2), ..shell("hang", &script) };
    let started = Instant::now();
    let outcome = run(vec![hanging]).await;
    assert_eq!(outcome.blocked, None);
    assert!(started.elapsed() < Duration::from_secs(15));
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(15);
    while is_running(pid) {
        assert!(Instant::now() < deadline, "the grandchild is still there");
        tokio::task::yield_now().await;
    }
}

/// A process that has ended and waits to be fetched does not run.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

#[tokio::test]
async fn hooks_run_in_their_order_and_where_they_match() {
    let noting = |name: &str, order, matches: &[&str]| {
        let plan = shell(name, &format!(r#"echo '{{"note":"{name}"}}'"#));
        HookPlan { order, matches: matches.iter().map(|one| (*one).to_owned()).collect(), ..plan }
    };
    let outcome = run(vec![
        noting("third", 3, &["files:*"]),
        noting("elsewhere", 0, &["wiki:*"]),
        noting("first", -1, &["*:read"]),
        HookPlan { points: vec![Point::PostToolCall], ..noting("after", 0, &[]) },
    ])
    .await;
    let names: Vec<&str> = outcome.notes.iter().map(|note| &*note.hook).collect();
    assert_eq!(names, ["first", "third"]);
}

/// Serves one request with this answer and returns what it received.
async fn serve(listener: TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"}") {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.unwrap();
        received.extend_from_slice(&chunk[..read]);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(received).unwrap()
}

#[tokio::test]
async fn a_webhook_is_posted_the_event_and_its_answer_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?a=1", listener.local_addr().unwrap());
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer t"))]);
    let web = HookKind::Web(WebHook { url: url.parse().unwrap(), headers });
    let plan = HookPlan { on_failure: OnFailure::Block, ..HookPlan::new("web", Point::PreToolCall, web) };
    let body = r#"{"block":"closed on Sundays"}"#;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (outcome, received) = tokio::join!(run(vec![plan.clone()]), serve(listener, &answer));
    assert_eq!(outcome.blocked.unwrap().reason, "closed on Sundays");
    assert!(
        received.starts_with("POST /hook?a=1 HTTP/1.1\r\n") && received.contains("authorization: Bearer t")
    );
    assert!(received.ends_with(r#"{"point":"pre_tool_call","tool":"files:read","arguments":{"path":"a"}}"#));
    let refused = run(vec![plan.clone()]).await.blocked.unwrap().reason;
    assert!(refused.starts_with("the hook failed: it cannot be reached"), "{refused}");
}

/// Runs a webhook whose server answers with this status and body.
async fn answered(status: &str, body: &str, on_failure: OnFailure) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plan = HookPlan { on_failure, ..webhook(&listener) };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    tokio::join!(run(vec![plan]), serve(listener, &answer)).0
}

fn webhook(listener: &TcpListener) -> HookPlan {
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let web = HookKind::Web(WebHook { url, headers: HeaderMap::new() });
    HookPlan { timeout: Duration::from_secs(20), ..HookPlan::new("web", Point::PreToolCall, web) }
}

#[tokio::test]
async fn a_webhook_changes_the_arguments_and_adds_a_note() {
    let body = r#"{"change":{"arguments":{"path":"b"},"tool":"other"},"note":"moved"}"#;
    let outcome = answered("200 OK", body, OnFailure::Block).await;
    assert_eq!(outcome.event.data["arguments"], json!({ "path": "b" }));
    assert_eq!(outcome.event.data.get("tool"), None, "a hook changes the arguments alone");
    assert_eq!((outcome.is_changed, outcome.blocked), (true, None));
    assert_eq!(outcome.notes[0].text, "moved");
    let outcome = answered("200 OK", r#"{"note":"seen"}"#, OnFailure::Block).await;
    assert_eq!((outcome.is_changed, outcome.notes[0].text.as_str()), (false, "seen"));
    let outcome = answered("204 No Content", "", OnFailure::Block).await;
    assert_eq!((outcome.is_changed, outcome.blocked, outcome.notes), (false, None, Vec::new()));
}

#[tokio::test]
async fn a_webhook_that_fails_passes_or_blocks_as_it_is_set() {
    for (status, body, reason) in [
        ("500 No", "", "it answered with status 500"),
        ("200 OK", "oops", "it returned something other than a JSON object: \"oops\""),
        ("200 OK", "{\"note\":1}", "`note` in its answer is not a string"),
        ("200 OK", "{\"change\":", "it returned something other than a JSON object: \"{\\\"change\\\":\""),
    ] {
        let open = answered(status, body, OnFailure::Pass).await;
        assert_eq!((open.is_changed, open.blocked), (false, None), "{body}");
        let closed = answered(status, body, OnFailure::Block).await;
        assert_eq!(closed.blocked.unwrap().reason, format!("the hook failed: {reason}"), "{body}");
    }
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_ends_at_its_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plan =
        HookPlan { timeout: Duration::from_millis(300), on_failure: OnFailure::Block, ..webhook(&listener) };
    let silent = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        // Ends when the hook closes its connection.
        let _ = stream.read_to_end(&mut received).await;
        received
    };
    let (outcome, received) = tokio::join!(run(vec![plan]), silent);
    assert!(received.starts_with(b"POST / HTTP/1.1\r\n"));
    // The request and the hook have the same limit, and either may be reached first.
    let reason = outcome.blocked.unwrap().reason;
    assert!(reason.starts_with("the hook failed: it ") && reason.ends_with(" 0.3 s"), "{reason}");
}

struct InRust(fn() -> Verdict);

impl Hook for InRust {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let verdict = self.0;
        Box::pin(async move { Ok(verdict()) })
    }
}

/// Decides without waiting for anything.
struct Computing(fn() -> Verdict);

impl Hook for Computing {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        Box::pin(async { Err("it is judged at once".to_owned()) })
    }

    fn judge(&self, _: &Event) -> Option<Verdict> {
        Some((self.0)())
    }
}

#[tokio::test]
async fn a_panic_in_a_rust_hook_reaches_no_other_hook() {
    let own = |name: &str, order, hook: Arc<dyn Hook>| {
        let plan = HookPlan::new(name, Point::PreToolCall, HookKind::Own(OwnHook(hook)));
        HookPlan { order, on_failure: OnFailure::Pass, ..plan }
    };
    let bad: fn() -> Verdict = || panic!("oh no");
    let good: fn() -> Verdict = || Verdict::note("fine");
    for hooks in [
        vec![own("bad", 0, Arc::new(InRust(bad))), own("good", 1, Arc::new(InRust(good)))],
        vec![own("bad", 0, Arc::new(Computing(bad))), own("good", 1, Arc::new(Computing(good)))],
    ] {
        let outcome = run(hooks.clone()).await;
        assert_eq!((outcome.blocked, outcome.notes[0].text.as_str()), (None, "fine"));
        let closed = HookPlan { on_failure: OnFailure::Block, ..hooks[0].clone() };
        let blocked = run(vec![closed]).await.blocked.unwrap();
        assert_eq!(blocked.reason, "the hook failed: it panicked");
    }
}

/// Blocks when it is its turn.
struct Queued(Arc<Semaphore>);

impl Hook for Queued {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        Box::pin(async { Ok(Verdict::block("no")) })
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        Some(self.0.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_is_not_part_of_the_time_of_a_hook() {
    let turns = Arc::new(Semaphore::new(0));
    let kind = HookKind::Own(OwnHook(Arc::new(Queued(turns.clone()))));
    let plan = HookPlan::new("queued", Point::PreToolCall, kind);
    let later = async {
        tokio::time::sleep(plan.timeout * 10).await;
        turns.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(run(vec![plan.clone()]), later);
    assert_eq!(outcome.blocked.map(|block| block.reason), Some("no".to_owned()));
}

#[tokio::test]
async fn calls_that_hang_in_one_hook_do_not_delay_another_hook() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let hanging =
        shell("hanging", &format!("touch {place}/$$; while [ ! -e {place}/go ]; do sleep 0.02; done"));
    let hanging = HookPlan { timeout: Duration::from_mins(1), ..hanging };
    let other = HookPlan { points: vec![Point::PostToolCall], ..shell("other", "echo no >&2; exit 2") };
    let hooks = Hooks::new(vec![hanging, other], &Runtime::default(), &Hooks::default());
    let calls = (0..16).map(|_| hooks.run(call(&json!({}))));
    let mut hanging = Box::pin(futures_util::future::join_all(calls));
    while std::fs::read_dir(folder.path()).unwrap().count() < 16 {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut hanging).await;
    }
    let event = Event { point: Point::PostToolCall, ..call(&json!({})) };
    let other = tokio::time::timeout(Duration::from_secs(30), hooks.run(event)).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    hanging.await;
    let outcome = other.expect("it waits for the calls that hang");
    assert_eq!(outcome.blocked.map(|block| block.reason), Some("no".to_owned()));
}
