//! Prompts, resources, templates, completions, and what is announced.

use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Contents, Context, Messages, ToolError, ToolSet, Typed, tool};

use crate::support::Client;

/// The readme.
#[tool(
    resource = "doc://readme",
    title = "Readme",
    mime = "text/plain",
    icon = "https://example.com/book.svg"
)]
async fn readme() -> &'static str {
    "Read me."
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    book: String,
    number: u32,
}

/// A page.
#[tool(template = "book://{book}/{number}", icon = "https://example.com/page.svg")]
fn page(page: Page) -> Result<Contents, ToolError> {
    if page.number > 9 {
        return Err(ToolError::not_found("there are 9 pages"));
    }
    Ok(Contents::bytes(format!("{} {}", page.book, page.number).as_bytes()).mime("image/x-page"))
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The programming language.
    language: String,
    lines: Option<u32>,
}

/// Reviews code.
#[tool(prompt, name = "review-code", icon = "https://example.com/a.svg", icon = "data:,")]
async fn review(review: Review) -> Messages {
    Messages::new().user(format!("Review {} {:?}", review.language, review.lines)).assistant("Yes.")
}

/// Greets the user.
#[tool(prompt)]
async fn hello() -> String {
    "Hello".into()
}

/// Languages.
#[tool(completes = "review-code", argument = "language")]
async fn languages(typed: Typed) -> Vec<String> {
    let lines = typed.others.get("lines").cloned().unwrap_or_default();
    (0..150).map(|n| format!("{}{lines}{n}", typed.text)).collect()
}

/// Touches the readme.
#[tool]
async fn touch(context: &Context) {
    context.resource_updated("doc://readme");
    context.resource_updated("doc://other");
}

/// Needs to know.
#[tool(prompt)]
async fn asks(context: &Context) -> Result<String, ToolError> {
    Ok(format!("{} folders", context.roots().await?.len()))
}

fn set() -> ToolSet {
    ToolSet::new("items", "1")
        .with::<readme>()
        .with::<page>()
        .with::<review>()
        .with::<hello>()
        .with::<languages>()
        .with::<touch>()
}

async fn ask(method: &str, params: Value) -> Value {
    Client::newest().request(&set(), method, params).await.unwrap()
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let listed = json!([{
        "uri": "doc://readme", "name": "readme", "title": "Readme", "description": "The readme.", "mimeType": "text/plain",
        "icons": [{ "src": "https://example.com/book.svg" }],
    }]);
    assert_eq!(ask("resources/list", json!({})).await["resources"], listed);
    let templates = json!([{
        "uriTemplate": "book://{book}/{number}", "name": "page", "description": "A page.",
        "icons": [{ "src": "https://example.com/page.svg" }],
    }]);
    assert_eq!(ask("resources/templates/list", json!({})).await["resourceTemplates"], templates);
    let read = ask("resources/read", json!({ "uri": "doc://readme" })).await;
    assert_eq!(
        read["contents"],
        json!([{ "uri": "doc://readme", "mimeType": "text/plain", "text": "Read me." }])
    );
    assert_eq!(read["cacheScope"], "private");
    let read = ask("resources/read", json!({ "uri": "book://a%20b/7" })).await;
    assert_eq!(
        read["contents"],
        json!([{ "uri": "book://a%20b/7", "mimeType": "image/x-page", "blob": "YSBiIDc=" }])
    );
}

#[tokio::test]
async fn a_set_has_icons_of_its_own() {
    let set = ToolSet::new("items", "1").icon("https://example.com/set.svg").with::<touch>();
    let discovered = Client::newest().request(&set, "server/discover", json!({})).await.unwrap();
    let info = &discovered["_meta"]["io.modelcontextprotocol/serverInfo"];
    let expected =
        json!({ "name": "items", "version": "1", "icons": [{ "src": "https://example.com/set.svg" }] });
    assert_eq!(*info, expected, "{discovered}");
}

