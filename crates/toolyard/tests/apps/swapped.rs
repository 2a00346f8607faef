//! The folder of instance files changes under the gateway: removed, put back, or replaced by a folder that is
//! not ours; and files whose processes are not those that they name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::{Value, json};

use crate::instances::Server;
use crate::support::{Agent, Yard, eventually};

fn ids(agent: &mut Agent) -> Vec<String> {
    let listed = agent.call("yard__instances_list", &json!({}))["structuredContent"].take();
    let listed = listed["instances"].as_array().unwrap().iter();
    let mut ids: Vec<String> = listed.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn wait_for(agent: &mut Agent, expected: &[&str]) {
    eventually(&format!("{expected:?}"), || (ids(agent) == expected).then_some(()));
}

#[test]
fn a_folder_that_is_removed_and_made_again_is_looked_at_again_every_time() {
    let (yard, server) = (Yard::start(""), Server::start());
    let mut agent = yard.agent();
    for round in ["one", "two", "three"] {
        yard.write_instance("toolyard", &format!("{round}.json"), &server.file(round).to_string());
        wait_for(&mut agent, &[round]);
        let folder = yard.instance_folder("toolyard");
        // The folder itself, or the one it lies in.
        let gone = if round == "two" { folder.parent().unwrap() } else { folder.as_path() };
        fs::remove_dir_all(gone).unwrap_or_else(|error| panic!("{}: {error}", gone.display()));
        wait_for(&mut agent, &[]);
    }
}

#[test]
fn a_link_or_a_folder_that_others_can_write_to_is_not_used() {
    let (yard, server) = (Yard::start(""), Server::start());
    let mut agent = yard.agent();
    yard.write_instance("brummer", "good.json", &server.file("good").to_string());
    wait_for(&mut agent, &["good"]);
    let folder = yard.instance_folder("brummer");
    let (aside, elsewhere) = (folder.with_file_name("aside"), yard.folder().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("evil.json"), server.file("evil").to_string()).unwrap();
    // A link to somewhere else.
    fs::rename(&folder, &aside).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    wait_for(&mut agent, &[]);
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    wait_for(&mut agent, &["good"]);
    // Other users may write into it.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(folder.join("evil.json"), server.file("evil").to_string()).unwrap();
    wait_for(&mut agent, &[]);
    fs::remove_file(folder.join("evil.json")).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // A symbolic link does not count as an instance file, either.
    symlink(elsewhere.join("evil.json"), folder.join("link.json")).unwrap();
    wait_for(&mut agent, &["good"]);
}

/// The number of a process that has ended.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn a_file_is_removed_only_if_its_process_is_gone_and_its_port_does_not_answer() {
    let (yard, server) = (Yard::start(""), Server::start());
    let mut agent = yard.agent();
    let own = std::process::id();
    let file = |id: &str, port: u16, pid: u32, started: Option<&str>| -> Value {
        json!({ "id": id, "name": id, "directory": "/srv", "port": port, "pid": pid, "started_at": started })
    };
    let write =
        |id: &str, value: &Value| yard.write_instance("toolyard", &format!("{id}.json"), &value.to_string());
    // Nothing listens at port 1.
    let stay = [
        write("answers", &file("answers", server.port, dead_pid(), None)),
        write("alive", &file("alive", 1, own, None)),
    ];
    wait_for(&mut agent, &["alive", "answers"]);
    eventually("an answer", || (agent.upstream("answers")["state"] == "active").then_some(()));
    let go = [
        write("dead", &file("dead", 1, dead_pid(), None)),
        write("reused", &file("reused", 1, own, Some("2020-01-01T00:00:00Z"))),
    ];
    for path in &go {
        eventually("it to go", || (!path.exists()).then_some(()));
    }
    wait_for(&mut agent, &["alive", "answers"]);
    assert!(stay.iter().all(|path| path.exists()), "{stay:?}");
}
