//! Tasks of 2025-11-25, at every door for such clients.

use serde_json::{Value, json};
use toolyard_proto::Revision::V2025_11_25;

use crate::table::Example;

/// Checks the task methods of a 2025-11-25 client other than fetching the result: the definition of `tool` and the
/// server's capabilities declare tasks, and a task can be read, listed and, once it has ended, no longer cancelled.
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
        // The view of all upstreams does not list tasks and does not declare that it does.
        let listed: Value = client.call("tasks/list", json!({})).await.read().unwrap();
        let expected = if name.contains("undone") { Value::Null } else { json!([task]) };
        assert_eq!(listed["tasks"], expected, "{name}: {listed}");
    }
}
