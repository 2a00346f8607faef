//! Agents that agents have started, and their questions: the user who started the outermost one sees them, answers for
//! them and ends them. Other principals do not see them.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_proto::token::Secret;

use crate::agents::{Client, Scene, wish};
use crate::yard::{Gateway, soon};
use crate::{http, wire};

/// Asks for a permission, and reports the option that it got.
const ASKS: &str = r#"
read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read line
echo '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"toolCall":{"title":"rm x","kind":"execute"},"options":[{"optionId":"allow","kind":"allow_once"},{"optionId":"reject","kind":"reject_once"}]}}'
read answer
word=${answer#*optionId\":\"}; word=${word%%\"*}
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
"#;

/// Further types: `delphi` asks, `frontend` works until it is ended.
fn scene(more: &str) -> Scene {
    Scene::new(&format!(
        "{more}[packs.agents.types.delphi]\nprogram = \"acp\"\ncommand = [\"sh\", \"-c\", {}]\n\
         [packs.agents.types.frontend]\nprogram = \"command\"\ncommand = [\"sh\", \"-c\", \"echo up; exec sleep 1000\"]\n",
        // `$${` is a literal `${` in a config.
        toml::Value::from(ASKS.replace("${", "$${"))
    ))
}

impl Client<'_> {
    /// Starts an agent that has no token.
    fn start(&self, kind: &str) -> String {
        let spawned = self.call("agents__agent_spawn", &wish(kind));
        let id = spawned["structuredContent"]["id"].as_str();
        id.unwrap_or_else(|| panic!("{spawned}")).to_owned()
    }

    fn output(&self, id: &str) -> Value {
        self.call("agents__agent_output", &json!({ "task_id": id }))
    }

    /// Waits for an agent, and answers the one question that comes meanwhile.
    fn wait_and_answer(&self, id: &str, allow: bool) -> Value {
        let mut params =
            json!({ "name": "agents__agent_output", "arguments": { "task_id": id, "block": true } });
        let asked = self.request("tools/call", params.clone()).message()["result"].clone();
        params["inputResponses"] = answer(&asked, allow);
        params["requestState"] = asked["requestState"].clone();
        self.request("tools/call", params).message()["result"]["structuredContent"].clone()
    }

    fn ids(&self) -> Vec<String> {
        let listed = self.call("agents__agent_list", &json!({}))["structuredContent"]["result"].clone();
        let ids = listed.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
        ids.collect()
    }
}

fn answer(asked: &Value, allow: bool) -> Value {
    let questions = asked["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let (key, question) = questions.iter().next().unwrap();
    assert!(question.to_string().contains("asks to run: rm x (execute)"), "{question}");
    json!({ key: { "action": "accept", "content": { "allow": allow } } })
}

#[test]
fn what_an_agent_asks_is_put_to_the_client_that_waits_for_it_and_its_answer_counts() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    for (allow, expected) in [(true, "allow"), (false, "reject")] {
        let id = user.start("delphi");
        let ended = user.wait_and_answer(&id, allow);
        assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!(expected)), "{ended}");
    }
}

#[test]
fn what_an_agent_asks_is_put_to_a_legacy_client_on_the_stream_of_its_call() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let user = ("authorization", "Bearer user");
    let session = wire::open_session_of(gateway.url(), user, &json!({ "elicitation": {} }));
    let headers = wire::borrowed(&session);
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        wire::messages(http::send(gateway.url(), &headers, &message))
    };
    for (allow, expected) in [(true, "allow"), (false, "reject")] {
        let spawned = call("agents__agent_spawn", wish("delphi")).last().unwrap();
        let id = spawned["result"]["structuredContent"]["id"].clone();
        let (mut questions, mut ended) = (Vec::new(), Value::Null);
        for message in call("agents__agent_output", json!({ "task_id": id, "block": true })) {
            if message["method"] == "elicitation/create" {
                let content = json!({ "action": "accept", "content": { "allow": allow } });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": content });
                assert_eq!(http::post(gateway.url(), &headers, &answer).status, 202);
                questions.push(message["params"]["message"].as_str().unwrap().to_owned());
            } else if message["id"] == 1 {
                ended = message["result"]["structuredContent"].clone();
            }
        }
        assert_eq!(questions.len(), 1, "{questions:?}");
        assert!(questions[0].contains("asks to run: rm x (execute)"), "{questions:?}");
        assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!(expected)), "{ended}");
    }
}

#[test]
fn what_an_agent_asks_as_a_task_is_answered_by_another_client_of_its_owner() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let mut blocking = wish("delphi");
    blocking["blocking"] = json!(true);
    let params = json!({ "name": "agents__agent_spawn", "arguments": blocking });
    let task =
        Client::new(&gateway, "user", "/mcp").request("tools/call", params).message()["result"]["taskId"]
            .clone();
    let other = Client::new(&gateway, "user", "/mcp");
    let asked = soon("the question", || {
        let asked = other.task(&task);
        if asked["status"] == "input_required" { Ok(asked) } else { Err(asked.to_string()) }
    });
    let answer = json!({ "taskId": task, "inputResponses": answer(&asked, true) });
    other.request("tasks/update", answer);
    let done = soon("the end of the task", || {
        let done = other.task(&task);
        if done["status"] == "completed" { Ok(done) } else { Err(done.to_string()) }
    });
    assert_eq!(done["result"]["structuredContent"]["result"], "allow", "{done}");
}

