//! If an upstream refuses the way in which we sent a request, the gateway fixes that and sends it again, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use toolyard_core::Gateway;
use toolyard_model::AnswerBody;
use toolyard_proto::{CallError, Fault, Method, Revision};

use crate::support::{Behaviour, Client, Double, echo, gateway};

const NEW: Revision = Revision::NEWEST;

fn refused(error: CallError) -> CallError {
    error.with_origin(Fault::Upstream)
}

fn calls(double: &Double) -> usize {
    let is_call = |(method, _): &&(Method, _)| *method == Method::TOOLS_CALL;
    double.seen.lock().iter().filter(is_call).count()
}

/// Wants the parameter `region` in a header.
fn picky() -> Arc<Double> {
    let echo = echo();
    let behaviour: Behaviour = Arc::new(move |request, peer| {
        let region = request.headers.as_ref().and_then(|headers| headers.get("mcp-param-region"));
        if request.method == Method::TOOLS_CALL && region.is_none_or(|region| region != "eu") {
            return Box::pin(async {
                Err(refused(CallError::header_mismatch("Mcp-Param-Region is required")))
            });
        }
        echo(request, peer)
    });
    Double::with(NEW, &["t"], behaviour)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_headers_are_refused_is_made_again_by_the_latest_definition() {
    let double = picky();
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    // It does not announce the change.
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    let schema = json!({ "type": "object", "properties": { "region": region } });
    *double.tools.lock() = vec![json!({ "name": "t", "inputSchema": schema })];
    let result = client.call("a__t", json!({ "region": "eu" })).await.unwrap();
    assert!(result["isError"].is_null(), "{result}");
    assert_eq!(calls(&double), 2);
    // The catalog takes the new definition over in its own time.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    client.call("a__t", json!({ "region": "eu" })).await.unwrap();
    assert_eq!(calls(&double), 3, "from then on it is right at once");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_twice_is_turned_away() {
    let double = picky();
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let result = client.call("a__t", json!({ "region": "eu" })).await.unwrap();
    assert_eq!(result["_meta"]["dev.toolyard/error"]["kind"], "turned-away", "{result}");
    assert_eq!(calls(&double), 2);
}

/// Before the newest revision these numbers mean whatever a server likes, also after it has done the work.
#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_never_asked_twice() {
    let behaviour: Behaviour = Arc::new(|request, _| {
        let is_call = request.method == Method::TOOLS_CALL;
        let error = CallError::header_mismatch("the tool's own number");
        Box::pin(
            async move { if is_call { Err(refused(error)) } else { Err(CallError::unknown_method("x")) } },
        )
    });
    let double = Double::with(Revision::V2025_11_25, &["t"], behaviour);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(calls(&double), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_version_is_refused_is_made_again_after_a_reconnect() {
    let (other, echo) = (Arc::new(AtomicBool::new(false)), echo());
    let own = other.clone();
    let behaviour: Behaviour = Arc::new(move |request, peer| {
        if own.load(Ordering::SeqCst) {
            return Box::pin(async { Err(refused(CallError::unsupported_version(NEW.as_str()))) });
        }
        echo(request, peer)
    });
    let double = Double::with(NEW, &["t"], behaviour);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    // On this link it answers nothing any more; on the next one both sides know the version.
    other.store(true, Ordering::SeqCst);
    double.mute.store(true, Ordering::SeqCst);
    let call = client.send("tools/call", json!({ "name": "a__t", "arguments": {} }));
    let reconnect = async {
        gateway_has_lost(&gateway).await;
        other.store(false, Ordering::SeqCst);
        double.mute.store(false, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(call, reconnect);
    let AnswerBody::Whole(result, _) = answer.unwrap() else { panic!("nothing streams here") };
    assert!(result.member("isError").is_none(), "{result:?}");
    assert_eq!((calls(&double), double.connects.load(Ordering::SeqCst)), (2, 2));
}

async fn gateway_has_lost(gateway: &Gateway) {
    while gateway.upstreams()[1].state().phase.as_str() == "active" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
