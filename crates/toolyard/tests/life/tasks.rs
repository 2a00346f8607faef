//! Tasks of the pack `agents` with a client of 2025-11-25, through `kill -9` of the gateway between their steps; and a
//! call that is not a task and takes longer than its deadline without a progress token.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::shims::Client;
use crate::yard::{Yard, command_line, soon};

/// An agent that runs `script` in its project.
fn scene(script: &str, more: &str) -> (Yard, tempfile::TempDir) {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let folder = toml::Value::from(project.path().to_str().unwrap());
    let script = toml::Value::from(script);
    yard.also(&format!(
        "[packs.agents]\nprojects = [{folder}]\n[packs.agents.types.explore]\nprogram = \"command\"\n\
         command = [\"sh\", \"-c\", {script}]\n{more}"
    ));
    (yard, project)
}

fn spawn_params(name: &str) -> Value {
    let arguments = json!({ "prompt": "go", "agent_type": "explore", "blocking": true });
    json!({ "name": name, "arguments": arguments })
}

/// The client of the tasks, whose shim starts another gateway where one was killed.
struct Owner {
    yard: Yard,
    client: Client,
}

impl Owner {
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.client.ask(method, params)
    }

    fn start(&mut self) -> Value {
        let mut params = spawn_params("agent_spawn");
        params["task"] = json!({});
        let started = self.ask("tools/call", &params)["result"]["task"].clone();
        assert_eq!(started["status"], "working", "{started}");
        json!({ "taskId": started["taskId"] })
    }

    fn status(&mut self, task: &Value) -> Value {
        self.ask("tasks/get", task)["result"]["status"].clone()
    }

    fn listed(&mut self) -> Vec<String> {
        let listed = self.ask("tasks/list", &json!({}))["result"]["tasks"].clone();
        let mut all: Vec<String> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["status"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all
    }

    fn kill_gateway(&self) {
        let all = self.yard.processes();
        let gateway = all.iter().find(|process| command_line(process.id).contains("--while-needed")).unwrap();
        kill(Pid::from_raw(gateway.id), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn a_legacy_client_gets_lists_and_cancels_its_tasks_and_fetches_results_across_killed_gateways() {
    let (yard, project) = scene("while [ ! -e go ]; do sleep 0.05; done; echo finished", "");
    let client = Client::start_with(&yard, &["--upstream", "agents"]);
    let mut owner = Owner { yard, client };

    let lost = owner.start();
    assert_eq!(owner.listed(), ["working"]);
    owner.kill_gateway();
    assert_eq!(owner.status(&lost), "failed");
    let result = owner.ask("tasks/result", &lost).to_string();
    assert!(result.contains("the gateway was stopped while the task was running"), "{result}");

    let cancelled = owner.start();
    let answer = owner.ask("tasks/cancel", &cancelled);
    assert_eq!(answer["result"]["status"], "cancelled", "{answer}");
    owner.kill_gateway();
    assert_eq!(owner.status(&cancelled), "cancelled");

    let done = owner.start();
    std::fs::write(project.path().join("go"), "").unwrap();
    soon("the end of the agent", || match owner.status(&done) {
        status if status == "completed" => Ok(()),
        status => Err(status.to_string()),
    });
    let before = owner.ask("tasks/result", &done)["result"].clone();
    assert!(before.to_string().contains("finished"), "{before}");
    owner.kill_gateway();
    assert_eq!(owner.ask("tasks/result", &done)["result"]["content"], before["content"]);
    assert_eq!(owner.listed(), ["cancelled", "completed", "failed"]);
    let unknown = owner.ask("tasks/get", &json!({ "taskId": "0123456789abcdef0123456789abcdef" }));
    assert!(unknown["error"]["message"].is_string(), "{unknown}");
}

/// The pack reports progress every 2 s. Without it the call would end after 5 s.
#[test]
fn a_call_of_a_pack_that_makes_progress_outlasts_its_deadline_without_a_progress_token() {
    let (yard, _project) =
        scene("sleep 12; echo finished", "[tools.\"agents:agent_spawn\"]\ntimeout = \"5s\"\n");
    let mut client = Client::start(&yard);
    let answer = client.ask("tools/call", &spawn_params("agents__agent_spawn"));
    assert!(answer["result"]["content"].to_string().contains("finished"), "{answer}");
}
