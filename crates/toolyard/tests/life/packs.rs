//! Child processes of packs, with the test as the gateway that hosts them: they end with whatever owns them, and with
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use toolyard_guard::{Guard, Guards};
use toolyard_host::{HostSettings, Hosts};
use toolyard_tool::host::{Child, ChildCommand};
use toolyard_tool::{Host, Pack, ToolSet};

use crate::yard::{Yard, none, soon};

/// A child with a grandchild in a session of its own that ignores TERM; then the line `up`.
const WITH_GRANDCHILD: &str = "\
    (setsid sh -c 'trap \"\" TERM; exec sleep 600' </dev/null >/dev/null 2>&1 &)
    sleep 0.1; echo up; exec sleep 600";

fn hosts(yard: &Yard) -> Hosts {
    let guard = Guard {
        program: env!("CARGO_BIN_EXE_toolyard").into(),
        title: "toolyard".into(),
        args: vec!["guard".into(), std::process::id().to_string().into()],
        env: vec![(yard.mark().into(), "1".into())],
    };
    Hosts::new(HostSettings { guard: Some(guard), ..HostSettings::default() })
}

async fn start(host: &Host, script: &str) -> Child {
    let mut child = host.child(ChildCommand::new("sh").arg("-c").arg(script)).await.unwrap();
    let mut line = String::new();
    BufReader::new(&mut child.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "up\n");
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_a_pack_survives_the_death_of_another_guard_and_ends_with_its_owner() {
    let _guards = Guards::begin(None);
    let (yard, other) = (Yard::new(&[]), Yard::new(&[]));
    let (hosts, others) = (hosts(&yard), hosts(&other));
    let (host, another) = (hosts.host("code"), others.host("music"));
    let mut child = start(&host, WITH_GRANDCHILD).await;
    let victim = start(&another, WITH_GRANDCHILD).await;
    let running = yard.processes();
    assert_eq!(running.len(), 3, "a guard, a child and a grandchild");
    let listed = hosts.to_json();
    assert_eq!(listed[0]["children"][0], json!({ "program": "sh", "pid": child.control.pid() }));

    let guard = Pid::from_raw(i32::try_from(victim.control.pid()).unwrap());
    kill(guard, Signal::SIGKILL).unwrap();
    soon("the end of what the killed guard left", || none(&other.left_of(&other.processes())));
    assert_eq!(yard.left_of(&running).len(), 3, "another guard is none of its business");

    tokio::time::timeout(Duration::from_secs(10), child.control.stop()).await.unwrap();
    assert_eq!(yard.left_of(&running), Vec::<String>::new());
    drop(child);
    assert_eq!(hosts.to_json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_child_or_ending_its_pack_ends_all_that_it_started() {
    let _guards = Guards::begin(None);
    let yard = Yard::new(&[]);
    let hosts = hosts(&yard);
    let host = hosts.host("code");
    drop(start(&host, WITH_GRANDCHILD).await);
    soon("the end of a dropped child", || none(&yard.left_of(&yard.processes())));

    let pack = Pack::with_host("code", "Runs.", |_: Nothing, _| ToolSet::new("code", "1"));
    let set = Arc::new(pack.tools_in(json!({}), host.clone()).unwrap());
    let child = start(&host, WITH_GRANDCHILD).await;
    // A reload drops the set while background work still holds the child.
    host.spawn("holds", async move {
        let _child = child;
        std::future::pending::<()>().await;
    });
    assert_eq!(host.running(), ["holds"]);
    drop(set);
    soon("the end of a pack that was replaced", || none(&yard.left_of(&yard.processes())));
    assert_eq!(host.running(), Vec::<String>::new());
}

#[derive(serde::Deserialize, toolyard_tool::schemars::JsonSchema)]
#[schemars(crate = "toolyard_tool::schemars")]
struct Nothing {}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_status_and_environment_are_those_of_the_program() {
    let _guards = Guards::begin(None);
    let yard = Yard::new(&[]);
    let host = hosts(&yard).host("code");
    let command = ChildCommand::new("sh").arg("-c").arg("cat; echo \"$SET $HOME\" >&2; exit 7");
    let mut child = host.child(command.env("SET", "set").inherit_only(["LANG"])).await.unwrap();
    child.stdin.write_all(b"in").await.unwrap();
    drop(std::mem::replace(&mut child.stdin, Box::new(tokio::io::sink())));
    let (mut out, mut words) = (String::new(), String::new());
    child.stdout.read_to_string(&mut out).await.unwrap();
    child.stderr.read_to_string(&mut words).await.unwrap();
    assert_eq!((out.as_str(), words.as_str()), ("in", "set \n"));
    assert_eq!(child.control.wait().await.unwrap(), Some(7));
    let missing = host.child(ChildCommand::new("no-such-program")).await.unwrap_err();
    assert_eq!(missing.to_string(), "program `no-such-program` was not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_a_project_runs_only_where_the_project_is_trusted() {
    let project = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(project.path()).unwrap();
    let trusted = root.clone();
    let trusting = Hosts::new(HostSettings {
        trusts: Box::new(move |project| project.starts_with(&trusted)),
        ..HostSettings::default()
    });
    let (host, careful) = (trusting.host("code"), Hosts::new(HostSettings::default()).host("code"));
    let command = || ChildCommand::new("sh").arg("-c").arg("exit 0").runs_code_of(&root);
    let refused = careful.child(command()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().ends_with(&format!("run `toolyard trust {}`", root.display())), "{refused}");
    assert!(!careful.trusts(&root) && host.trusts(&root));
    assert_eq!(host.child(command()).await.unwrap().control.wait().await.unwrap(), Some(0));
}
