//! The HTTP status of a modern server's error is never passed on to a legacy client, which would take it for the end
//! of its session.

use serde_json::{Value, json};
use toolyard_proto::Revision;
use toolyard_serve::Options;

use crate::world::{Reach, World};

#[tokio::test]
async fn no_status_of_a_modern_server_reaches_a_legacy_client() {
    let world = World::open(Revision::NEWEST, Reach::Http, Options::default()).await;
    for revision in
        [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25]
    {
        let client = world.client(revision).await;
        for (status, code) in [
            (404, Some(-32601)),
            (404, None),
            (400, Some(-32602)),
            (400, Some(-32020)),
            (400, Some(-32021)),
            (400, Some(-32022)),
            (400, None),
            (401, None),
            (403, None),
            (500, None),
            (503, None),
        ] {
            let arguments = json!({ "status": status, "code": code });
            let answer = client.ask("tools/call", json!({ "name": "status", "arguments": arguments })).await;
            let is_error = match &answer {
                Ok(result) => result["isError"] == true,
                Err(error) => {
                    error["code"].as_i64().is_some_and(|code| ![-32020, -32021, -32022].contains(&code))
                }
            };
            assert!(is_error, "{revision} {status} {code:?}: {answer:?}");
        }
        assert_eq!(client.wrong(), Vec::<String>::new(), "{revision}");
        let result: Value = client.ask("ping", json!({})).await.unwrap();
        assert_eq!(result, json!({}), "its session is still there");
    }
}
