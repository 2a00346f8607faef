//! Processes of a simulated system, and one of the real system.

use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use tempfile::TempDir;

use super::*;

/// A simulated system.
struct System {
    root: TempDir,
}

impl System {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn uid(&self) -> u32 {
        self.root.path().metadata().unwrap().uid()
    }

    /// A process with a hostile name. `at` is the address of its environment.
    fn run(&self, pid: u32, parent: u32, started: u64, at: u64, environment: &[&str]) -> &Self {
        let folder = self.root.path().join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let rest = "7 ".repeat(27);
        let stat = format!(
            "{pid} (a) Z 1 (b)) S {parent} {} {started} {rest}{at} {} 0",
            "0 ".repeat(17).trim_end(),
            at + 9
        );
        fs::write(folder.join("stat"), &stat).unwrap();
        fs::write(folder.join("environ"), environment.join("\0")).unwrap();
        let stat = Stat::parse(&stat).unwrap();
        assert_eq!(stat, Stat { parent, started, environment: (at, at + 9) });
        self
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.root.path().join(pid.to_string())).unwrap();
    }

    fn look(&self) -> Processes {
        Processes::at(self.root.path(), self.uid(), 1)
    }
}

fn found(look: &Look) -> Vec<String> {
    look.hints.iter().map(|hint| format!("{} {} {}", hint.pid, hint.id, hint.endpoint)).collect()
}

fn no_refusal(_: &DiscoveredEndpoint) -> Option<String> {
    None
}

#[test]
fn both_pairs_of_variables_are_hints_and_a_name_is_made_where_none_is_given() {
    let system = System::new();
    system
        .run(10, 2, 1, 0, &["A=b", "TOOLYARD_ENDPOINT=tcp://127.0.0.1:1", "TOOLYARD_APP_ID=One"])
        .run(11, 2, 2, 0, &["AVALONIA_MCP_ENDPOINT=pipe://Two.Mcp", "AVALONIA_MCP_APP_ID=Two"])
        .run(12, 2, 3, 0, &["TOOLYARD_ENDPOINT=tcp://localhost:3"])
        .run(13, 2, 4, 0, &["TOOLYARD_ENDPOINT=unix:///run/four.sock", "AVALONIA_MCP_APP_ID=NotOfThisPair"])
        .run(14, 2, 5, 0, &["XTOOLYARD_ENDPOINT=tcp://localhost:5", "TOOLYARD_ENDPOINT="])
        .run(15, 2, 6, 0, &[]);
    let look = system.look().look(no_refusal);
    assert_eq!(
        found(&look),
        [
            "10 One tcp://127.0.0.1:1",
            "11 Two pipe://Two.Mcp",
            "12 app-3 tcp://localhost:3",
            "13 four unix:///run/four.sock"
        ]
    );
    assert_eq!(look.skipped, []);
}

