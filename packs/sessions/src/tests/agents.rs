//! Sub-agents of Claude Code: what they write belongs to the session that started them.

use super::*;

const SESSION: &str = "57234988-c9a0-41b9-8255-bd891df19dee";

/// A line of a sub-agent as Claude Code 2.1.197 writes it.
fn agent_line(kind: &str, content: &Value, project: &str) -> Value {
    json!({
        "parentUuid": null, "isSidechain": true, "agentId": "abc947be3836ad95c", "attributionAgent": "general-purpose",
        "type": kind, "message": { "role": kind, "content": content }, "uuid": "bf4cff3b-d051-42e4-a975-2a586c8657f4",
        "timestamp": "2026-11-19T04:11:05.681Z", "userType": "external", "entrypoint": "sdk-cli", "cwd": project,
        "sessionId": SESSION, "version": "2.1.197", "gitBranch": "HEAD",
    })
}

fn lines_of_agent(project: &str) -> Vec<Value> {
    let input = json!({ "file_path": format!("{project}/tower.txt"), "content": "built by a sub-agent\n" });
    vec![
        agent_line("user", &json!("Build the tower of granite"), project),
        agent_line(
            "assistant",
            &json!([{ "type": "tool_use", "id": "t5120", "name": "Write", "input": input }]),
            project,
        ),
        agent_line("assistant", &json!([{ "type": "text", "text": "The granite tower is there." }]), project),
    ]
}

fn lines_of_session(project: &str) -> Vec<Value> {
    let mut line = claude_line("user", "a", Value::Null, &json!("Let it be built"), project);
    line["sessionId"] = SESSION.into();
    vec![line]
}

/// The home folders in which a sub-agent is found in each of the places that versions of the program use.
fn homes() -> Vec<(&'static str, Home)> {
    let folder = format!(".claude/projects/-project/{SESSION}");
    let places = [
        ("in a folder of the session", Some(format!("{folder}/subagents/agent-abc947be3836ad95c.jsonl"))),
        ("beside the session", Some(".claude/projects/-project/agent-abc947be3836ad95c.jsonl".to_owned())),
        ("in the session", None),
    ];
    let homes = places.into_iter().map(|(name, place)| {
        let home = Home::new(json!({}));
        let project = home.project();
        std::fs::write(home.path("project/tower.txt"), "built by a sub-agent\nby hand, later\n").unwrap();
        let (mut own, agent) = (lines_of_session(&project), lines_of_agent(&project));
        match place {
            Some(place) => drop(home.write(&place, &agent)),
            None => own.extend(agent),
        }
        home.write(&format!("{folder}.jsonl"), &own);
        (name, home)
    });
    homes.collect()
}

#[tokio::test]
async fn the_edits_of_a_sub_agent_are_those_of_its_session() {
    for (place, home) in homes() {
        let file = home.path("project/tower.txt");
        let answer = blame::session_blame(&home.sessions, &context(), args(json!({ "path": file }))).await;
        let writers = shown(answer);
        assert_eq!(writers.as_array().unwrap().len(), 1, "{place}: {writers}");
        assert_eq!(writers[0]["session"]["id"], SESSION, "{place}");
        assert_eq!(writers[0]["lines"], json!([1]), "{place}");
    }
}

#[tokio::test]
async fn the_messages_of_a_sub_agent_are_found_in_its_session_and_are_not_part_of_the_conversation() {
    for (place, home) in homes() {
        let query = args(json!({ "query": "granite tower" }));
        let hits = shown(search::session_search(&home.sessions, &context(), query).await);
        let about: Vec<_> =
            hits.as_array().unwrap().iter().map(|hit| (&hit["session_id"], &hit["agent"])).collect();
        let (session, agent) = (json!(SESSION), json!("abc947be3836ad95c"));
        assert_eq!(about, [(&session, &agent), (&session, &agent)], "{place}");
        let listed = shown(list::session_list(&home.sessions, &context(), args(json!({}))).await);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{place}: {listed}");
        assert_eq!(listed[0]["title"], "Let it be built", "{place}");
        let read = args(json!({ "session_id": SESSION }));
        let read = shown(read::session_read(&home.sessions, &context(), read).await);
        assert_eq!((read["total"].clone(), read["skipped"].clone()), (json!(1), json!(0)), "{place}");
    }
}
