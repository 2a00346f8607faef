//! Agents act for the user who started them: rules and limits of that user bind them, too.

use serde_json::{Value, json};

use crate::agents::{Client, Scene};

/// The principal of the token in the config is called `token`.
const RULES: &str = "
[[rules]]
who = [\"token\"]
tools = \"dev:uuid\"
do = \"deny\"
[[rules]]
who = [\"token\"]
tools = \"dev:echo\"
do = \"approve\"
[[rules]]
tools = \"dev:hash\"
when = \"who.name == 'token'\"
do = \"deny\"
[[rules]]
who = [\"token/*\"]
tools = \"dev:time_now\"
do = \"hide\"
";

#[test]
fn rules_that_name_a_user_bind_the_agents_of_that_user() {
    let scene = Scene::new(RULES);
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let agent = Client::new(&gateway, &user.spawn("explore").1, "/mcp/p/work");
    let texts = |client: &Client<'_>, tool: &str, arguments: Value| client.refused(tool, &arguments);
    for client in [&user, &agent] {
        let denied = texts(client, "dev__uuid", json!({}));
        assert!(denied.contains("dev:uuid is denied to token"), "{denied}");
        let denied = texts(client, "dev__hash", json!({ "text": "x" }));
        assert!(denied.contains("dev:hash is denied to token"), "{denied}");
    }
    let names = |client: &Client<'_>| {
        let listed = client.request("tools/list", json!({})).message()["result"]["tools"].to_string();
        ["dev__uuid", "dev__time_now", "dev__echo"].map(|name| listed.contains(&format!("{name:?}")))
    };
    assert_eq!((names(&user), names(&agent)), ([false, true, true], [false, false, true]));
}

#[test]
fn an_agent_cannot_approve_its_own_calls() {
    let scene = Scene::new(RULES);
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let agent = Client::new(&gateway, &user.spawn("explore").1, "/mcp/p/work");
    let echo = json!({ "text": "x" });
    assert_eq!(user.call("dev__echo", &echo)["resultType"], "input_required", "the user is asked");
    let refused = agent.refused("dev__echo", &echo);
    assert!(
        refused.contains("dev:echo needs the approval of an operator, which is pending as "),
        "{refused}"
    );
}

#[test]
fn a_limit_for_each_principal_counts_the_calls_of_its_agents() {
    let scene = Scene::new(
        "[limits.few]\nwindow = \"2/1h\"\nmax_wait = \"10ms\"\nper = \"principal\"\n\
         [tools.\"dev:echo\"]\nlimits = [\"few\"]\n",
    );
    let gateway = scene.yard.start();
    let user = Client::new(&gateway, "user", "/mcp");
    let agents = [(); 2].map(|()| Client::new(&gateway, &user.spawn("explore").1, "/mcp/p/work"));
    for client in [&user, &agents[0]] {
        let answer = client.call("dev__echo", &json!({ "text": "x" }));
        assert_ne!(answer["isError"], true, "{answer}");
    }
    let refused = agents[1].refused("dev__echo", &json!({ "text": "x" }));
    assert!(refused.contains("limit `few` refused a call of dev:echo"), "{refused}");
}