#[test]
fn an_inherited_variable_is_one_hint_and_contradictions_are_reported() {
    let system = System::new();
    let (endpoint, id) = ("TOOLYARD_ENDPOINT=tcp://127.0.0.1:1", "TOOLYARD_APP_ID=App");
    system
        .run(30, 20, 3, 0, &[endpoint, id])
        .run(20, 2, 2, 0, &[endpoint, id])
        .run(31, 20, 4, 0, &["TOOLYARD_ENDPOINT=http://localhost:1/", "TOOLYARD_APP_ID=Other"])
        .run(32, 2, 5, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:2", "TOOLYARD_APP_ID=app"]);
    let mut processes = system.look();
    let look = processes.look(no_refusal);
    assert_eq!(found(&look), ["20 App tcp://127.0.0.1:1"]);
    assert_eq!(look.skipped.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [31, 32]);
    // The child still has the variable when its parent is gone.
    system.end(20);
    assert_eq!(found(&processes.look(no_refusal)), ["30 App tcp://127.0.0.1:1"]);
}

#[test]
fn a_listener_at_another_address_of_this_machine_is_another_one() {
    let system = System::new();
    system
        .run(10, 2, 1, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1", "TOOLYARD_APP_ID=One"])
        .run(11, 2, 2, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.2:1", "TOOLYARD_APP_ID=Two"])
        .run(12, 2, 3, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:3"])
        .run(13, 2, 4, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.2:3"])
        .run(14, 2, 5, 0, &["TOOLYARD_ENDPOINT=http://[::1]:3"]);
    let look = system.look().look(no_refusal);
    assert_eq!(
        found(&look),
        [
            "10 One tcp://127.0.0.1:1",
            "11 Two tcp://127.0.0.2:1",
            "12 app-3 tcp://127.0.0.1:3",
            "13 app-127-0-0-2-3 tcp://127.0.0.2:3"
        ]
    );
    assert_eq!(look.skipped, []);
}

#[test]
fn the_gateway_and_what_it_started_are_not_mistaken_for_apps() {
    let system = System::new();
    let variables = ["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1"];
    system.run(1, 0, 1, 0, &variables).run(5, 1, 2, 0, &variables).run(6, 5, 3, 0, &variables).run(
        7,
        7,
        3,
        0,
        &[],
    );
    assert_eq!(found(&system.look().look(no_refusal)), [""; 0]);
    system.run(8, 0, 4, 0, &variables);
    assert_eq!(found(&system.look().look(no_refusal)), ["8 app-1 tcp://127.0.0.1:1"]);
}

#[test]
fn processes_of_others_are_not_looked_at_and_unreadable_ones_are_passed_over() {
    let system = System::new();
    system.run(10, 2, 1, 0, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1"]);
    let mut of_another = Processes::at(system.root.path(), system.uid() + 1, 1);
    assert_eq!(of_another.look(no_refusal), Look::default());
    fs::remove_file(system.root.path().join("10/environ")).unwrap();
    fs::create_dir(system.root.path().join("10/environ")).unwrap();
    assert_eq!(system.look().look(no_refusal), Look { unreadable: 1, read: 1, ..Look::default() });
}

#[test]
fn an_environment_is_read_again_only_when_it_can_be_another() {
    let system = System::new();
    system.run(10, 2, 1, 100, &[]).run(11, 2, 1, 100, &[]);
    let mut processes = system.look();
    assert_eq!(processes.look(no_refusal).read, 2);
    assert_eq!(processes.look(no_refusal).read, 0);
    // One has become another program, one number belongs to another process now.
    system.run(10, 2, 1, 200, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1"]);
    system.run(11, 2, 7, 100, &["TOOLYARD_ENDPOINT=tcp://127.0.0.1:2"]);
    let look = processes.look(no_refusal);
    assert_eq!((look.read, found(&look).len()), (2, 2));
    system.end(10);
    assert_eq!(found(&processes.look(no_refusal)), ["11 app-2 tcp://127.0.0.1:2"]);
}

#[test]
fn hints_lead_nowhere_else_and_ids_keep_to_the_rules() {
    let check = |environment: &[&str], expected: &str| {
        let system = System::new();
        system.run(10, 2, 1, 0, environment);
        let look = system.look().look(|endpoint| {
            (endpoint.listener() == "localhost:7777").then(|| "that is this gateway".to_owned())
        });
        assert_eq!((look.hints.len(), look.skipped.len()), (0, 1), "{environment:?}");
        assert!(look.skipped[0].1.contains(expected), "{:?}", look.skipped);
    };
    check(&["TOOLYARD_ENDPOINT=tcp://10.0.0.1:1"], "not on this machine");
    check(&["TOOLYARD_ENDPOINT=http://localhost.evil.example:1"], "not on this machine");
    check(&["TOOLYARD_ENDPOINT=whatever"], "expected tcp://");
    check(&["TOOLYARD_ENDPOINT=http://[::1]:7777/mcp"], "that is this gateway");
    check(&["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1", "TOOLYARD_APP_ID=a:b"], "its app id is not used");
    check(&["TOOLYARD_ENDPOINT=tcp://127.0.0.1:1", "TOOLYARD_APP_ID=yard"], "its app id is not used");
}

#[test]
fn the_real_system_shows_our_own_child() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        // It is not an address of this machine.
        .env("AVALONIA_MCP_ENDPOINT", "tcp://192.0.2.1:1")
        .spawn()
        .unwrap();
    let uid = Path::new("/proc/self").metadata().unwrap().uid();
    // As if this process belonged to another user.
    let mut processes = Processes::new(uid, u32::MAX);
    assert!(processes.can_look());
    let sees = |processes: &mut Processes| {
        processes
            .look(no_refusal)
            .skipped
            .iter()
            .any(|(pid, why)| *pid == child.id() && why.contains("192.0.2.1"))
    };
    let as_stranger = sees(&mut processes);
    let as_parent = sees(&mut Processes::new(uid, std::process::id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(as_stranger && !as_parent);
}

proptest! {
    #[test]
    fn no_environment_and_no_stat_line_is_too_odd(bytes: Vec<u8>, text: String) {
        let system = System::new();
        system.run(10, 2, 1, 0, &[]);
        fs::write(system.root.path().join("10/environ"), bytes).unwrap();
        system.look().look(no_refusal);
        let _ = Stat::parse(&text);
    }
}
