//! What calls pass, through the real program: many clients at one limit, and hooks that leave processes behind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::shims::Client;
use crate::yard::{Gateway, Yard, command_line, none, soon, within};
use crate::{http, testkit};

/// Clients that send one call after the other, beside one that sends many at once.
const MODEST: usize = 31;
const CALLS: usize = 12;
/// More than may run and wait together, so that some are always refused.
const GREEDY: usize = 48;
const AT_ONCE: usize = 8;
const QUEUE: usize = 40;
const TAKES: Duration = Duration::from_millis(20);
/// What the second round may add to the memory of the gateway.
const GROWTH: usize = 6 << 20;

/// One session that calls the limited tool.
struct Caller<'a> {
    url: &'a str,
    session: String,
    next: AtomicUsize,
}

impl<'a> Caller<'a> {
    fn new(url: &'a str) -> Self {
        Self { url, session: http::open_session(url), next: AtomicUsize::new(1) }
    }

    fn call(&self) -> Value {
        let takes = u64::try_from(TAKES.as_millis()).unwrap();
        let params = json!({ "name": "fix__test_echo", "arguments": { "text": "hi", "delayMs": takes } });
        // Requests of one session that run at the same time need ids of their own.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let answer = http::post(self.url, &headers, &message).message();
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }
}

/// When to try again, as a refusal states it.
fn retry_after(refused: &Value) -> Duration {
    let error = &refused["_meta"]["dev.toolyard/error"];
    assert_eq!(error["kind"], "limit", "{refused}");
    let wait = error["retryAfterMs"].as_u64().unwrap_or_else(|| panic!("no time to try again: {refused}"));
    assert!(wait > 0, "{refused}");
    Duration::from_millis(wait)
}

