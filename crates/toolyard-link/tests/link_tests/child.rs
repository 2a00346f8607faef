//! Child processes as upstreams: tiny real programs, each with its own way of misbehaving.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use toolyard_link::child::ChildSpec;
use toolyard_link::{
    ConnectError, EraPin, Target, Timeouts, Trouble, UpstreamTarget, connect, connect_counterpart,
};
use toolyard_model::{Connected, Peer, Scope};
use toolyard_proto::{Era, Kind, Revision};

use crate::support::{call, closed, failed, offer, soon, whole};

/// A server in a few lines: `on(method, params)` gives a result, or raises.
const SERVER: &str = r#"
import json, os, signal, subprocess, sys, time
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def answer(id, result): say({"jsonrpc": "2.0", "id": id, "result": result})
def error(id, code): say({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
def hello(id): answer(id, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
def described(id): answer(id, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}})
def serve(on):
    for line in sys.stdin:
        m = json.loads(line)
        if "id" in m: on(m["id"], m["method"], m.get("params"))
"#;

fn python(script: &str) -> ChildSpec {
    let mut spec = ChildSpec::new("python3");
    spec.args = vec!["-c".into(), format!("{SERVER}{script}").into()];
    spec
}

fn target(spec: ChildSpec, era: EraPin) -> UpstreamTarget {
    let timeouts = Timeouts { probe: Duration::from_secs(5), ..Timeouts::default() };
    UpstreamTarget { name: "kid".into(), target: Target::Child(spec), era, timeouts }
}

async fn connect_child(scope: &Scope, spec: ChildSpec, era: EraPin) -> Result<Connected, ConnectError> {
    soon(connect(&target(spec, era), None, &offer(), scope)).await
}

/// Whether the process of that id is still there (a zombie is not).
fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

async fn gone(pid: u64) {
    soon(async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

const MODERN: &str = r#"
def on(id, method, params):
    if method == "server/discover": described(id)
    elif method == "tools/call": answer(id, {"pid": os.getpid()})
    else: error(id, -32601)
serve(on)
"#;

#[tokio::test]
async fn a_modern_child_is_discovered() {
    let scope = Scope::new();
    let connected = connect_child(&scope, python(MODERN), EraPin::Auto).await.unwrap();
    assert_eq!(connected.link.greeting().revision, Revision::NEWEST);
    assert!(connected.link.greeting().server_info.is_some());
    let pid =
        whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await)["pid"].as_u64().unwrap();
    soon(connected.link.close()).await;
    assert!(!is_alive(pid));
    drop(connected);
    soon(scope.end()).await;
}

const LEGACY: &str = r#"
say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
def on(id, method, params):
    if method == "initialize": hello(id)
    elif method == "tools/call": answer(id, {"pid": os.getpid()})
    else: error(id, -32601)
serve(on)
"#;

#[tokio::test]
async fn a_legacy_child_is_initialised_and_read_before_it_answers() {
    let scope = Scope::new();
    let mut connected = connect_child(&scope, python(LEGACY), EraPin::Auto).await.unwrap();
    assert_eq!(connected.link.greeting().revision, Revision::V2025_06_18);
    assert_eq!(connected.era(), Era::Legacy);
    let event = crate::support::next_event(&mut connected.events).await;
    assert!(format!("{event:?}").contains("list_changed"), "{event:?}");
}

#[tokio::test]
async fn a_remembered_era_spares_the_probe_and_a_wrong_one_is_forgotten() {
    let scope = Scope::new();
    let legacy = r#"
def on(id, method, params):
    if method == "initialize": hello(id)
    else: os._exit(9)
serve(on)
"#;
    let upstream = target(python(legacy), EraPin::Auto);
    let connected = soon(connect(&upstream, Some(Era::Legacy), &offer(), &scope)).await.unwrap();
    assert_eq!(connected.era(), Era::Legacy);
    let upstream = target(python(MODERN), EraPin::Auto);
    let connected = soon(connect(&upstream, Some(Era::Legacy), &offer(), &scope)).await.unwrap();
    assert_eq!(connected.era(), Era::Modern);
}

#[tokio::test]
async fn a_child_that_dies_on_the_probe_is_respawned_for_the_legacy_handshake() {
    let scope = Scope::new();
    let script = r#"
def on(id, method, params):
    if method == "initialize": hello(id)
    elif method == "server/discover": os._exit(3)
    else: answer(id, {})
serve(on)
"#;
    let connected = connect_child(&scope, python(script), EraPin::Auto).await.unwrap();
    assert_eq!(connected.era(), Era::Legacy);
    assert_eq!(whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await), json!({}));
}

#[tokio::test]
async fn a_child_that_ignores_the_probe_is_legacy() {
    let scope = Scope::new();
    let script = r#"
def on(id, method, params):
    if method == "initialize": hello(id)
serve(on)
"#;
    let mut upstream = target(python(script), EraPin::Auto);
    upstream.timeouts.probe = Duration::from_millis(300);
    let connected = soon(connect(&upstream, None, &offer(), &scope)).await.unwrap();
    assert_eq!(connected.era(), Era::Legacy);
}

#[tokio::test]
async fn a_child_that_exits_at_once_is_an_error_with_its_stderr_output() {
    let scope = Scope::new();
    let mut spec = ChildSpec::new("sh");
    spec.args = vec!["-c".into(), "echo 'no such database' >&2; exit 4".into()];
    let error = connect_child(&scope, spec, EraPin::Auto).await.unwrap_err();
    let expected = "upstream `kid` exited with status 4 before it answered: stderr: no such database; check that \
                    `command` and `args` start an MCP server";
    assert_eq!(error.to_string(), expected, "once, and with what to do");
    assert_eq!(error.trouble, Trouble::Gone);
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let scope = Scope::new();
    let error =
        connect_child(&scope, ChildSpec::new("no-such-program-here"), EraPin::Auto).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::CannotStart);
    assert!(error.to_string().contains("`no-such-program-here` was not found; install it"), "{error}");
}

