//! A set answers by itself, in memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_proto::{CallError, Id, Method, Raw, Revision};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, ToolError, ToolSet, tool};
use toolyard_transport::*;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// First.
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema, Debug, PartialEq)]
struct Sum {
    total: i64,
}

/// Adds two
/// numbers.
#[tool(read_only, title = "Add")]
async fn add(args: Add) -> Sum {
    Sum { total: args.a + args.b }
}

struct Library(Vec<String>);

/// Lists.
#[tool]
fn list(context: &Context, library: &Library) -> Result<Vec<String>, ToolError> {
    context.info("listing");
    Ok(library.0.clone())
}

/// Nothing.
#[tool]
async fn nothing() {}

fn origin() -> Arc<Origin> {
    Origin::gateway(Raw::empty_object(), Raw::empty_object())
}

async fn call(set: &dyn Handler, method: &str, params: Value) -> Result<Value, CallError> {
    let request = Request {
        origin: origin(),
        id: Id::number(1),
        method: Method::new(method),
        params: params.into(),
        headers: None,
        relay: false,
    };
    match set.handle(request, Peer::nobody()).await? {
        AnswerBody::Whole(raw, Revision::NEWEST) => Ok(raw.read().unwrap()),
        _ => panic!(),
    }
}

#[tokio::test]
async fn first() {
    let set = ToolSet::new("t", "1").with(add).with(nothing).state(Library(vec!["x".into()])).with(list);
    println!("{:#}", call(&set, "tools/list", json!({})).await.unwrap());
    println!("{:#}", call(&set, "server/discover", json!({})).await.unwrap());
    println!(
        "{:#}",
        call(&set, "tools/call", json!({"name":"add","arguments":{"a":1,"b":2}})).await.unwrap()
    );
    println!(
        "{:#}",
        call(&set, "tools/call", json!({"name":"add","arguments":{"a":1,"c":2}})).await.unwrap()
    );
    println!("{:#}", call(&set, "tools/call", json!({"name":"list"})).await.unwrap());
    println!("{:#}", call(&set, "tools/call", json!({"name":"nothing"})).await.unwrap());
    assert_eq!(add(Add { a: 1, b: 2 }).await, Sum { total: 3 });
    assert_eq!(list(&Context::detached(), &Library(vec![])).unwrap(), Vec::<String>::new());
}
