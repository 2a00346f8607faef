//! Legacy sessions behind a balancer that knows nothing of them.

use serde_json::json;

use super::http::{legacy, open_session, read};
use super::world::World;

#[test]
fn a_legacy_session_works_through_every_node() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    world.start("c", &[], "");
    world.wait_for_tool("one__pid");
    world.wait_for_tool("two__pid");
    let urls = world.urls();
    for run in 0..15 {
        let mut round_robin = urls.iter().cycle().skip(run);
        let session = open_session(round_robin.next().unwrap());
        for tool in ["one__pid", "two__pid", "one__pid", "two__pid"] {
            let url = round_robin.next().unwrap();
            let params = json!({ "name": tool, "arguments": {} });
            let reply = read(legacy(url, &session, "tools/call", &params));
            assert_eq!(reply.status, 200, "{}", reply.body);
            assert!(reply.message()["result"]["content"][0]["text"].is_string(), "{}", reply.body);
        }
    }
}

#[test]
fn a_session_of_a_dead_node_is_not_found() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let session = open_session(&world.node("a").url);
    let url = world.node("b").url.clone();
    assert_eq!(read(legacy(&url, &session, "tools/list", &json!({}))).status, 200);
    world.kill("a");
    let reply = read(legacy(&url, &session, "tools/list", &json!({})));
    assert_eq!(reply.status, 404, "{}", reply.body);
    assert!(reply.body.contains("send initialize again"), "{}", reply.body);
}

#[test]
fn an_id_that_was_tampered_with_is_not_found() {
    let mut world = World::new();
    world.start("a", &[], "");
    world.start("b", &[], "");
    let session = open_session(&world.node("a").url);
    let (id, mark) = session.split_once('.').unwrap();
    let other = open_session(&world.node("b").url);
    let other = other.split_once('.').unwrap().1;
    for forged in [id.to_owned(), format!("{id}.{other}"), format!("{id}.{}", &mark[1..])] {
        let reply = read(legacy(&world.node("b").url, &forged, "tools/list", &json!({})));
        assert_eq!(reply.status, 404, "{forged}");
    }
}
