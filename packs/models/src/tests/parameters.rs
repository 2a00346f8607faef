//! The parameters and defaults of the tools that callers of the `invoke_*` tools rely on.

use serde_json::{Value, json};

use super::config;

/// The required parameters, and the default of each other one.
fn check(tool: &str, required: &[&str], defaults: &Value) {
    let set = crate::pack().tools(config(json!({}))).unwrap();
    let schema = set.definition(tool).unwrap()["inputSchema"].clone();
    assert_eq!(schema["required"], json!(required), "{tool}");
    let properties = schema["properties"].as_object().unwrap();
    for (name, expected) in defaults.as_object().unwrap() {
        let found = properties.get(name).unwrap_or_else(|| panic!("{tool} has no `{name}`: {schema}"));
        assert_eq!(found.get("default").unwrap_or(&Value::Null), expected, "`{name}` of {tool}");
    }
    let unknown: Vec<&String> = properties
        .keys()
        .filter(|name| !required.contains(&name.as_str()) && defaults.get(name.as_str()).is_none())
        .collect();
    assert_eq!(unknown, Vec::<&String>::new(), "{tool}");
}

#[tokio::test]
async fn the_invoke_tools_have_their_documented_parameters_and_defaults() {
    let agent = json!({});
    check(
        "invoke_gemini",
        &["prompt"],
        &json!({
            "model": "gemini-3-flash", "temperature": 0.7, "max_tokens": 8192, "thinking_budget": 0,
            "agent_context": agent,
        }),
    );
    check(
        "invoke_gemini_agentic",
        &["prompt"],
        &json!({ "model": "gemini-3-flash", "max_turns": 10, "timeout": 120, "agent_context": agent, "tools": null }),
    );
    check(
        "invoke_openai",
        &["prompt"],
        &json!({
            "model": "gpt-5.2", "temperature": 0.7, "max_tokens": 4096, "thinking_budget": 0,
            "reasoning_effort": "medium", "agent_context": agent,
        }),
    );
}

#[tokio::test]
async fn the_agent_context_names_agent_task_and_description_and_efforts_are_those_of_openai() {
    let set = crate::pack().tools(config(json!({}))).unwrap();
    let schema = set.definition("invoke_openai").unwrap()["inputSchema"].to_string();
    for name in ["agent_type", "task_id", "description", "\"low\"", "\"medium\"", "\"high\""] {
        assert!(schema.contains(name), "{name}: {schema}");
    }
}
