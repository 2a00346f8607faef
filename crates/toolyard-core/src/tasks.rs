//! Task ids that name their upstream: in views of many upstreams, `ID.task` is a task of upstream `ID`.

use toolyard_model::Origin;
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Raw};

pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// A result whose task ids name their upstream.
pub(crate) fn shown(id: &UpstreamId, result: &Raw) -> Raw {
    let places: [&[&str]; 3] = [&["taskId"], &["task", "taskId"], &["_meta", RELATED_TASK, "taskId"]];
    places.iter().fold(result.clone(), |result, path| {
        match result.at(path).and_then(|task| task.as_string()) {
            Some(task) => result.with_path(path, &Raw::from_serialize(&format!("{id}.{task}"))),
            None => result,
        }
    })
}

/// The upstream and its own id of a task. Ids of upstreams hold no dot.
pub(crate) fn own(shown: &str) -> Option<(&str, &str)> {
    shown.split_once('.')
}

/// Whether this client declares that it knows tasks.
pub(crate) fn declared(origin: &Origin) -> bool {
    origin.capabilities.len() > 2 && origin.capabilities.at(&["extensions", TASKS_EXTENSION]).is_some()
}

pub(crate) fn undeclared() -> CallError {
    let required = serde_json::json!({ "extensions": { TASKS_EXTENSION: {} } });
    CallError::missing_capability(
        required.into(),
        "this request needs the tasks extension among the client's capabilities",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_leads_back_to_its_upstream() {
        let id = UpstreamId::parse("a-b").unwrap();
        let result = Raw::parse(r#"{"resultType":"task","taskId":"x.y","n":1.0}"#).unwrap();
        let shown = shown(&id, &result);
        assert_eq!(shown.as_str(), r#"{"resultType":"task","taskId":"a-b.x.y","n":1.0}"#);
        assert_eq!(own("a-b.x.y"), Some(("a-b", "x.y")));
    }
}
