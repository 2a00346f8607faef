//! The tools about instances, as the hub view lists them and as `yard` does. They differ in what is
//! remembered: a session of the hub view is connected, all other clients hold a handle.

use serde_json::{Value, json};
use toolyard_proto::Raw;

use super::schema;

pub(super) const LIST: &str = "instances_list";
pub(super) const CONNECT: &str = "instances_connect";
pub(super) const DISCONNECT: &str = "instances_disconnect";
pub(super) const HEALTH: &str = "instances_health";
pub(super) const CALL: &str = "instances_call";

/// The other name of each of these tools.
pub(crate) fn with_slash(name: &str) -> String {
    name.replacen('_', "/", 1)
}

/// The tools of the hub view.
pub(crate) fn hub_tools() -> Vec<Raw> {
    let connect = "Connects this session to an instance. From then on its tools, resources and prompts are listed and can be used under their own names, beside these tools. A session is connected to one instance at a time: connecting to another one switches.";
    let disconnect =
        "Disconnects this session from its instance, whose tools, resources and prompts leave the lists.";
    let call = "Calls a tool of an instance; the answer is that tool's own. Without `instance_id` it is the instance that this session is connected to.";
    vec![
        list(
            "Every dev-server instance that was found on this machine: its id, where it is, and the state of the connection to it. Give an id to `instances_connect`.",
        ),
        writing(CONNECT, "Connect to an instance", connect, &properties(&["instance_id"]), &["instance_id"]),
        writing(DISCONNECT, "Disconnect from the instance", disconnect, &properties(&[]), &[]),
        health(),
        writing(
            CALL,
            "Call a tool of an instance",
            call,
            &properties(&["instance_id", "tool", "arguments"]),
            &["tool"],
        ),
    ]
}

/// The instance tools of `yard`, which need no session.
pub(crate) fn yard_tools() -> Vec<Raw> {
    let connect = "Connects to an instance and returns a handle for `instances_call`. Only the caller can use the handle. It is valid until it is released, or for 1 hour after its last use. Lists do not change: the tools of every instance are listed under its id anyway.";
    let disconnect = "Releases a handle.";
    let call = "Calls a tool of an instance by its own name and returns that tool's own answer. `handle` or `instance_id` selects the instance.";
    let fields = properties(&["handle", "instance_id", "tool", "arguments"]);
    vec![
        list(
            "Every dev-server instance that was found on this machine: where it is, and the state of the connection to it. Their tools are listed under their ids.",
        ),
        writing(CONNECT, "Connect to an instance", connect, &properties(&["instance_id"]), &["instance_id"]),
        writing(DISCONNECT, "Release a handle", disconnect, &properties(&["handle"]), &["handle"]),
        health(),
        writing(CALL, "Call a tool of an instance", call, &fields, &["tool"]),
    ]
}

fn list(description: &str) -> Raw {
    let tool = tool(LIST, "Instances that were found", description, &properties(&[]), &[], true);
    tool.with("outputSchema", &schema::list().into())
}

fn health() -> Raw {
    let description = "Health of instances: whether each answers, how fast, how often it did not, and the last steps of its life with their reasons. Without `instance_id`, of all of them.";
    let tool = tool(HEALTH, "Health of instances", description, &properties(&["instance_id"]), &[], true);
    tool.with("outputSchema", &schema::health().into())
}

fn writing(name: &str, title: &str, description: &str, properties: &Value, required: &[&str]) -> Raw {
    tool(name, title, description, properties, required, false)
}

fn tool(
    name: &str,
    title: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
    read_only: bool,
) -> Raw {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let annotations = match name {
        // What the tool behind it does is not known here.
        CALL => json!({}),
        _ => json!({ "readOnlyHint": read_only, "destructiveHint": false, "openWorldHint": false }),
    };
    json!({
        "name": name, "title": title, "description": description, "inputSchema": schema, "annotations": annotations,
    })
    .into()
}

fn properties(names: &[&str]) -> Value {
    let all = json!({
        "instance_id": { "type": "string", "description": "As listed by `instances_list`" },
        "handle": { "type": "string", "description": "As `instances_connect` returned it" },
        "tool": { "type": "string", "description": "The tool's own name at the instance" },
        "arguments": { "type": "object", "description": "What the tool takes" },
    });
    names
        .iter()
        .map(|name| ((*name).to_owned(), all[*name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
