//! A child of a pack with a grandchild, in the real gateway: it survives the death of another upstream's guard, and ends
//! with the pack, with a reload, and with the gateway however that ends. The pack is `scripts`, which runs the dev server
//! of a project.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use toolyard_model::processes::Process;

use crate::http;
use crate::yard::{Gateway, OPERATOR, Yard, command_line, none, soon};

/// A dev server with a helper in a session of its own that ignores TERM.
const DEV: &str =
    "(setsid sh -c 'trap \"\" TERM HUP; exec sleep 998' </dev/null >/dev/null 2>&1 &)\nexec sleep 999\n";

const PACK: &str = "[packs.scripts]\nroot = \".\"\n";

struct Scene {
    yard: Yard,
    gateway: Gateway,
}

impl Scene {
    fn new() -> Self {
        let yard = Yard::new(&["forks"]);
        yard.also(&format!(
            "[listen]\ntoken = \"{OPERATOR}\"\n{PACK}commands = {{ dev = [\"sh\", \"dev.sh\"] }}\n"
        ));
        std::fs::write(yard.folder().join("dev.sh"), DEV).unwrap();
        assert!(yard.toolyard().arg("trust").arg(yard.folder()).output().unwrap().status.success());
        let gateway = yard.start();
        Self { yard, gateway }
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        http::read(self.gateway.begin_as_operator(tool, arguments)).message()["result"].clone()
    }

    /// Starts the dev server; it and its helper.
    fn start_dev(&self) -> Vec<Process> {
        let started = self.call("scripts__run", &json!({ "script": "dev" }));
        assert_eq!(started["structuredContent"]["state"], "running", "{started}");
        soon("the dev server and its helper", || {
            let found = self.dev();
            if found.len() == 2 { Ok(found) } else { Err(format!("{found:?}")) }
        })
    }

    fn dev(&self) -> Vec<Process> {
        let is_dev = |process: &Process| command_line(process.id).starts_with("sleep 99");
        self.yard.processes().into_iter().filter(is_dev).collect()
    }

    /// What `toolyard doctor` prints about the work of packs.
    fn doctor(&self) -> String {
        let mut command = self.yard.toolyard();
        command.args(["doctor", "--config", "config.toml", "--state-dir", "state"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let section = text.split("\n\n").find(|section| section.contains("background work of packs"));
        section.unwrap_or_default().to_owned()
    }

    fn ends(&self, dev: &[Process], why: &str) {
        soon(&format!("the end of both after {why}"), || none(&self.yard.left_of(dev)));
    }

    /// The guard of the upstream `forks`.
    fn other_guard(&self) -> Process {
        let is_guard = |process: &Process| {
            let line = command_line(process.id);
            line.starts_with("toolyard guard") && line.contains("upstream.sh")
        };
        soon("the guard of the other upstream", || {
            self.yard.processes().into_iter().find(is_guard).ok_or_else(|| "none".to_owned())
        })
    }
}

#[test]
fn a_child_of_a_pack_survives_another_guard_and_ends_with_the_pack_a_reload_and_the_gateway() {
    let mut scene = Scene::new();
    assert_eq!(scene.doctor(), "", "the pack is idle");
    let dev = scene.start_dev();
    let doctor = scene.doctor();
    let rows: Vec<Vec<&str>> = doctor.lines().map(|line| line.split_whitespace().collect()).collect();
    let of_pack: Vec<&[&str]> =
        rows.iter().filter(|row| row.first() == Some(&"scripts")).map(|row| &row[1..]).collect();
    let [work, child] = of_pack.as_slice() else { panic!("{doctor}") };
    assert_eq!(*work, ["-", "dev#1"], "background work has no process: {doctor}");
    let is_running = scene.yard.processes().iter().any(|process| process.id.to_string() == child[0]);
    assert!(child[1] == "sh" && is_running, "{doctor}");
    soon("the other upstream", || match scene.call("forks__go", &json!({})) {
        result if result["content"][0]["text"] == "well" => Ok(()),
        result => Err(result.to_string()),
    });
    let guard = scene.other_guard();
    kill(Pid::from_raw(guard.id), Signal::SIGKILL).unwrap();
    soon("the other upstream is back", || match scene.call("forks__go", &json!({})) {
        result if result["content"][0]["text"] == "well" && scene.other_guard().id != guard.id => Ok(()),
        result => Err(result.to_string()),
    });
    assert_eq!(scene.yard.left_of(&dev).len(), 2, "another upstream's guard is not theirs");

    scene.call("scripts__stop", &json!({ "script": "dev" }));
    scene.ends(&dev, "the pack stopped it");

    let dev = scene.start_dev();
    let config = scene.yard.folder().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let other = text.replace("[\"sh\", \"dev.sh\"]", "[\"sh\", \"./dev.sh\"]");
    std::fs::write(&config, other).unwrap();
    scene.ends(&dev, "a reload replaced the pack");

    let dev = soon("the new pack", || match scene.call("scripts__list", &json!({})) {
        listed if listed["isError"] == true => Err(listed.to_string()),
        _ => Ok(scene.start_dev()),
    });
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.split(PACK).next().unwrap()).unwrap();
    scene.ends(&dev, "a reload removed the pack");
    std::fs::write(&config, text).unwrap();

    let dev = soon("the pack is back", || match scene.call("scripts__list", &json!({})) {
        listed if listed["structuredContent"].is_null() => Err(listed.to_string()),
        _ => Ok(scene.start_dev()),
    });
    scene.gateway.signal(Signal::SIGKILL);
    scene.ends(&dev, "kill -9 of the gateway");

    scene.gateway = scene.yard.start();
    let dev = scene.start_dev();
    scene.gateway.signal(Signal::SIGTERM);
    scene.ends(&dev, "the gateway ended");
}
