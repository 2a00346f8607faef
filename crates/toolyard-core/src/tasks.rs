//! Task ids that name their upstream: in views of many upstreams, `ID.task` is a task of upstream `ID`. Where there are
//! several gateways, `ID.@yard-GATEWAY.task` also names the one that the client called, so that each finds the task.

use toolyard_model::Origin;
use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Raw};

pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Before the gateway that the client called.
const GATEWAY: &str = "@yard-";

/// The id of a task as the client knows it.
pub(crate) fn name(id: &UpstreamId, origin: &Origin, task: &str) -> String {
    match origin.called.as_deref().filter(|_| !origin.is_relayed) {
        Some(gateway) => format!("{id}.{GATEWAY}{gateway}.{task}"),
        None => format!("{id}.{task}"),
    }
}

/// A result whose task ids name their upstream.
pub(crate) fn shown(id: &UpstreamId, origin: &Origin, result: &Raw) -> Raw {
    let places: [&[&str]; 3] = [&["taskId"], &["task", "taskId"], &["_meta", RELATED_TASK, "taskId"]];
    places.iter().fold(result.clone(), |result, path| {
        match result.at(path).and_then(|task| task.as_string()) {
            Some(task) => result.with_path(path, &Raw::from_serialize(&name(id, origin, &task))),
            None => result,
        }
    })
}

/// The upstream and its own id of a task. Ids of upstreams hold no dot.
pub(crate) fn own(shown: &str) -> Option<(&str, &str)> {
    let (id, task) = shown.split_once('.')?;
    let marked = task.strip_prefix(GATEWAY).and_then(|rest| rest.split_once('.'));
    Some((id, marked.map_or(task, |(_, task)| task)))
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
    use toolyard_model::{ClientKey, Principal, View};
    use toolyard_proto::Revision;

    use super::*;

    #[test]
    fn a_task_id_leads_back_to_its_upstream() {
        let id = UpstreamId::parse("a-b").unwrap();
        let result = Raw::parse(r#"{"resultType":"task","taskId":"x.y","n":1.0}"#).unwrap();
        let origin = Origin::new(View::Everything, Principal::local(), ClientKey::Gateway, Revision::NEWEST);
        let alone = shown(&id, &origin, &result);
        assert_eq!(alone.as_str(), r#"{"resultType":"task","taskId":"a-b.x.y","n":1.0}"#);
        assert_eq!(own("a-b.x.y"), Some(("a-b", "x.y")));
        let one_of_several = origin.with_called(Some("gw".into()));
        assert_eq!(name(&id, &one_of_several, "x.y"), "a-b.@yard-gw.x.y");
        assert_eq!(own("a-b.@yard-gw.x.y"), Some(("a-b", "x.y")));
        assert_eq!(name(&id, &one_of_several.with_relayed(true), "x.y"), "a-b.x.y");
    }
}
