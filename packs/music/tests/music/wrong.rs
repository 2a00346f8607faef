//! Whatever arguments a tool is called with, it answers: with what is wrong with them, or with what it did. Never
//! with a failure of its own.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::client::Music;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..300).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![".", "a.mp3", "artist", "original", "{title}", "CoverFront", "minimal"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

async fn library() -> Music {
    let nowhere = "http://127.0.0.1:1";
    Music::with(json!({ "musicbrainz_url": nowhere, "acoustid_url": nowhere, "coverart_url": nowhere,
        "acoustid_key": "key", "cache": "/dev/null/none" }))
    .await
}

/// The names of a tool's parameters, for every tool.
async fn tools(music: &mut Music) -> Vec<(String, Vec<String>, Vec<String>)> {
    let listed = music.request("tools/list", json!({})).await;
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let about = |tool: &Value| {
        let properties = tool["inputSchema"]["properties"].as_object();
        let names = properties.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        (tool["name"].as_str().unwrap().to_owned(), names, texts(&tool["inputSchema"]["required"]))
    };
    listed["tools"].as_array().unwrap().iter().map(about).collect()
}

#[tokio::test]
async fn missing_fields_and_wrong_types_are_named() {
    let mut music = library().await;
    for (tool, names, required) in tools(&mut music).await {
        for name in required {
            let message = music.failure(&tool, json!({})).await;
            assert!(message.contains(&format!("`{name}`")), "{tool} without `{name}`: {message}");
        }
        for name in names {
            let message = music.failure(&tool, json!({ (name.clone()): { "no": [] } })).await;
            assert!(
                message.contains(&name) || tool == "manifest_write" || tool == "apply_naming_scheme",
                "{tool}, `{name}`: {message}"
            );
        }
    }
    let unknown = music.send("tools/call", json!({ "name": "fs_nothing", "arguments": {} })).await;
    assert_eq!(music.message(unknown).await["error"]["code"], -32602);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tool_answers_any_arguments_without_a_panic(
        values in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(value(), 6)), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut music = library().await;
            crate::audio::put(&music.root().join("a.mp3"));
            let tools = tools(&mut music).await;
            for (index, values) in values {
                let (tool, names, _) = index.get(&tools);
                let arguments: Map<String, Value> = names.iter().cloned().zip(values).collect();
                let sent = json!({ "name": tool, "arguments": arguments });
                let id = music.send("tools/call", sent.clone()).await;
                let answer = music.message(id).await;
                let message = answer.to_string();
                assert!(!message.contains("panicked"), "{sent}: {message}");
                assert!(!answer["result"].is_null() || answer["error"]["code"] == -32602, "{sent}: {message}");
            }
        });
    }
}
