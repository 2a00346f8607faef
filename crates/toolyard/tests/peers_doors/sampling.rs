//! The server `everything` asks the client's model, and the client has none: a model of the config answers.

use serde_json::json;

use crate::gateway::Home;
use crate::http;
use crate::installed;
use crate::provider::{Provider, compatible};

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn the_server_everything_samples_through_a_client_that_cannot() {
    let model = Provider::start(compatible("an answer of the gateway's model"));
    let (node, npm) = installed::npm();
    let script = format!("{npm}/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let home = Home::new();
    home.write(
        "config.toml",
        &format!(
            "[listen]\ntoken = \"user\"\n\
             [upstreams.everything]\ncommand = \"{node}\"\nargs = [\"{script}\", \"stdio\"]\nsampling = \"model:local/m\"\n\
             [packs.models.providers.local]\nkind = \"compatible\"\nbase_url = \"{}\"\nkey = \"k\"\n",
            model.url
        ),
    );
    let gateway = home.start(&["--config", "config.toml"]);
    let arguments = json!({ "prompt": "What is a lighthouse?", "maxTokens": 50 });
    let call = json!({ "name": "everything__trigger-sampling-request", "arguments": arguments });
    let user = [("authorization", "Bearer user")];
    let answer = http::read(http::modern_with(&gateway.url, &user, "tools/call", call)).message();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(text.contains("an answer of the gateway's model"), "{text}");
    let asked = &model.asked()[0];
    assert_eq!(asked["max_tokens"], 50, "{asked}");
    assert!(asked["messages"].to_string().contains("What is a lighthouse?"), "{asked}");
}