/// All clients at once; the number of calls of the greedy one that were answered, and that were refused.
fn round(url: &str) -> (usize, usize) {
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let greedy = Caller::new(url);
    thread::scope(|scope| {
        for _ in 0..GREEDY {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let result = greedy.call();
                    if result["isError"] == true {
                        refused.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(retry_after(&result).min(TAKES));
                    } else {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let modest: Vec<_> = (0..MODEST).map(|_| scope.spawn(|| modest(url))).collect();
        let ended: Vec<_> = modest.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        for ended in ended {
            ended.unwrap();
        }
    });
    (answered.into_inner(), refused.into_inner())
}

/// Waits for its turn and is never refused, because the greedy client gives up its places first.
fn modest(url: &str) {
    let caller = Caller::new(url);
    for _ in 0..CALLS {
        let result = caller.call();
        assert_eq!(result["content"][0]["text"], "hi", "{result}");
    }
}

/// The memory that a process uses, in bytes.
fn memory(gateway: &Gateway) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn no_client_of_32_starves_at_a_tool_limited_to_8_and_refusals_carry_a_time_to_retry() {
    let yard = Yard::new(&[]);
    let fixture = toml::Value::from(testkit::build("fixture").to_str().unwrap());
    yard.also(&format!(
        "[upstreams.fix]\ncommand = {fixture}\nargs = [\"--stdio\"]\n\
         [limits.eight]\nconcurrent = {AT_ONCE}\nqueue = {QUEUE}\nmax_wait = \"2m\"\n\
         [tools.\"fix:*\"]\nlimits = [\"eight\"]\ntimeout = \"3m\"\n"
    ));
    let gateway = yard.start();
    soon("the tool", || {
        let tools = gateway.tools();
        if tools.iter().any(|tool| tool == "fix__test_echo") { Ok(()) } else { Err(format!("{tools:?}")) }
    });
    let begun = Instant::now();
    let (answered, refused) = round(gateway.url());
    let before = memory(&gateway);
    let (answered_later, refused_later) = round(gateway.url());
    let growth = memory(&gateway).saturating_sub(before);
    let (answered, refused) = (answered + answered_later, refused + refused_later);
    assert!(answered > 0 && refused > 0, "greedy: {answered} answered, {refused} refused");
    assert!(growth < GROWTH, "the memory grew by {growth} bytes");
    let calls = u32::try_from((2 * MODEST * CALLS + answered) / AT_ONCE).unwrap();
    assert!(begun.elapsed() > TAKES * calls, "never more than {AT_ONCE} at once");
}

fn sleeping(yard: &Yard) -> Vec<String> {
    let lines = yard.processes().into_iter().map(|process| command_line(process.id));
    lines.filter(|line| line.starts_with("sleep")).collect()
}

/// A hook that starts a process in a session of its own, waits until it is there, and goes on with `then`.
fn hook(name: &str, then: &str) -> String {
    let script = format!(
        "(setsid sh -c 'trap \"\" TERM HUP; exec sleep 600' </dev/null >/dev/null 2>&1 &); touch {name}; {then}"
    );
    let script = toml::Value::from(script);
    format!(
        "[hooks.{name}]\non = \"pre_tool_call\"\nmatches = \"dev:{name}\"\ncommand = \"sh\"\nargs = [\"-c\", {script}]\n"
    )
}

#[test]
fn everything_that_a_hook_has_started_ends_with_it() {
    let yard = Yard::new(&[]);
    yard.also(&(hook("echo", "exec sleep 601") + "timeout = \"2s\"\n"));
    yard.also(&(hook("hash", "exec sleep 602") + "timeout = \"2s\"\non_failure = \"block\"\n"));
    yard.also(&hook("uuid", "echo no >&2; exit 2"));
    yard.also(&hook("time_now", "kill -9 $$"));
    yard.also(
        "[hooks.off]\non = \"pre_tool_call\"\ncommand = \"false\"\non_failure = \"block\"\nenabled = false\n",
    );
    let gateway = yard.start();
    for (tool, arguments, blocked) in [
        ("echo", json!({ "text": "hi" }), None),
        ("hash", json!({ "text": "hi" }), Some("hook `hash` blocked a call of dev:hash: the hook failed")),
        ("uuid", json!({}), Some("hook `uuid` blocked a call of dev:uuid: no")),
        ("time_now", json!({}), None),
    ] {
        let result = gateway.call(&format!("dev__{tool}"), &arguments);
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        match blocked {
            Some(reason) => assert!(text.starts_with(reason), "{tool}: {result}"),
            None => assert_ne!(result["isError"], true, "{tool}: {result}"),
        }
        assert!(yard.folder().join(tool).exists(), "the hook of {tool} ran");
        soon("the end of what the hook started", || none(&sleeping(&yard)));
    }
}

/// The point and the session of every event that a hook has received.
fn session_events(yard: &Yard) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(yard.folder().join("seen")).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events.map(|event| (text(&event, "point"), text(&event, "session"))).collect()
}

#[test]
fn hooks_learn_when_a_legacy_session_and_a_stdio_connection_begin_and_idle() {
    let yard = Yard::new(&[]);
    let script = toml::Value::from("event=$(cat); printf '%s\\n' \"$event\" >> seen");
    yard.also(&format!(
        "[hooks.seen]\non = [\"session_start\", \"session_idle\"]\ncommand = \"sh\"\nargs = [\"-c\", {script}]\n"
    ));
    let gateway = yard.start();
    let _session = http::open_session(gateway.url());
    let _client = Client::start(&yard);
    let of = |point: &str| {
        let all = session_events(&yard).into_iter().filter(|(one, _)| one == point);
        all.map(|(_, session)| session).collect::<std::collections::BTreeSet<_>>()
    };
    let both = |point: &str| {
        let sessions = of(point);
        if sessions.len() == 2 { Ok(sessions) } else { Err(format!("{:?}", session_events(&yard))) }
    };
    let begun = soon("both sessions begin", || both("session_start"));
    // A session is idle after a minute, which is checked every ten seconds.
    let idle = within(Duration::from_secs(110), "both sessions idle", || both("session_idle"));
    assert_eq!(begun, idle);
    assert_eq!(session_events(&yard).len(), 4, "each is reported once");
}
