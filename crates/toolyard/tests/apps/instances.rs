//! Instances that write files about themselves: found, dialled, shown, and forgotten when they are gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use toolyard_proto::calendar::rfc3339;

use crate::health::QUICK;
use crate::support::{Agent, App, Listener, Proxy, Yard, checks_each_time, eventually};

/// How often the folder is read when the system reports no change in it.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A real MCP server on a free port.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::over("http")
    }

    /// Over `http` or `tcp`.
    pub(crate) fn over(transport: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command
            .args(["pack", "dev", &format!("--{transport}"), "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, address)) = line.split_once("://127.0.0.1:") {
                break address.split('/').next().unwrap().trim().parse().unwrap();
            }
        };
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, port }
    }

    pub(crate) fn file(&self, id: &str) -> Value {
        json!({ "id": id, "name": "shop", "directory": "/srv/shop", "port": self.port,
            "process_info": { "pid": self.child.id(), "executable": "x" } })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_instance_file_is_enough_to_be_found_and_garbage_disturbs_no_other_instance() {
    let yard = Yard::start("");
    for (program, id) in [("toolyard", "shop-0a1b"), ("brummer", "brum-2c3d")] {
        let server = Server::start();
        yard.write_instance(program, "broken.json", "{\"id\":");
        let mut agent = yard.agent();
        let file = yard.write_instance(program, &format!("{id}.json"), &server.file(id).to_string());
        let listed = eventually("the instance", || find(&mut agent, id));
        assert_eq!((&listed["port"], &listed["directory"]), (&json!(server.port), &json!("/srv/shop")));
        eventually("its tools", || {
            agent.tools().iter().any(|tool| tool.starts_with(&format!("{id}__"))).then_some(())
        });
        std::fs::remove_file(file).unwrap();
        eventually("its tools to go", || {
            (!agent.tools().iter().any(|tool| tool.starts_with(id))).then_some(())
        });
    }
}

fn find(agent: &mut Agent, id: &str) -> Option<Value> {
    let listed = agent.call("yard__instances_list", &json!({}))["structuredContent"].take();
    listed["instances"].as_array()?.iter().find(|instance| instance["id"] == id).cloned()
}

#[test]
fn a_file_is_listed_soon_after_it_was_written() {
    let (yard, server) = (Yard::start(""), Server::start());
    let mut agent = yard.agent();
    let mut took: Vec<Duration> = (0..21)
        .map(|round| {
            let id = format!("shop-{round}");
            let began = Instant::now();
            let file = yard.write_instance("toolyard", &format!("{id}.json"), &server.file(&id).to_string());
            eventually("the instance", || find(&mut agent, &id));
            let took = began.elapsed();
            std::fs::remove_file(file).unwrap();
            took
        })
        .collect();
    took.sort();
    eprintln!("from file to list: median {:?}, slowest {:?}", took[10], took[20]);
    // Nextest runs it alone, because this is about time. A machine that is busy with other programs may delay some of
    // them, so only `cargo xtask bench --apps` checks each. None waited for the next look at the folder.
    let which = if checks_each_time() { 20 } else { 10 };
    assert!(took[which] < Duration::from_millis(100), "{took:?}");
    assert!(took[20] < LOOK_AGAIN, "{took:?}");
}

/// The system reports a file that is closed after it was written, but not one that stays open.
#[test]
fn a_file_whose_change_is_not_reported_by_the_system_is_found_at_the_next_look() {
    let (yard, server) = (Yard::start(""), Server::start());
    let mut agent = yard.agent();
    let mut file = File::create(yard.instance_folder("toolyard").join("shop.json")).unwrap();
    let seen = || {
        let (_, report) = yard.run(&["doctor", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let ways = report["report"]["discovery"].as_array().cloned().unwrap_or_default();
        ways.into_iter().find(|way| way["way"] == "files").unwrap_or_default()
    };
    // The report about the new file has been handled, so no other follows.
    let report = eventually("the empty file", || Some(seen()).filter(|seen| seen["skipped"][0].is_object()));
    assert_eq!(report["found"], json!([]), "{report}");
    file.write_all(server.file("shop").to_string().as_bytes()).unwrap();
    eventually("the instance", || find(&mut agent, "shop"));
    drop(file);
}

#[test]
fn an_instance_or_app_that_is_away_has_a_hint_that_asks_about_its_server_and_names_its_port() {
    let gone = Listener::tcp().endpoint();
    let yard = Yard::start(&format!("[apps.endpoints]\nPaint = \"{gone}\"\n{QUICK}"));
    let mut agent = yard.agent();
    // An instance whose server has ended, while the process that wrote its file still runs.
    let server = Server::start();
    let mut file = server.file("shop");
    file["process_info"]["pid"] = json!(std::process::id());
    yard.write_instance("toolyard", "shop.json", &file.to_string());
    eventually("the instance", || (agent.upstream("shop")["state"] == "active").then_some(()));
    let port = server.port;
    drop(server);
    for (id, place) in [("Paint", gone), ("shop", format!(":{port}"))] {
        // Before that, the connection that broke is the reason.
        let hint = eventually("a hint", || {
            agent.upstream(id)["hint"].as_str().map(str::to_owned).filter(|hint| hint.contains(&place))
        });
        let (question, rest) = hint.split_once("? ").unwrap();
        assert_eq!(question, "is its dev server running");
        assert!(rest.starts_with("It should listen at ") && rest.contains(&place), "{hint}");
        assert!(rest.ends_with("; `toolyard doctor` shows more"), "{hint}");
        let (_, report) = yard.run(&["doctor"]);
        let mut lines = report.lines().skip_while(|line| !(line.contains(id) && line.contains(&place)));
        assert!(lines.next().is_some(), "{id} at {place} is not in {report}");
    }
}

#[test]
fn the_lists_of_an_instance_are_read_again_when_its_file_is_rewritten() {
    let (yard, server) = (Yard::start(""), Server::start());
    let seen = Proxy::to(server.port);
    let mut file = server.file("shop");
    file["port"] = json!(seen.port);
    yard.write_instance("brummer", "shop.json", &file.to_string());
    let mut agent = yard.agent();
    agent.wait_for_tools(&["shop__echo", "shop__hash", "shop__time_now", "shop__uuid"]);
    seen.forget();
    // As a dev server does that was changed, or twice a minute to show that it lives.
    file["last_ping"] = json!("2026-11-15T06:00:30Z");
    yard.write_instance("brummer", "shop.json", &file.to_string());
    eventually("the lists to be read", || seen.has_passed("tools/list").then_some(()));
}

#[test]
fn doctor_lists_the_places_searched_what_was_found_and_what_was_left_out() {
    let gone = crate::support::Listener::tcp().endpoint();
    let yard = Yard::start(&format!("[apps.endpoints]\nPaint = \"{gone}\"\n"));
    let server = Server::start();
    let broken = yard.write_instance("toolyard", "broken.json", "{\"id\":");
    let good = yard.write_instance("brummer", "shop.json", &server.file("shop").to_string());
    let report = eventually("both files", || {
        let (_, report) = yard.run(&["doctor", "--json"]);
        let mut report: Value = serde_json::from_str(&report).unwrap();
        let ways = report["report"]["discovery"].take();
        (ways[1]["found"][0]["id"] == "shop" && !ways[1]["skipped"][0].is_null()).then_some(ways)
    });
    assert_eq!(
        (&report[0]["way"], &report[0]["found"][0]["endpoint"]),
        (&json!("config"), &json!(gone)),
        "{report}"
    );
    assert_eq!(
        (&report[1]["way"], &report[1]["places"].as_array().unwrap().len()),
        (&json!("files"), &2),
        "{report}"
    );
    assert_eq!(report[1]["found"][0]["origin"], good.display().to_string(), "{report}");
    assert_eq!(report[1]["skipped"][0]["origin"], broken.display().to_string(), "{report}");
    assert!(report[1]["looked"].is_string() && report[1]["every_ms"].is_u64(), "{report}");
    let (_, text) = yard.run(&["doctor"]);
    assert!(text.contains("discovery by files: 1 found") && text.contains("left out: "), "{text}");
}

#[test]
fn the_file_of_a_killed_instance_is_removed_and_that_of_a_live_one_is_kept() {
    let yard = Yard::start("");
    let (mut mortal, live) = (Server::start(), Server::start());
    let gone = yard.write_instance("brummer", "mortal.json", &mortal.file("mortal").to_string());
    let mut old = live.file("live");
    // Its last ping is eleven minutes old, but the process is running.
    old["last_ping"] = json!(ago(11));
    old["started_at"] = json!(ago(20));
    let stays = yard.write_instance("brummer", "live.json", &old.to_string());
    let mut agent = yard.agent();
    let ids = |agent: &mut crate::support::Agent| {
        let listed = agent.call("yard__instances_list", &json!({}))["structuredContent"].take();
        listed["instances"].as_array().map_or(0, Vec::len)
    };
    eventually("both", || (ids(&mut agent) == 2).then_some(()));
    mortal.child.kill().unwrap();
    mortal.child.wait().unwrap();
    let killed = Instant::now();
    eventually("the file to go", || (!gone.exists()).then_some(()));
    assert!(killed.elapsed() <= Duration::from_mins(1), "{:?}", killed.elapsed());
    eventually("the instance to go", || (ids(&mut agent) == 1).then_some(()));
    assert!(stays.exists());
}

fn ago(minutes: u64) -> String {
    let then = SystemTime::now().checked_sub(Duration::from_mins(minutes)).unwrap();
    rfc3339(then.duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

#[test]
fn an_instance_is_listed_with_all_its_fields() {
    let yard = Yard::start("");
    let server = Server::start();
    yard.write_instance("toolyard", "a.json", &server.file("a").to_string());
    let mut agent = yard.agent();
    let listed = eventually("an active instance", || {
        let listed = agent.call("yard__instances_list", &json!({}))["structuredContent"].take();
        listed["instances"].as_array()?.first().filter(|one| one["state"] == "active").cloned()
    });
    for key in [
        "id",
        "name",
        "directory",
        "path",
        "port",
        "pid",
        "process_pid",
        "state",
        "connected",
        "connected_at",
        "has_package_json",
        "discovered_at",
        "state_changed_at",
        "time_in_state",
        "total_time",
        "retry_count",
        "state_stats",
    ] {
        assert!(listed.get(key).is_some(), "{key}: {listed}");
    }
    assert_eq!((&listed["connected"], &listed["retry_count"]), (&json!(true), &json!(0)));
    assert_eq!(listed["state_stats"]["transitions"]["connecting->active"], 1, "{listed}");
}

/// A port where nothing listens, most likely.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn an_instance_that_does_not_listen_yet_is_discovered_and_connected_as_soon_as_it_does() {
    let yard = Yard::start("");
    let (port, mut agent) = (free_port(), yard.agent());
    let endpoint = format!("tcp://127.0.0.1:{port}");
    let file =
        json!({ "id": "late", "name": "shop", "directory": "/srv", "port": port, "endpoint": endpoint });
    yard.write_instance("toolyard", "late.json", &file.to_string());
    let listed = eventually("the file to be seen", || {
        find(&mut agent, "late").filter(|one| one["reason"].is_string())
    });
    assert_eq!((&listed["state"], &listed["connected"]), (&json!("discovered"), &json!(false)), "{listed}");
    assert_eq!(listed["reason"], format!("nothing listens at {endpoint} yet"));
    // Everywhere else, too, and without delay.
    let began = Instant::now();
    let mut hub = Agent::in_view(&yard, "hub");
    let listed = hub.call("instances_list", &json!({}))["structuredContent"]["instances"][0].take();
    assert_eq!((&listed["id"], &listed["state"]), (&json!("late"), &json!("discovered")), "{listed}");
    let failed = hub.call("instances_connect", &json!({ "instance_id": "late" }));
    assert!(failed["isError"] == true && failed.to_string().contains("nothing listens at"), "{failed}");
    let (_, text) = yard.run(&["list"]);
    let row = text.lines().find(|line| line.starts_with("late")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["late", "discovered", "0", "instance"]);
    assert!(text.contains("nothing listens at"), "{text}");
    let (_, json) = yard.run(&["list", "--json"]);
    let entries = serde_json::from_str::<Vec<Value>>(&json).unwrap();
    let entry = entries.iter().find(|entry| entry["id"] == "late").unwrap();
    assert_eq!(
        (&entry["id"], &entry["kind"], &entry["live"]["state"]),
        (&json!("late"), &json!("instance"), &json!("discovered"))
    );
    let (_, text) = yard.run(&["doctor"]);
    assert!(text.contains(&format!("late at {endpoint}")), "{text}");
    let row = text.lines().find(|line| line.starts_with("late ")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[..3], ["late", "instance", "discovered"]);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // It is connected at once, without the pauses after failed attempts.
    let listener = Listener::Tcp(TcpListener::bind(("127.0.0.1", port)).unwrap());
    let _app = App::accept(&listener, "late", &["draw"]);
    agent.wait_for_tools(&["late__draw"]);
    let listed = find(&mut agent, "late").unwrap();
    assert_eq!((&listed["state"], &listed["retry_count"]), (&json!("active"), &json!(0)), "{listed}");
    assert_eq!(listed["state_stats"]["transitions"]["discovered->connecting"], 1, "{listed}");
}