#[tokio::test]
async fn a_pin_to_the_modern_era_refuses_a_legacy_child() {
    let scope = Scope::new();
    let error = connect_child(&scope, python(LEGACY), EraPin::Modern).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Incompatible);
}

#[tokio::test]
async fn a_child_that_dies_in_a_call_fails_it_with_its_status() {
    let scope = Scope::new();
    let script = r#"
def on(id, method, params):
    if method == "server/discover": described(id)
    else:
        sys.stderr.write("boom\n"); sys.stderr.flush(); os._exit(7)
serve(on)
"#;
    let mut connected = connect_child(&scope, python(script), EraPin::Auto).await.unwrap();
    let error = failed(soon(connected.link.call(call(1, json!({})), Peer::none())).await);
    assert_eq!(error.kind, Kind::Lost);
    assert!(error.to_string().contains("exited with status 7: stderr: boom"), "{error}");
    assert!(closed(&mut connected.events).await.contains("status 7"));
}

#[tokio::test]
async fn a_child_that_ignores_everything_is_killed_with_its_group() {
    let scope = Scope::new();
    let script = r#"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
kid = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
def on(id, method, params):
    if method == "server/discover": described(id)
    else: answer(id, {"pids": [os.getpid(), kid.pid]})
serve(on)
while True: time.sleep(60)
"#;
    let connected = connect_child(&scope, python(script), EraPin::Auto).await.unwrap();
    let pids = whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await)["pids"].clone();
    let started = Instant::now();
    soon(connected.link.close()).await;
    assert!(started.elapsed() < Duration::from_secs(8));
    for pid in pids.as_array().unwrap() {
        gone(pid.as_u64().unwrap()).await;
    }
}

#[tokio::test]
async fn a_scope_that_ends_takes_the_child_with_it() {
    let scope = Scope::new();
    let connected = connect_child(&scope, python(MODERN), EraPin::Auto).await.unwrap();
    let pid =
        whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await)["pid"].as_u64().unwrap();
    soon(scope.end()).await;
    gone(pid).await;
}

#[tokio::test]
async fn a_dropped_link_ends_its_child() {
    let scope = Scope::new();
    let connected = connect_child(&scope, python(MODERN), EraPin::Auto).await.unwrap();
    let pid =
        whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await)["pid"].as_u64().unwrap();
    drop(connected);
    gone(pid).await;
}

#[tokio::test]
async fn a_megabyte_on_stderr_does_no_harm() {
    let scope = Scope::new();
    let script = r#"
def on(id, method, params):
    if method == "server/discover": described(id)
    else:
        sys.stderr.write("x" * 1000000 + "\n"); sys.stderr.write("y\n" * 50000); sys.stderr.flush()
        answer(id, {"done": True})
serve(on)
"#;
    let connected = connect_child(&scope, python(script), EraPin::Auto).await.unwrap();
    assert_eq!(
        whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await),
        json!({"done": true})
    );
}

#[tokio::test]
async fn a_modern_child_that_is_slow_to_start_is_still_found_out() {
    let scope = Scope::new();
    let script = format!(
        "held = []\n{}",
        r#"
def on(id, method, params):
    held.append((id, method))
    if method == "initialize":
        for (id, method) in held:
            if method == "server/discover": described(id)
            else: error(id, -32601)
    elif method == "tools/call": answer(id, {})
serve(on)
"#
    );
    let mut upstream = target(python(&script), EraPin::Auto);
    upstream.timeouts.probe = Duration::from_millis(200);
    let connected = soon(connect(&upstream, None, &offer(), &scope)).await.unwrap();
    assert_eq!(connected.era(), Era::Modern);
    assert_eq!(whole(soon(connected.link.call(call(1, json!({})), Peer::none())).await), json!({}));
}

