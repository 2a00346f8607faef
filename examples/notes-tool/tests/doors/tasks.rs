//! Tasks of 2025-11-25, asked after at every door that such clients come through.

use serde_json::{Value, json};
use toolyard_proto::Revision::V2025_11_25;

use crate::table::Example;

/// What a 2025-11-25 client does with a task beside fetching its result: `tool` says that it can be one, the server
/// that it has tasks, and a task can be asked after, listed and, once it is over, not cancelled any more.
pub(crate) async fn check_that_tasks_can_be_asked_after(example: &'static Example, tool: &str) {
    for (name, open, revision) in example.doors().filter(|(_, _, revision)| *revision == V2025_11_25) {
        let client = &mut *open(example, revision).await;
        let params = json!({ "name": tool, "arguments": {}, "task": { "ttl": 60_000 } });
        let made: Value = client.call("tools/call", params).await.read().unwrap();
        let about = json!({ "taskId": made["task"]["taskId"] });
        let result: Value = client.call("tasks/result", about.clone()).await.read().unwrap();
        assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], about, "{name}: {result}");
        let task: Value = client.call("tasks/get", about.clone()).await.read().unwrap();
        assert_eq!(
            (&task["status"], &task["taskId"]),
            (&json!("completed"), &about["taskId"]),
            "{name}: {task}"
        );
        assert!(task["ttl"].is_number() && task["createdAt"].is_string(), "{name}: {task}");
        let refused: Value = client.call("tasks/cancel", about).await.read().unwrap();
        assert_eq!(refused["error"]["code"], -32602, "{name}: {refused}");
        // Where everything is shown, tasks are not listed, and nobody says that they are.
        let listed: Value = client.call("tasks/list", json!({})).await.read().unwrap();
        let expected = if name.contains("undone") { Value::Null } else { json!([task]) };
        assert_eq!(listed["tasks"], expected, "{name}: {listed}");
    }
}
