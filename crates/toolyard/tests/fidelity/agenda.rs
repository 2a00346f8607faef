//! The requests to a server: everything it lists, with arguments that make sense, and a few things that no
//! list names.

use std::path::Path;

use serde_json::{Value, json};

use super::gateway::Reach;
use super::program::Program;
use super::wire::{Era, Request};
use super::{Over, fixture};

/// A server to compare with itself.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Sockets are made in the folder.
    pub(crate) start: fn(Over, Era, &Path) -> (Option<Program>, Reach),
    /// By tool: `arguments`, or several for several calls. Tools without required arguments need none.
    pub(crate) tools: fn() -> Value,
    /// By prompt: `arguments`.
    pub(crate) prompts: fn() -> Value,
    /// Resources that only a template describes.
    pub(crate) from_templates: &'static [&'static str],
    pub(crate) others: fn(Era) -> Vec<Request>,
    /// Whether its log messages depend only on the requests.
    pub(crate) logs_are_steady: bool,
    /// Texts that precede something that differs from run to run: a time, or a seal made with a random key.
    pub(crate) unsteady: &'static [&'static str],
    /// Questions that it asks at arbitrary times, so that any call may be under way then.
    pub(crate) asks_by_itself: &'static [&'static str],
    /// Answers that must contain certain bytes: a server made of the gateway's own parts could share its faults.
    pub(crate) known: &'static [(&'static str, &'static str)],
}

