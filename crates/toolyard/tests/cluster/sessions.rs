//! Legacy sessions behind a balancer that knows nothing of them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::bare::request;
use super::http::{legacy, open_session, read};
use super::nats::free_port;
use super::world::{World, eventually};

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
fn the_stream_of_a_session_and_its_end_pass_through_another_node() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__grow");
    let session = open_session(&world.node("a").url);
    let url = world.node("b").url.clone();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let with_accept = [headers[0], headers[1], ("accept", "text/event-stream")];
    let mut lines = BufReader::new(request(&url, "GET", &with_accept)).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(" 200 "));
    world.node("a").call("one__grow", &json!({ "name": "more" })).unwrap();
    assert!(lines.any(|line| line.contains("notifications/tools/list_changed")));
    let reply = read(request(&url, "DELETE", &headers));
    assert!((200..300).contains(&reply.status), "{}: {}", reply.status, reply.body);
    for node in ["a", "b"] {
        let reply = read(legacy(&world.node(node).url, &session, "tools/list", &json!({})));
        assert_eq!(reply.status, 404, "{node}: {}", reply.body);
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

/// nginx in front of all nodes, each request to the next one.
struct Nginx(Child);

impl Nginx {
    fn start(folder: &Path, port: u16, nodes: &[String]) -> Self {
        let program = std::env::var_os("TOOLYARD_NGINX").expect("`cargo xtask cluster` names nginx");
        let address = |url: &String| url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let servers: Vec<String> = nodes.iter().map(|url| format!("server {};\n", address(url))).collect();
        let servers = servers.concat();
        let config = format!(
            "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log nginx.log;\nevents {{ }}\nhttp {{\n\
             access_log off;\nclient_body_temp_path tmp;\nproxy_temp_path tmp;\nfastcgi_temp_path tmp;\n\
             uwsgi_temp_path tmp;\nscgi_temp_path tmp;\nupstream yard {{\n{servers}}}\n\
             server {{ listen 127.0.0.1:{port}; location / {{\nproxy_pass http://yard;\nproxy_http_version 1.1;\n\
             proxy_set_header Host 127.0.0.1;\nproxy_buffering off;\n}} }} }}\n"
        );
        let folder = folder.join("nginx");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let mut nginx = Command::new(program);
        nginx.arg("-p").arg(&folder).args(["-e", "nginx.log", "-c", "nginx.conf"]).stdin(Stdio::null());
        let nginx = Self(nginx.spawn().unwrap());
        eventually("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker ends with it only if it is asked to end.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn legacy_sessions_work_behind_nginx_in_15_of_15_runs() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    world.start("c", &[], "");
    world.wait_for_tool("one__pid");
    world.wait_for_tool("two__pid");
    let port = free_port();
    let _nginx = Nginx::start(&world.path(""), port, &world.urls());
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut right = 0;
    for _ in 0..15 {
        let session = open_session(&url);
        let tools = read(legacy(&url, &session, "tools/list", &json!({}))).tool_names();
        assert!(
            tools.contains(&"one__pid".to_owned()) && tools.contains(&"two__pid".to_owned()),
            "{tools:?}"
        );
        for tool in ["one__pid", "two__pid", "one__pid", "two__pid"] {
            let params = json!({ "name": tool, "arguments": {} });
            let reply = read(legacy(&url, &session, "tools/call", &params));
            assert_eq!(reply.status, 200, "{}", reply.body);
            assert!(reply.message()["result"]["content"][0]["text"].is_string(), "{}", reply.body);
        }
        right += 1;
    }
    println!("{right} of 15 sessions through nginx were right");
}