#[tokio::test]
async fn missing_items_are_reported_as_not_found() {
    for (uri, message) in
        [("doc://nothing", "resource not found: doc://nothing"), ("book://a/10", "there are 9 pages")]
    {
        let error =
            Client::newest().request(&set(), "resources/read", json!({ "uri": uri })).await.unwrap_err();
        assert_eq!((error.code(), error.message().as_str()), (-32602, message));
    }
}

#[tokio::test]
async fn prompts_are_listed_and_made() {
    let listed = ask("prompts/list", json!({})).await;
    assert_eq!(
        listed["prompts"],
        json!([
            {
                "name": "review-code",
                "description": "Reviews code.",
                "arguments": [
                    { "name": "language", "description": "The programming language.", "required": true },
                    { "name": "lines", "required": false },
                ],
                "icons": [{ "src": "https://example.com/a.svg" }, { "src": "data:," }],
            },
            { "name": "hello", "description": "Greets the user." },
        ])
    );
    let arguments = json!({ "language": "12", "lines": "7" });
    let made = ask("prompts/get", json!({ "name": "review-code", "arguments": arguments })).await;
    assert_eq!(made["messages"][0]["content"]["text"], "Review 12 Some(7)");
    assert_eq!(made["messages"][1]["role"], "assistant");
    let error =
        Client::newest().request(&set(), "prompts/get", json!({ "name": "review-code" })).await.unwrap_err();
    assert_eq!(error.code(), -32602);
    assert!(error.message().contains("`language` is missing"), "{}", error.message());
}

#[tokio::test]
async fn completions_are_cut_at_a_hundred() {
    let reference = json!({ "type": "ref/prompt", "name": "review-code" });
    let argument = json!({ "name": "language", "value": "ru" });
    let context = json!({ "arguments": { "lines": "-" } });
    let params = json!({ "ref": reference, "argument": argument, "context": context });
    let completion = ask("completion/complete", params).await["completion"].clone();
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&completion["values"][0], &completion["total"], &completion["hasMore"]),
        (&json!("ru-0"), &json!(150), &json!(true))
    );
    let params =
        json!({ "ref": { "type": "ref/prompt", "name": "hello" }, "argument": { "name": "x", "value": "" } });
    assert_eq!(ask("completion/complete", params).await["completion"]["values"], json!([]));
}

#[tokio::test]
async fn a_listener_receives_what_it_subscribed_to_and_nothing_else() {
    let (set, listener) = (set(), Client::newest());
    let wishes =
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["doc://readme", "doc://nothing"] });
    let listening = listener.start(&set, "subscriptions/listen", json!({ "notifications": wishes }));
    let acting = async {
        tokio::task::yield_now().await;
        Client::newest().call(&set, "touch", json!({})).await;
        set.changes().tools_changed();
        set.changes().prompts_changed();
        while listener.notifications().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = listening => panic!("it listens for as long as the client does"),
        () = acting => {}
    }
    let honoured = json!({ "toolsListChanged": true, "resourceSubscriptions": ["doc://readme"] });
    assert_eq!(
        listener.notifications(),
        [
            json!(["notifications/subscriptions/acknowledged", { "notifications": honoured }]),
            json!(["notifications/resources/updated", { "uri": "doc://readme" }]),
            json!(["notifications/tools/list_changed", null]),
        ]
    );
}

#[tokio::test]
async fn the_error_code_distinguishes_a_missing_capability_from_an_invalid_variable() {
    let set = ToolSet::new("items", "1").with::<page>().with::<asks>();
    let code = async |method: &str, params: Value| {
        Client::newest().request(&set, method, params).await.unwrap_err().code()
    };
    assert_eq!(code("prompts/get", json!({ "name": "asks" })).await, -32021, "the client cannot do it");
    let not_a_number = json!({ "uri": "book://a/seven" });
    assert_eq!(code("resources/read", not_a_number).await, -32602, "a variable is not valid");
}
