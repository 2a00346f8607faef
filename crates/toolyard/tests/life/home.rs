//! What the gateway leaves in the home of its user: nothing outside of its state directory.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::http;
use crate::yard::Yard;

/// The places for state, from the home: the state directory of the gateway, and the usual place, which has the names of
/// the folders that were chosen instead.
const STATE: [&str; 2] = ["state", ".local/state/toolyard"];

/// Every file below a folder, with its content, except the places for state and the folders on the way to them.
fn tree(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if STATE.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            let is_on_the_way = STATE.iter().any(|place| place.starts_with(&format!("{name}/")));
            if !is_on_the_way {
                found.insert(format!("{name}/"), Vec::new());
            }
            tree(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name, std::fs::read(entry.path()).unwrap_or_default());
        }
    }
}

fn home_of(yard: &Yard) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    tree(yard.folder(), "", &mut found);
    found
}

#[test]
fn agents_sessions_skills_and_models_write_nothing_to_the_home_of_the_user() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let skill = yard.folder().join(".claude/skills/pdf/SKILL.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    std::fs::write(skill, "---\nname: pdf\ndescription: d\n---\n").unwrap();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[audit]\n\
         [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"http://127.0.0.1:1\"\n\
         [packs.agents]\nprojects = [{folder}]\n[packs.agents.types.explore]\nprogram = \"command\"\ncommand = [\"cat\"]\n\
         [packs.sessions]\nprograms = [\"claude\", \"codex\", \"gemini\"]\nprojects = [{folder}]\n"
    ));
    let before = home_of(&yard);
    let gateway = yard.start();
    let user = [("authorization", "Bearer user")];
    for (tool, arguments) in [
        ("agents__agent_spawn", json!({ "prompt": "p", "blocking": true })),
        ("agents__agent_cleanup", json!({ "max_age_minutes": 0 })),
        ("models__ask_model", json!({ "prompt": "p", "model": "local/m" })),
        ("models__get_cost_report", json!({})),
        ("sessions__session_list", json!({})),
        ("sessions__session_search", json!({ "query": "x" })),
        ("sessions__skill_get", json!({ "name": "pdf" })),
        ("dev__get_system_health", json!({})),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = http::read(http::modern_with(gateway.url(), &user, "tools/call", params)).message();
        assert!(reply.get("error").is_none(), "{tool}: {reply}");
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    gateway.wait();
    let after = home_of(&yard);
    let new: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert_eq!(new, Vec::<&String>::new(), "new in the home");
    assert!(before == after, "something in the home was changed");
}
