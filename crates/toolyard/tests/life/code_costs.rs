//! What the code pack does only for connections that prove their user: vectors that may cost money, and the removal of
//! what belongs to all.

use serde_json::{Value, json};

use crate::http;
use crate::provider::Embeddings;
use crate::yard::{Gateway, OPERATOR, Yard};

/// A gateway with a project of one function, and a service of vectors with this config.
fn gateway(yard: &Yard, project: &std::path::Path, service: &Embeddings, key: &str) -> Gateway {
    std::fs::write(project.join("door.py"), "def open_door():\n    pass\n").unwrap();
    let folder = toml::Value::from(project.to_str().unwrap());
    yard.also(&format!(
        "[listen]\noperator_token = \"{OPERATOR}\"\n[packs.code]\nprojects = [{folder}]\n[packs.code.embeddings]\n\
         provider = \"ollama\"\nmodel = \"nomic-embed-text\"\nbase_url = \"{}\"\n{key}\n",
        service.url
    ));
    yard.start()
}

fn as_operator(gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
    http::read(gateway.begin_as_operator(tool, arguments)).message()["result"].clone()
}

fn is_refused(result: &Value) -> bool {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    result["isError"] == true && text.contains("only for connections that prove their user")
}

/// Calls of tools that compute vectors.
const COMPUTING: [&str; 9] = [
    "find_code",
    "semantic_search",
    "hybrid_search",
    "multi_query_search",
    "decomposed_search",
    "enhanced_search",
    "code_context",
    "semantic_index",
    "semantic_health",
];

fn question() -> Value {
    json!({ "query": "open the door", "task": "open the door", "search_type": "semantic" })
}

#[test]
fn vectors_that_may_cost_money_are_for_connections_that_prove_their_user() {
    let (service, project, yard) = (Embeddings::start(), tempfile::tempdir().unwrap(), Yard::new(&[]));
    let gateway = gateway(&yard, project.path(), &service, "key = \"a-key\"");
    for tool in COMPUTING.into_iter().chain(["delete_index"]) {
        let refused = gateway.call(&format!("code__{tool}"), &question());
        assert!(is_refused(&refused), "{tool}: {refused}");
    }
    assert_eq!(service.asked(), 0);
    let by_text = json!({ "query": "open_door", "search_type": "exact" });
    for (tool, arguments) in [("find_code", by_text), ("code_map", json!({})), ("semantic_stats", json!({}))]
    {
        let answered = gateway.call(&format!("code__{tool}"), &arguments);
        assert_ne!(answered["isError"], true, "{tool}: {answered}");
    }
    assert_eq!(service.asked(), 0);
    let found = as_operator(&gateway, "code__semantic_search", &question());
    assert_eq!(found["structuredContent"]["results"][0]["name"], "open_door", "{found}");
    assert!(service.asked() > 0);
}

#[test]
fn vectors_without_a_key_are_for_all_and_all_indexes_are_deleted_only_for_the_user() {
    let (service, project, yard) = (Embeddings::start(), tempfile::tempdir().unwrap(), Yard::new(&[]));
    let gateway = gateway(&yard, project.path(), &service, "");
    for tool in COMPUTING {
        let answered = gateway.call(&format!("code__{tool}"), &question());
        assert_ne!(answered["isError"], true, "{tool}: {answered}");
    }
    let all = json!({ "delete_all": true });
    let refused = gateway.call("code__delete_index", &all);
    assert!(is_refused(&refused), "{refused}");
    let files = || gateway.call("code__semantic_stats", &json!({}))["structuredContent"]["files"].clone();
    assert_eq!(files(), 1);
    let deleted = as_operator(&gateway, "code__delete_index", &all);
    assert_eq!((&deleted["content"][0]["text"], files()), (&json!("Deleted all indexes."), json!(0)));
}
