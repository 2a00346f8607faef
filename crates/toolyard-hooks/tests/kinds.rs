//! Hooks of every kind, with real programs and a real HTTP server: what each can do, and what a failing one does not.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed setup is a failed test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
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

#[tokio::test]
async fn a_webhook_that_fails_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let web = HookKind::Web(WebHook { url, headers: HeaderMap::new() });
    let plan = HookPlan { on_failure: OnFailure::Block, ..HookPlan::new("web", Point::PreToolCall, web) };
    let answer = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    let (outcome, _) = tokio::join!(run(vec![plan]), serve(listener, answer));
    assert_eq!(outcome.blocked.unwrap().reason, "the hook failed: it answered with status 500");
}

struct InRust(fn() -> Verdict);

impl Hook for InRust {
    fn run(&self, _: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let verdict = self.0;
        Box::pin(async move { Ok(verdict()) })
    }
}

#[tokio::test]
async fn a_panic_in_a_rust_hook_reaches_no_other_hook() {
    let own = |name: &str, order, verdict| {
        let hook = HookKind::Own(OwnHook(Arc::new(InRust(verdict))));
        HookPlan { order, ..HookPlan::new(name, Point::PreToolCall, hook) }
    };
    let outcome =
        run(vec![own("bad", 0, || panic!("oh no")), own("good", 1, || Verdict::note("fine"))]).await;
    assert_eq!((outcome.blocked, outcome.notes[0].text.as_str()), (None, "fine"));
}

#[tokio::test]
async fn waiting_for_a_turn_is_not_part_of_the_time_of_a_hook() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    // Programs that run until there is a file, as many as run at once.
    let held = format!("touch {place}/$$; while [ ! -e {place}/go ]; do sleep 0.02; done");
    let runtime = Runtime::default();
    let made = |plan: HookPlan| Hooks::new(vec![plan], &runtime, &Hooks::default());
    let (holding, judging) = (
        made(shell("held", &held)),
        made(HookPlan { timeout: Duration::from_secs(2), ..shell("judge", "echo no >&2; exit 2") }),
    );
    let event = || call(&json!({}));
    let mut running: Vec<_> = (0..16).map(|_| Box::pin(holding.run(event()))).collect();
    let mut all = Box::pin(futures_util::future::join_all(running.drain(..)));
    let started = || std::fs::read_dir(folder.path()).unwrap().count();
    while started() < 16 {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut all).await;
    }
    let go = async {
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        std::fs::write(folder.path().join("go"), "").unwrap();
    };
    let (outcome, _, ()) = tokio::join!(judging.run(event()), all, go);
    assert_eq!(outcome.blocked.map(|block| block.reason), Some("no".to_owned()));
}
