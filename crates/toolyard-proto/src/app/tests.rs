//! Lines in, messages out; tools in, catalog entries out; answers in, results out.

use serde_json::{Value, json};

use super::*;
use crate::name::UpstreamId;

fn raw(value: Value) -> Raw {
    value.into()
}

fn parse(line: &str) -> Result<AppMessage, Misread> {
    AppMessage::parse(&Bytes::copy_from_slice(line.as_bytes()))
}

#[test]
fn messages_of_existing_apps_are_read() {
    let line = r#"{"type":"register","appName":"WatchTower","tools":[{"name":"WatchTower:ClickElement"}]}"#;
    let AppMessage::Register(register) = parse(line).unwrap() else { panic!("{line}") };
    assert_eq!((register.app.as_str(), register.tools.len(), register.version), ("WatchTower", 1, None));
    let line = r#"{"type":"toolResponse","correlationId":9007199254740993,"result":{"success":true,"data":null,"error":null}}"#;
    let AppMessage::Response(response) = parse(line).unwrap() else { panic!("{line}") };
    assert_eq!(response.id, 9_007_199_254_740_993);
    assert!(response.result.is_some());
}

#[test]
fn additions_are_read_and_what_is_unknown_is_ignored() {
    let line = r#"{"type":"register","appId":"a","authToken":"t","sessionId":"s","version":1,"pid":7}"#;
    let expected = Register {
        app: "a".into(),
        auth_token: Some("t".into()),
        session: Some("s".into()),
        version: Some(1),
        pid: Some(7),
        ..Register::default()
    };
    assert_eq!(parse(line), Ok(AppMessage::Register(expected)));
    for (line, expected) in [
        (r#"{"type":"heartbeat","appId":"a"}"#, AppMessage::Heartbeat { is_answer: false }),
        (r#"{"type":"heartbeat","answer":true}"#, AppMessage::Heartbeat { is_answer: true }),
        (r#"{"type":"unregister"}"#, AppMessage::Unregister),
        (r#"{"type":"toolsChanged","tools":[{}]}"#, AppMessage::ToolsChanged(vec![Raw::empty_object()])),
        (r#"{"type":"dance"}"#, AppMessage::Unknown("dance".into())),
        ("{}", AppMessage::Unknown(String::new())),
        (
            r#"{"type":"toolPartial","correlationId":7,"content":"so far"}"#,
            AppMessage::Partial(Partial {
                id: 7,
                content: raw(json!([{ "type": "text", "text": "so far" }])),
            }),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, AppMessage::JsonRpc("initialize".into())),
    ] {
        assert_eq!(parse(line), Ok(expected), "{line}");
    }
}

#[test]
fn the_error_for_an_invalid_line_states_what_is_wrong() {
    for (line, expected) in [
        ("GET / HTTP/1.1", "a line is not JSON"),
        ("[1]", "a message must be a JSON object"),
        (r#"{"type":"register"}"#, "`register` needs `appName`"),
        (r#"{"type":"register","appName":"a","tools":{}}"#, "`register` needs `tools`: an array"),
        (r#"{"type":"toolResponse","correlationId":"1"}"#, "`toolResponse` needs `correlationId`"),
        (r#"{"type":"progress","correlationId":1}"#, "`progress` needs `progress`"),
    ] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{line}: {error}");
    }
}

#[test]
fn a_message_to_an_app_is_one_line_of_json() {
    let read = |line: Bytes| serde_json::from_slice::<Value>(&line).unwrap();
    let tool = raw(json!("WatchTower:Click"));
    let sent = read(invocation(i64::MAX, &tool, Some(&raw(json!({ "x": 1 })))));
    assert_eq!(
        sent,
        json!({ "type": "toolInvocation", "correlationId": i64::MAX, "tool": "WatchTower:Click", "parameters": { "x": 1 } })
    );
    assert_eq!(read(invocation(1, &tool, None))["parameters"], json!(null));
    let registered = Registered::new("a", "s", vec!["a:x".into()], Vec::new());
    assert_eq!(
        read(registered.render()),
        json!({ "type": "registered", "appId": "a", "sessionId": "s", "version": 1, "tools": ["a:x"], "refused": [] })
    );
}

/// The names of the good ones, and the bad ones with the beginning of their reasons.
fn check(tools: &Value, good: &[&str], bad: &[(&str, &str)]) {
    let app = UpstreamId::parse("WatchTower").unwrap();
    let tools: Vec<Raw> = tools.as_array().unwrap().iter().cloned().map(Raw::from).collect();
    let (offered, refused) = check_tools((&app, app.as_str()), &tools, |schema| Ok(schema.clone()));
    assert_eq!(offered.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), good);
    assert_eq!(refused.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), bad_names(bad));
    for (refusal, (_, reason)) in refused.iter().zip(bad) {
        assert!(refusal.reason.contains(reason), "{refusal:?}");
    }
}

fn bad_names<'a>(bad: &[(&'a str, &str)]) -> Vec<&'a str> {
    bad.iter().map(|(name, _)| *name).collect()
}

#[test]
fn names_may_carry_the_own_prefix_and_no_other() {
    let tool = |name: &str| json!({ "name": name, "description": "x" });
    check(
        &json!([
            tool("WatchTower:Click"),
            tool("type-text"),
            tool("watchtower:x"),
            tool("B:x"),
            tool("a:b:c")
        ]),
        &["Click", "type-text", "x"],
        &[("B:x", "under its own id"), ("a:b:c", "under its own id")],
    );
    check(
        &json!([tool("a"), tool("WatchTower:a"), tool(""), tool("1a"), tool("ä"), tool("WatchTower:a:b")]),
        &["a"],
        &[
            ("WatchTower:a", "another tool of this name"),
            ("", "must be a letter"),
            ("1a", "must be a letter"),
            ("ä", "must be a letter"),
            ("WatchTower:a:b", "must be a letter"),
        ],
    );
}

#[test]
fn a_bad_tool_is_refused_by_name_and_the_good_ones_stay() {
    let long = "é".repeat(501);
    check(
        &json!([
            { "name": "good", "description": "é".repeat(500), "inputSchema": { "properties": {} } },
            { "name": "mute" },
            { "name": "long", "description": long },
            { "name": "list", "description": "x", "inputSchema": { "type": "array" } },
            { "name": "text", "description": "x", "inputSchema": "object" },
            { "description": "x" },
            7,
        ]),
        &["good"],
        &[
            ("mute", "needs a `description`"),
            ("long", "has 501 characters"),
            ("list", "must be of type \"object\""),
            ("text", "must be a JSON object"),
            ("tools[5]", "`name` must be a string"),
            ("tools[6]", "a tool must be a JSON object"),
        ],
    );
}

#[test]
fn a_definition_keeps_the_members_that_the_app_sent() {
    let app = UpstreamId::parse("a").unwrap();
    let tool = raw(json!({ "name": "a:x", "description": "d", "annotations": { "readOnlyHint": true } }));
    let (offered, _) = check_tools((&app, app.as_str()), &[tool], |schema| Ok(schema.clone()));
    let definition: Value = offered[0].definition.read().unwrap();
    assert_eq!(definition["annotations"]["readOnlyHint"], true);
    assert_eq!((&definition["name"], &definition["inputSchema"]["type"]), (&json!("x"), &json!("object")));
    assert_eq!(offered[0].wire.as_string().as_deref(), Some("a:x"));
}

#[expect(clippy::needless_pass_by_value, reason = "so that a row of data reads as one")]
fn check_result(response: Value, expected: Value) {
    let got: Value = to_tool_result(&raw(response.clone())).read().unwrap();
    let mut got = got;
    assert_eq!(got["resultType"], "complete", "{response}");
    got.as_object_mut().unwrap().remove("resultType");
    assert_eq!(got, expected, "{response}");
}

#[test]
fn answers_become_content() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    check_result(json!({ "success": true, "data": "hi" }), json!({ "content": [text("hi")] }));
    check_result(json!({ "success": true, "data": [1, 2] }), json!({ "content": [text("[1,2]")] }));
    check_result(json!({ "success": true }), json!({ "content": [text("null")] }));
    check_result(
        json!({ "success": true, "data": { "clicked": true }, "error": null }),
        json!({ "content": [text(r#"{"clicked":true}"#)], "structuredContent": { "clicked": true } }),
    );
    let own =
        json!({ "content": [text("x")], "isError": true, "structuredContent": { "a": 1 }, "_meta": {} });
    check_result(own.clone(), own.clone());
    check_result(json!({ "success": true, "data": own.clone() }), own);
}

#[test]
fn pictures_become_images_whatever_their_label_is() {
    let png = "iVBORw0KGgoAAAANSUhEUg==";
    let image = |kind: &str, data: &str| json!({ "type": "image", "mimeType": kind, "data": data });
    check_result(
        json!({ "success": true, "data": { "format": "jpg", "base64Data": png, "timestamp": 1 } }),
        json!({ "content": [image("image/png", png), { "type": "text", "text": r#"{"format":"jpg","timestamp":1}"# }] }),
    );
    check_result(
        json!({ "success": true, "data": { "format": "jpg", "base64Data": "AAAA" } }),
        json!({ "content": [image("image/jpeg", "AAAA"), { "type": "text", "text": r#"{"format":"jpg"}"# }] }),
    );
    check_result(
        json!({ "success": true, "data": format!("data:image/webp;base64,{png}") }),
        json!({ "content": [image("image/webp", png)] }),
    );
    check_result(
        json!({ "success": true, "data": image("image/png", png) }),
        json!({ "content": [image("image/png", png)] }),
    );
}

#[test]
fn failures_are_marked_as_such() {
    let failed = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    check_result(json!({ "success": false, "error": "no window" }), failed("no window"));
    check_result(json!({ "success": false }), failed("the app reported a failure without a reason"));
    check_result(json!(null), failed("Null result"));
    check_result(json!({ "x": 1 }), failed("its answer has neither `success` nor MCP `content`"));
    let with_data = json!({ "success": false, "error": "no", "data": { "a": 1 } });
    let got: Value = to_tool_result(&raw(with_data)).read().unwrap();
    assert_eq!(got["content"][1]["text"], r#"{"a":1}"#);
    let missing: Value = missing_result().read().unwrap();
    assert_eq!(missing["content"][0]["text"], "Missing result property");
}

#[test]
fn a_part_of_a_result_holds_at_most_64_kib() {
    let part = |length: usize| {
        let text = "x".repeat(length);
        let message = json!({ "type": "toolPartial", "correlationId": 1, "content": text });
        AppMessage::parse(&Bytes::from(message.to_string()))
    };
    let around = json!([{ "type": "text", "text": "" }]).to_string().len();
    assert!(matches!(part(64 * 1024 - around), Ok(AppMessage::Partial(_))));
    let refused = part(64 * 1024 - around + 1).unwrap_err();
    assert!(refused.to_string().contains("at most 64 KiB"), "{refused}");
}