pub(crate) const TASK_TIMES: &[&str] = &[r#""createdAt":""#, r#""lastUpdatedAt":""#];

pub(crate) const FIXTURE: Subject = Subject {
    name: "the fixture",
    start: start_fixture,
    tools: fixture_tools,
    prompts: || {
        json!({
            "test_prompt_with_arguments": { "arg1": "one", "arg2": "zwei ü" },
            "test_prompt_with_embedded_resource": { "resourceUri": "test://static-text" },
        })
    },
    from_templates: &["test://template/7/data", "test://template/a%20b/data"],
    others: fixture_others,
    logs_are_steady: true,
    // Its tasks contain their start time, and a call that waits for its client is identified by a random key.
    unsteady: &[TASK_TIMES[0], TASK_TIMES[1], r#""requestState":"yard-"#],
    asks_by_itself: &[],
    known: &[
        ("test_unknown_fields 0", r#""vendor":{"kept":[1.5,1e-7,null]}"#),
        (
            "test_unknown_fields 0",
            r#""structuredContent":{"b":1,"a":{"nested":[]}},"vendorField":9007199254740993"#,
        ),
        ("test_unknown_fields 0", r#""_meta":{"com.example/trace":{"id":"abc"}"#),
        ("test_structured 0", r#""structuredContent":{"text":"ü and 🦀","length":7}"#),
        ("test_error_handling 0", r#""isError":true"#),
    ],
};

fn start_fixture(over: Over, era: Era, folder: &Path) -> (Option<Program>, Reach) {
    let era = if era == Era::Legacy { "legacy" } else { "modern" };
    let socket = folder.join("fixture.sock");
    let (arguments, path) = match over {
        Over::Stdio => return (None, fixture::fixture_child(era)),
        Over::Http => (["--listen", "127.0.0.1:0"], "/mcp"),
        Over::Sse => (["--listen", "127.0.0.1:0"], "/sse"),
        Over::Tcp => (["--tcp", "127.0.0.1:0"], ""),
        Over::Unix => (["--unix", socket.to_str().unwrap()], ""),
    };
    let (program, origin) = fixture::serve_fixture_at(&arguments, era);
    (Some(program), Reach::Url(format!("{origin}{path}")))
}

fn fixture_tools() -> Value {
    json!({
        "test_structured": { "text": "ü and \u{1F980}" },
        "test_echo": [{ "text": "at once" }, { "text": "later", "delayMs": 20 }],
        "json_schema_2020_12_tool": { "name": "a", "contactMethod": "phone", "phone": "1" },
        "test_x_mcp_header": { "region": "eu west" },
        "test_sampling": { "prompt": "What would a model say?" },
        "test_elicitation": { "message": "Who are you?" },
        "greet": { "name": "Ada" },
        "slow_compute": { "seconds": 0, "label": "nothing" },
        "confirm_delete": { "filename": "a.txt" },
    })
}

fn fixture_others(era: Era) -> Vec<Request> {
    let mut others = vec![
        complete("ref/prompt", "name", "test_prompt_with_arguments", "arg1", "par"),
        complete("ref/resource", "uri", "test://template/{id}/data", "id", "1"),
        Request::new("missing", "resources/read", json!({ "uri": "test://missing" })),
    ];
    if era == Era::Legacy {
        others.extend(legacy_others("test://watched-resource"));
    }
    others
}

/// Requests of sessions only.
pub(crate) fn legacy_others(resource: &str) -> Vec<Request> {
    vec![
        Request::new("level", "logging/setLevel", json!({ "level": "info" })),
        Request::new("ping", "ping", json!({})),
        Request::new("subscribe", "resources/subscribe", json!({ "uri": resource })),
        Request::new("unsubscribe", "resources/unsubscribe", json!({ "uri": resource })),
    ]
}

pub(crate) fn complete(kind: &str, key: &str, name: &str, argument: &str, value: &str) -> Request {
    let params = json!({
        "ref": { "type": kind, key: name },
        "argument": { "name": argument, "value": value },
    });
    Request::new(format!("complete {argument} of {name}"), "completion/complete", params)
}

/// Everything to ask a server whose lists are these.
pub(crate) fn agenda(subject: &Subject, era: Era, lists: &[Vec<Value>; 4]) -> Vec<Request> {
    let [tools, resources, _, prompts] = lists;
    let mut agenda = (subject.others)(era);
    let listed = resources.iter().map(|resource| resource["uri"].as_str().unwrap());
    agenda.extend(listed.chain(subject.from_templates.iter().copied()).map(read));
    let arguments = (subject.prompts)();
    agenda.extend(prompts.iter().map(|prompt| get(prompt["name"].as_str().unwrap(), &arguments)));
    let arguments = (subject.tools)();
    agenda.extend(tools.iter().flat_map(|tool| calls(tool, &arguments)));
    agenda
}

fn read(uri: &str) -> Request {
    Request::new(uri, "resources/read", json!({ "uri": uri }))
}

fn get(name: &str, arguments: &Value) -> Request {
    let mut params = json!({ "name": name });
    if let Some(arguments) = arguments.get(name) {
        params["arguments"] = arguments.clone();
    }
    Request::new(name, "prompts/get", params)
}

fn calls(tool: &Value, arguments: &Value) -> Vec<Request> {
    let name = tool["name"].as_str().unwrap();
    let required = tool["inputSchema"]["required"].as_array().is_some_and(|names| !names.is_empty());
    assert!(!required || arguments.get(name).is_some(), "give {name} some arguments: {tool}");
    let several = match arguments.get(name) {
        Some(Value::Array(several)) => several.clone(),
        Some(one) => vec![one.clone()],
        None => vec![json!({})],
    };
    several.iter().enumerate().map(|(at, one)| call(tool, &format!("{name} {at}"), one)).collect()
}

fn call(tool: &Value, label: &str, arguments: &Value) -> Request {
    let mut params = json!({ "name": tool["name"], "arguments": arguments });
    if tool["execution"]["taskSupport"] == "required" {
        params["task"] = json!({ "ttl": 60_000 });
    }
    let mut request = Request::new(label, "tools/call", params);
    for (argument, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
        if let (Some(header), Some(value)) = (property["x-mcp-header"].as_str(), arguments[argument].as_str())
        {
            request.headers.push((format!("mcp-param-{header}"), value.to_owned()));
        }
    }
    request
}
