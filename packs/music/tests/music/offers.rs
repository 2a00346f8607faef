//! Resources and prompts.

use serde_json::json;

use crate::audio;
use crate::client::Music;

#[tokio::test]
async fn resources_describe_the_library_and_its_files() {
    let mut music = Music::with(json!({ "acoustid_key": "very-secret" })).await;
    audio::put(&music.root().join("a/b.mp3"));
    music.call("write_metadata", json!({ "path": "a/b.mp3", "title": "B" })).await;
    let listed = music.request("resources/list", json!({})).await;
    let uris: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["music://info", "music://config/example", "music://docs/guide"]);
    for uri in uris.iter().chain(&["music://file/a/b.mp3"]) {
        let read = music.request("resources/read", json!({ "uri": uri })).await;
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(!text.contains("very-secret"), "{text}");
        let expected = match *uri {
            "music://info" => "\"can_identify\": true",
            "music://config/example" => "[packs.music]",
            "music://docs/guide" => "# A music library",
            _ => "\"title\": \"B\"",
        };
        assert!(text.contains(expected), "{uri}: {text}");
    }
}

/// Some clients drop the whole list for one property that is `true`, though that is a schema.
#[tokio::test]
async fn every_property_of_every_tool_has_a_schema_that_is_an_object() {
    let mut music = Music::new().await;
    let listed = music.request("tools/list", json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{}", tool["name"]);
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property.is_object(), "{} of {}: {property}", name, tool["name"]);
            }
        }
    }
}

/// Some models' interfaces refuse the whole list for one of these, though further down they take them.
#[tokio::test]
async fn no_tool_has_conditions_at_the_top_of_its_schema_that_are_refused_there() {
    let mut music = Music::new().await;
    let listed = music.request("tools/list", json!({})).await;
    let mut descriptions = Vec::new();
    for tool in listed["tools"].as_array().unwrap() {
        let schema = tool["inputSchema"].as_object().unwrap();
        for name in ["oneOf", "anyOf", "allOf", "not", "enum"] {
            assert!(!schema.contains_key(name), "{} has {name}: {schema:?}", tool["name"]);
        }
        descriptions.extend(schema.get("description").and_then(|text| text.as_str()));
    }
    for words in [
        "`year` and `date` must not be given together.",
        "Give one of `image_path` or `image_bytes_base64`, and only one.",
    ] {
        assert!(descriptions.iter().any(|text| text.contains(words)), "{words} {descriptions:?}");
    }
}

#[tokio::test]
async fn the_config_example_is_a_config() {
    let mut music = Music::new().await;
    let read = music.request("resources/read", json!({ "uri": "music://config/example" })).await;
    let text = read["contents"][0]["text"].as_str().unwrap();
    let keys: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    let pack = toolyard_pack_music::pack();
    assert_eq!(keys, pack.keys().iter().map(toolyard_tool::Key::name).collect::<Vec<_>>());
}

#[tokio::test]
async fn prompts_name_the_tools_that_are_there() {
    let mut music = Music::new().await;
    let listed = music.request("prompts/list", json!({})).await;
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 4);
    for prompt in listed["prompts"].as_array().unwrap() {
        let get = json!({ "name": prompt["name"], "arguments": { "folder": "inbox" } });
        let text = music.request("prompts/get", get).await["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(text.contains("inbox"), "{text}");
        let named = text.split('`').filter(|word| {
            ["fs_", "mb_", "read_", "apply_", "undo_", "find_", "inventory_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        });
        for tool in named {
            assert!(music.has_tool(tool), "{tool}");
        }
    }
}