/// Speaks the era of its first message, and records each start in a file.
const DUAL: &str = r#"
open(sys.argv[1], "a").write("x")
time.sleep(float(sys.argv[2]))
era = None
def on(id, method, params):
    global era
    if era is None: era = "legacy" if method == "initialize" else "modern"
    if method == "initialize" and era == "legacy": hello(id)
    elif method == "server/discover" and era == "modern": described(id)
    else: error(id, -32601)
serve(on)
"#;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_that_has_not_read_the_probe_is_waited_for_and_started_once() {
    let (scope, folder) = (Scope::new(), tempfile::tempdir().unwrap());
    let starts = folder.path().join("starts");
    let mut spec = python(DUAL);
    spec.args.extend([starts.clone().into(), "1.5".into()]);
    let mut upstream = target(spec, EraPin::Auto);
    upstream.timeouts.probe = Duration::from_millis(200);
    for remembered in [None, Some(Era::Modern)] {
        let connected = soon(connect(&upstream, remembered, &offer(), &scope)).await.unwrap();
        assert_eq!(connected.era(), Era::Modern, "{remembered:?}");
    }
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "xx");
}

#[tokio::test]
async fn a_slow_restart_does_not_change_a_remembered_era() {
    let (scope, folder) = (Scope::new(), tempfile::tempdir().unwrap());
    let mut spec = python(DUAL);
    spec.args.extend([folder.path().join("starts").into(), "30".into()]);
    let mut upstream = target(spec, EraPin::Auto);
    upstream.timeouts.start = Duration::from_millis(500);
    let error = soon(connect(&upstream, Some(Era::Modern), &offer(), &scope)).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::NoAnswer);
    assert!(!error.means_one_era(), "{error}");
}

#[tokio::test]
async fn a_dual_child_has_a_link_of_each_era() {
    let (scope, folder) = (Scope::new(), tempfile::tempdir().unwrap());
    let starts = folder.path().join("starts");
    let mut spec = python(DUAL);
    spec.args.extend([starts.clone().into(), "0".into()]);
    let modern = soon(connect(&target(spec.clone(), EraPin::Auto), None, &offer(), &scope)).await.unwrap();
    let upstream = target(spec.clone(), EraPin::Auto);
    let legacy = soon(connect_counterpart(&upstream, &offer(), &scope)).await.unwrap();
    assert_eq!((modern.era(), legacy.era()), (Era::Modern, Era::Legacy));
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "xx");
    let pinned =
        soon(connect_counterpart(&target(spec, EraPin::Modern), &offer(), &scope)).await.unwrap_err();
    assert!(pinned.means_one_era(), "{pinned}");
    let upstream = target(python(MODERN), EraPin::Auto);
    let refused = soon(connect_counterpart(&upstream, &offer(), &scope)).await.unwrap_err();
    assert!(refused.means_one_era(), "{refused}");
}

#[tokio::test]
async fn a_child_that_leaves_its_output_to_another_is_gone_all_the_same() {
    let scope = Scope::new();
    let script = r#"
def on(id, method, params):
    if method == "server/discover": described(id)
    else:
        kid = subprocess.Popen(["sleep", "30"], start_new_session=True)
        sys.stderr.write("kid %d\n" % kid.pid); sys.stderr.flush(); os._exit(5)
serve(on)
"#;
    let connected = connect_child(&scope, python(script), EraPin::Auto).await.unwrap();
    let error = failed(soon(connected.link.call(call(1, json!({})), Peer::none())).await);
    assert_eq!(error.kind, Kind::Lost);
    assert!(error.to_string().contains("exited with status 5"), "{error}");
    let message = error.to_string();
    let kid = message.rsplit_once("kid ").unwrap().1.split(';').next().unwrap().parse().unwrap();
    // Processes in sessions of their own are left to the guard that a child runs under.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(kid), nix::sys::signal::Signal::SIGKILL);
}

#[tokio::test]
async fn a_program_of_a_pack_that_ignores_the_polite_signal_is_gone_after_its_grace() {
    let scope = Scope::new();
    let mut spec = ChildSpec::new("sh");
    spec.args = vec!["-c".into(), "trap '' TERM; echo ready; while :; do sleep 600; done".into()];
    spec.grace = Duration::from_millis(500);
    let mut child = toolyard_link::child::start(&spec, &scope).unwrap();
    let mut ready = [0; 6];
    tokio::io::AsyncReadExt::read_exact(&mut child.stdout, &mut ready).await.unwrap();
    let begun = Instant::now();
    child.handle.stop();
    child.handle.exited().await;
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
}
