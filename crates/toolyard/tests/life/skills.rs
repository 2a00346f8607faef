//! Skills on disk and of servers in one list: by the protocol's extension, and by the tools `skill_list` and `skill_get`.

use std::path::Path;

use serde_json::{Value, json};

use crate::http;
use crate::yard::{Gateway, Yard};

const EXTENSION: &str = "io.modelcontextprotocol/skills";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Two servers with a skill each, one of the name of a skill in the project.
fn yard(project: &Path) -> Yard {
    write(
        &project.join(".claude/skills/pdf/SKILL.md"),
        "---\nname: pdf\ndescription: Reads papers\n---\nOpen it.",
    );
    write(&project.join(".claude/skills/pdf/references/forms.md"), "Forms.");
    let yard = Yard::new(&[]);
    write(
        &yard.folder().join(".claude/skills/pdf/SKILL.md"),
        "---\nname: pdf\ndescription: of the user\n---\n",
    );
    let folder = toml::Value::from(project.to_str().unwrap());
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/skill_server.py");
    let upstream = |id: &str, name: &str| {
        format!(
            "[upstreams.{id}]\ncommand = \"python3\"\nargs = [\"{server}\", \"{name}\"]\nera = \"legacy\"\n"
        )
    };
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.sessions]\nprograms = [\"claude\"]\nprojects = [{folder}]\n\
         {}{}[profiles.plain]\nupstreams = [\"dev\"]\n",
        upstream("one", "pdf"),
        upstream("two", "tampered"),
    ));
    yard
}

fn ask(gateway: &Gateway, view: &str, method: &str, params: Value) -> Value {
    let url = format!("{}{view}", gateway.url());
    let mut headers = vec![("authorization", "Bearer user")];
    let uri = params["uri"].as_str().map(ToOwned::to_owned);
    // The header repeats the URI of a resource.
    if method == "resources/read" {
        headers.extend(uri.as_deref().map(|uri| ("mcp-name", uri)));
    }
    http::read(http::modern_with(&url, &headers, method, params)).message()
}

fn tool(gateway: &Gateway, name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": format!("sessions__{name}"), "arguments": arguments });
    ask(gateway, "/mcp", "tools/call", params)["result"].clone()
}

#[test]
fn skills_of_disk_and_servers_are_one_list_with_digests_and_named_collisions() {
    let project = tempfile::tempdir().unwrap();
    let yard = yard(project.path());
    let gateway = yard.start();
    let listed = ask(&gateway, "/mcp", "skills/list", json!({}));
    let skills = listed["result"]["skills"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let mut uris: Vec<&str> = skills.iter().map(|skill| skill["uri"].as_str().unwrap()).collect();
    uris.sort_unstable();
    let (own, of_server) = ("skill://sessions/pdf/SKILL.md", "skill://one/pdf/SKILL.md");
    assert_eq!(uris, [of_server, own, "skill://two/tampered/SKILL.md"]);
    let pdf = skills.iter().find(|skill| skill["uri"] == own).unwrap();
    assert_eq!(pdf["frontmatter"], json!({ "name": "pdf", "description": "Reads papers" }));
    assert_eq!(pdf["_meta"]["dev.toolyard/sameName"], json!([of_server]));
    assert_eq!(pdf["resources"][1]["uri"], "skill://sessions/pdf/references/forms.md");
    assert_eq!(pdf["resources"][1]["size"], 6);

    let got = ask(&gateway, "/mcp", "skills/get", json!({ "uri": of_server }));
    assert_eq!(got["result"]["skill"]["uri"], of_server, "{got}");
    assert_eq!(got["result"]["skill"]["resources"][0]["uri"], of_server, "{got}");
    let unknown = ask(&gateway, "/mcp", "skills/get", json!({ "uri": "skill://three/pdf/SKILL.md" }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let read = ask(&gateway, "/mcp", "resources/read", json!({ "uri": of_server }));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("Body of pdf"), "{read}");
    let folder = ask(&gateway, "/mcp", "resources/directory/read", json!({ "uri": "skill://sessions/pdf" }));
    let kinds: Vec<&Value> =
        folder["result"]["resources"].as_array().unwrap().iter().map(|child| &child["mimeType"]).collect();
    assert_eq!(kinds, ["text/markdown", "inode/directory"], "{folder}");

    let declares = |view| {
        let found = ask(&gateway, view, "server/discover", json!({}));
        found["result"]["capabilities"]["extensions"].get(EXTENSION).cloned()
    };
    assert_eq!(declares("/mcp"), Some(json!({})), "not all of them read directories");
    assert_eq!(declares("/mcp/sessions"), Some(json!({ "directoryRead": true })));
    assert_eq!(declares("/mcp/p/plain"), None, "nothing has skills in this view");
}

#[test]
fn clients_without_the_extension_get_the_same_skills_by_tools() {
    let project = tempfile::tempdir().unwrap();
    let yard = yard(project.path());
    let gateway = yard.start();
    // The servers are read first.
    ask(&gateway, "/mcp", "skills/list", json!({}));
    let listed = tool(&gateway, "skill_list", &json!({}));
    let skills = listed["structuredContent"]["result"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let about: Vec<(&str, &str)> = skills
        .iter()
        .map(|skill| (skill["name"].as_str().unwrap(), skill["origin"].as_str().unwrap()))
        .collect();
    assert_eq!(about, [("pdf", "project"), ("tampered", "server")], "{listed}");
    let hides = skills[0]["hides"].as_str().unwrap();
    assert!(hides.ends_with(".claude/skills/pdf/SKILL.md"), "the project is before the user: {hides}");
    let got = tool(&gateway, "skill_get", &json!({ "name": "pdf" }));
    assert!(got["content"][0]["text"].as_str().unwrap().ends_with("Open it."), "{got}");
    let refused = tool(&gateway, "skill_get", &json!({ "name": "tampered" }));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("is not what was listed"), "{text}");
}
