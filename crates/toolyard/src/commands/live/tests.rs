//! The end of a gateway that was started for a single command.

use std::sync::{LazyLock, mpsc};
use std::thread;

use tokio::sync::{oneshot, watch};
use toolyard_core::Plan;
use toolyard_tool::{Pack, ToolSet, tool};

use super::*;
use crate::packs::PackState;
use crate::plan::pack_plan;

/// What the tool of the pack below has got to.
static REACHED: LazyLock<watch::Sender<u32>> = LazyLock::new(|| watch::Sender::new(0));

/// Writes what must not be left half written.
#[tool]
fn write() {
    REACHED.send_replace(1);
    thread::sleep(Duration::from_millis(500));
    REACHED.send_replace(2);
}

/// A client of a gateway with a pack that writes.
fn client() -> Client {
    let pack: &'static Pack =
        Box::leak(Box::new(Pack::new("writer", "Writes.", || ToolSet::new("writer", "1").with::<write>())));
    let scope = Scope::new();
    let context = ConnectContext::new(None, scope.child());
    let upstreams = pack_plan(PackState { pack, config: Ok(json!({})) }, &context).into_iter().collect();
    let gateway = Gateway::start(Plan { upstreams, ..Plan::default() }, &scope);
    Client::new(Way::Own(gateway, context.packs().clone()), scope)
}

#[tokio::test]
async fn a_write_that_a_pack_has_begun_is_finished_before_an_interrupted_command_ends() {
    let client = client();
    let params = json!({ "name": "write", "arguments": {} }).into();
    let view = View::Upstream("writer".into());
    let mut reached = REACHED.subscribe();
    tokio::select! {
        _ = client.request(&view, Method::TOOLS_CALL, &params, None, Peer::none()) => panic!("it takes its time"),
        begun = reached.wait_for(|reached| *reached == 1) => drop(begun.unwrap()),
    }
    client.end().await;
    assert_eq!(*REACHED.borrow(), 2, "the file is written although no caller waits for the answer");
}

#[test]
fn a_function_that_does_not_end_keeps_no_command_from_ending() {
    let (release, released) = mpsc::channel::<()>();
    let begun = std::time::Instant::now();
    block_on(async {
        let (begins, has_begun) = oneshot::channel();
        let function = move || {
            begins.send(()).unwrap();
            let _ = released.recv_timeout(Duration::from_secs(20));
        };
        drop(tokio::task::spawn_blocking(function));
        has_begun.await.unwrap();
    })
    .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(release);
}