#[test]
fn what_a_nested_agent_asks_is_put_to_the_user_and_not_to_the_agent_that_started_it() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (lead_id, token) = user.spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let id = lead.start("delphi");
    let waiting = |client: &Client<'_>, id: &str| {
        soon("the question", || {
            let text = client.output(id)["content"][0]["text"].as_str().unwrap().to_owned();
            if text.contains("It waits for an answer") { Ok(text) } else { Err(text) }
        })
    };
    assert!(waiting(&lead, &id).contains("The user who started you can answer."));
    assert!(waiting(&user, &lead_id).contains("Call `agent_output` with `block` to answer."));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| user.wait_and_answer(&lead_id, true));
        soon("the end of the nested agent", || {
            let run = user.output(&id)["structuredContent"].clone();
            if run["result"] == "allow" { Ok(()) } else { Err(run.to_string()) }
        });
        scene.go();
        assert_eq!(
            waits.join().unwrap()["status"],
            "completed",
            "the user waits for the agent that it started"
        );
    });
}

#[test]
fn an_agent_that_is_cancelled_takes_those_that_it_has_started_with_it() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (lead_id, token) = user.spawn("stravinsky");
    let nested = Client::new(&gateway, &token, "/mcp/p/work").start("frontend");
    assert_eq!(user.ids(), [nested.clone(), lead_id.clone()], "the user sees both");
    assert_eq!(user.output(&nested)["structuredContent"]["status"], "running");
    user.call("agents__agent_cancel", &json!({ "task_id": lead_id }));
    let ended = user.output(&nested);
    let text = ended["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("(frontend): cancelled: the agent that started it has ended"), "{text}");
}

#[test]
fn an_agent_that_ends_ends_those_that_it_has_started_and_the_user_can_cancel_one_of_them() {
    let scene = scene("");
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let (_, token) = user.spawn("stravinsky");
    let lead = Client::new(&gateway, &token, "/mcp/p/work");
    let (first, second) = (lead.start("frontend"), lead.start("frontend"));
    let cancelled = user.call("agents__agent_cancel", &json!({ "task_id": first }));
    assert_eq!(cancelled["structuredContent"]["error"], "by request", "{cancelled}");
    assert_eq!(user.output(&second)["structuredContent"]["status"], "running");
    scene.go();
    soon("the end of the nested agent", || {
        let run = user.output(&second)["structuredContent"].clone();
        if run["error"] == "the agent that started it has ended" { Ok(()) } else { Err(run.to_string()) }
    });
}

/// The events that a principal reads.
fn events(gateway: &Gateway, token: &str) -> Lines<BufReader<TcpStream>> {
    let address = gateway.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    lines.find(|line| line.as_ref().unwrap().is_empty()).unwrap().unwrap();
    lines
}

/// The ids of the agents whose ends are in the events, up to the end of this one.
fn ends(events: Lines<BufReader<TcpStream>>, last: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for line in events.map(Result::unwrap) {
        let Some(event) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(event).unwrap();
        if event["pack"] == "agents" && event["event"]["status"].is_string() {
            ids.push(event["event"]["agent"].as_str().unwrap().to_owned());
        }
        if ids.last().is_some_and(|id| id == last) {
            break;
        }
    }
    ids
}

#[test]
fn a_principal_reads_the_events_of_its_own_agents_and_those_below_them_and_of_no_others() {
    let secret = "YSBzZWNyZXQgdGhhdCBpcyBsb25nIGVub3VnaCBmb3IgYSB0ZXN0";
    let scene = scene("");
    let config = scene.yard.folder().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let listen = "[listen]\noperator_token = \"an-operator-of-this-test\"\n";
    let text = text.replacen("[listen]\n", listen, 1) + &format!("[auth]\nsecret = \"{secret}\"\n");
    std::fs::write(&config, text).unwrap();
    let gateway = scene.yard.start();
    let bearer = Secret::parse(secret).unwrap().bearer();
    let (user, other) = (Client::new(&gateway, "user", "/mcp"), Client::new(&gateway, &bearer, "/mcp"));
    let (of_user, of_other) = (events(&gateway, "user"), events(&gateway, &bearer));
    let (lead_id, token) = user.spawn("stravinsky");
    let nested = Client::new(&gateway, &token, "/mcp/p/work").start("frontend");
    user.call("agents__agent_cancel", &json!({ "task_id": nested }));
    user.call("agents__agent_cancel", &json!({ "task_id": lead_id }));
    let foreign = other.start("frontend");
    other.call("agents__agent_cancel", &json!({ "task_id": foreign }));
    let own = user.start("frontend");
    user.call("agents__agent_cancel", &json!({ "task_id": own }));
    assert_eq!(ends(of_user, &own), [nested, lead_id, own]);
    assert_eq!(ends(of_other, &foreign), [foreign]);
}
