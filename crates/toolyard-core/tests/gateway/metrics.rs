//! The metrics: what is counted, under which labels, and that clients cannot add series.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolyard_model::{ClientKey, Handler, Origin, Principal, Transport, View};
use toolyard_proto::{CallError, Revision};

use crate::api::get;
use crate::support::{Behaviour, Client, Double, gateway};

const NEW: Revision = Revision::NEWEST;

#[tokio::test(start_paused = true)]
async fn metrics_count_calls_by_upstream_and_ignore_invented_names() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for number in 0..100 {
        let _ = client.call(&format!("invented_{number}"), json!({})).await;
    }
    client.call("files__read", json!({})).await.unwrap();
    let metrics = get(&gateway, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(!metrics.contains("invented"), "{metrics}");
    let count = |line: &str| metrics.lines().filter(|one| one.starts_with(line)).count();
    assert_eq!(count("mcp_server_operation_duration_seconds_count{"), 2, "{metrics}");
    let line = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",\
        gen_ai_operation_name=\"execute_tool\",mcp_protocol_version=\"2026-07-28\",upstream=\"files\"} 1";
    assert_eq!(count(line), 1, "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_labels_and_the_session_durations_of_the_conventions() {
    let fails: Behaviour = Arc::new(|_, _| {
        let error = json!({ "code": -32602, "message": "no" });
        Box::pin(async move { Err(CallError::reported(error.into())) })
    });
    let (old, failing) = (Double::new(Revision::V2025_06_18, &["read"]), Double::with(NEW, &["fail"], fails));
    let gateway = gateway(&[("old", &old), ("failing", &failing)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    client.call("old__read", json!({})).await.unwrap();
    client.call("failing__fail", json!({})).await.unwrap_err();
    failing.hang_up("gone");
    let principal = Principal::local();
    let session = ClientKey::Session("one".into());
    let origin = Origin::new(View::Everything, principal, session.clone(), Revision::V2025_11_25);
    let origin = Arc::new(origin.with_transport(Some(Transport::Unix)));
    gateway.began(&origin);
    tokio::time::sleep(Duration::from_secs(3)).await;
    gateway.ended(&session);
    let metrics = get(&gateway, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    let call = "mcp_method_name=\"tools/call\",gen_ai_operation_name=\"execute_tool\"";
    for line in [
        format!(
            "mcp_client_operation_duration_seconds_count{{{call},mcp_protocol_version=\"2025-06-18\",upstream=\"old\"}} 1"
        ),
        format!(
            "mcp_client_operation_duration_seconds_count{{{call},error_type=\"-32602\",\
             mcp_protocol_version=\"2026-07-28\",upstream=\"failing\"}} 1"
        ),
        "mcp_server_session_duration_seconds_sum{mcp_protocol_version=\"2025-11-25\",network_transport=\"unix\"} 3"
            .to_owned(),
        "mcp_client_session_duration_seconds_count{mcp_protocol_version=\"2026-07-28\",error_type=\"lost\",\
         upstream=\"failing\"} 1"
            .to_owned(),
    ] {
        assert!(metrics.lines().any(|one| one.starts_with(&line)), "{line} is missing in {metrics}");
    }
}
