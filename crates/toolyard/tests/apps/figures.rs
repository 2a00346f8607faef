//! Figures for people: the cost of a call to an app through the gateway, and of many instances and sessions.
//! Reported, not asserted; `cargo xtask bench --apps` prints them of a release build.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Agent, Mortal, Yard, eventually, eventually_within};

const CALLS: usize = 300;
const PICTURES: usize = 40;
const MEGABYTE: usize = 1024 * 1024;
const PATIENCE: Duration = Duration::from_mins(1);

/// An app that dialled the test instead of a gateway.
struct Direct {
    read: BufReader<TcpStream>,
    write: TcpStream,
    last: u64,
    _app: Mortal,
}

impl Direct {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = Mortal::app_at(&listener.local_addr().unwrap().to_string(), "Direct");
        let write = listener.accept().unwrap().0;
        write.set_nodelay(true).unwrap();
        let mut direct = Self { read: BufReader::new(write.try_clone().unwrap()), write, last: 0, _app: app };
        assert_eq!(direct.line()["type"], "register");
        let welcome = json!({ "type": "registered", "appId": "Direct", "sessionId": "s", "version": 1,
            "tools": [], "refused": [] });
        direct.send(&welcome);
        direct
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn call(&mut self, tool: &str, parameters: &Value) {
        self.last += 1;
        let call = json!({ "type": "toolInvocation", "correlationId": self.last, "tool": tool,
            "parameters": parameters });
        self.send(&call);
        loop {
            let line = self.line();
            if line["type"] == "toolResponse" {
                assert_eq!(line["correlationId"], self.last);
                return;
            }
        }
    }
}

/// The durations of so many calls, sorted.
fn times(count: usize, mut call: impl FnMut(usize)) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|at| {
            let began = Instant::now();
            call(at);
            began.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// The median and the 95th percentile, in milliseconds.
fn summary(times: &[Duration]) -> (f64, f64) {
    let at = |hundredth: usize| times[(times.len() - 1) * hundredth / 100].as_secs_f64() * 1e3;
    (at(50), at(95))
}

fn report(what: &str, direct: &[Duration], through: &[Duration]) {
    let ((middle, p95), (own_middle, own_p95)) = (summary(direct), summary(through));
    eprintln!(
        "{what}: directly p50 {middle:.3} ms, p95 {p95:.3} ms; through the gateway p50 {own_middle:.3} ms, p95 {own_p95:.3} ms; ratio of p95 {:.2}",
        own_p95 / p95
    );
}

#[test]
fn latency_of_three_apps_is_reported() {
    let yard = Yard::start("");
    let apps: Vec<Mortal> = (0..3).map(|at| Mortal::app(&yard, &format!("App{at}"))).collect();
    let mut agent = yard.agent();
    eventually("three apps", || (agent.tools().len() == 2 * apps.len()).then_some(()));
    let mut direct = Direct::start();
    let word = json!({ "word": "x" });
    let (small, large) = ("a trivial tool", "a picture of 1 MB");
    let picture = json!({ "bytes": MEGABYTE });
    for _ in 0..20 {
        direct.call("who", &word);
        agent.call("App0__who", &word);
    }
    let directly = times(CALLS, |_| direct.call("who", &word));
    let through = times(CALLS, |at| drop(agent.call(&format!("App{}__who", at % 3), &word)));
    report(small, &directly, &through);
    let directly = times(PICTURES, |_| direct.call("picture", &picture));
    let through = times(PICTURES, |at| {
        let answer = agent.call(&format!("App{}__picture", at % 3), &picture);
        assert_eq!(answer["content"][0]["type"], "image");
    });
    report(large, &directly, &through);
}

/// Tasks, and resident memory in MB.
fn weight(yard: &Yard, agent: &mut Agent) -> (u64, f64) {
    let status = agent.call("yard__status", &json!({}))["structuredContent"].take();
    let about = std::fs::read_to_string(format!("/proc/{}/status", yard.pid())).unwrap();
    let line = about.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    (status["tasks"].as_u64().unwrap(), kilobytes / 1024.0)
}

#[test]
fn the_cost_of_a_hundred_instances_and_twenty_sessions_is_reported() {
    let yard = Yard::start("");
    let mut agent = yard.agent();
    agent.tools();
    let empty = weight(&yard, &mut agent);
    // Ten processes, each under ten names: for the gateway they are a hundred.
    let elsewhere = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..10).map(|at| format!("server{at}")).collect();
    let _servers: Vec<Mortal> = names.iter().map(|name| Mortal::hidden(elsewhere.path(), name)).collect();
    for name in &names {
        let file = elsewhere.path().join(format!("{name}.json"));
        let about: Value =
            eventually("its file", || serde_json::from_slice(&std::fs::read(&file).ok()?).ok());
        for at in 0..10 {
            let id = format!("{name}-{at}");
            let own = json!({ "id": id, "name": id, "directory": "/srv", "port": about["port"] });
            yard.write_instance("toolyard", &format!("{id}.json"), &own.to_string());
        }
    }
    eventually_within(PATIENCE, "a hundred instances", || (agent.tools().len() == 200).then_some(()));
    let found = weight(&yard, &mut agent);
    let sessions: Vec<Agent> = (0..20)
        .map(|at| {
            let mut session = Agent::in_view(&yard, "hub");
            session.call(
                "instances_connect",
                &json!({ "instance_id": format!("server{}-{}", at % 10, at / 10) }),
            );
            session.call("who", &json!({ "word": "hello" }));
            session
        })
        .collect();
    let busy = weight(&yard, &mut agent);
    let print = |what: &str, (tasks, memory): (u64, f64)| eprintln!("{what}: {tasks} tasks, {memory:.1} MB");
    print("no instance", empty);
    print("a hundred instances", found);
    print("and twenty sessions, each connected to one", busy);
    drop(sessions);
}
