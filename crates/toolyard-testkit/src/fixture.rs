//! The conformance fixture: a [`Handler`] with the tools, resources and prompts that the official suite
//! calls, plus a few of our own that show whether a payload came through unchanged.
//!
//! Its answers depend on the request alone, so that an answer through a gateway can be compared with a
//! direct one byte by byte. What changes does so only when a tool is called for it (`test_trigger_*`).

mod asks;
mod call;
mod changes;
mod completion;
mod content;
mod headers;
mod interactive;
mod live;
mod plain;
mod prompts;
mod resources;
mod rounds;
mod seal;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;

use serde_json::{Value, json};
use toolyard_proto::error::code::{INVALID_PARAMS, UNSUPPORTED_VERSION};
use toolyard_proto::modern::{LogLevel, TASKS_EXTENSION, stamp_cache, stamp_result};
use toolyard_proto::{CallError, Method, Notification, Raw, Revision};
use toolyard_transport::{Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Request};

use self::asks::Outcome;
use self::call::Call;
use self::changes::Changes;
use self::prompts::Prompt;
use self::tasks::Tasks;

/// How long clients may keep a list or a resource: as long as nothing is announced.
const TTL_MS: u64 = 300_000;

/// Whose requests are answered at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eras {
    #[default]
    Both,
    /// Modern requests are met as by a server that never heard of them.
    Legacy,
    /// An `initialize` is told which versions are spoken.
    Modern,
}

/// The server under test. Cheap to clone; clones are the same server.
#[derive(Clone, Debug, Default)]
pub struct Fixture {
    eras: Eras,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    changes: Changes,
    tasks: Tasks,
}

impl Fixture {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn speaking(eras: Eras) -> Self {
        Self { eras, shared: Arc::default() }
    }
}

impl Eras {
    fn speak(self, revision: Revision) -> bool {
        match self {
            Self::Both => true,
            Self::Legacy => !revision.is_modern(),
            Self::Modern => revision.is_modern(),
        }
    }

    fn versions(self) -> Vec<&'static str> {
        let spoken = Revision::ALL.into_iter().rev().filter(|revision| self.speak(*revision));
        spoken.map(Revision::as_str).collect()
    }

    fn refusal(self, request: &Request) -> CallError {
        if self == Self::Legacy {
            return CallError::unknown_method(request.method.as_str());
        }
        let data = json!({ "supported": self.versions(), "requested": request.origin.revision.as_str() });
        let message = "this server speaks no legacy version";
        CallError::reported(json!({ "code": UNSUPPORTED_VERSION, "message": message, "data": data }).into())
    }
}

impl Handler for Fixture {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        let eras = self.eras;
        if !eras.speak(request.origin.revision) {
            let refusal = eras.refusal(&request);
            return Box::pin(async { Err(refusal) });
        }
        let call = Call::new(request, peer, self.shared.clone());
        Box::pin(async move {
            let method = call.request.method.clone();
            let result = answer(call, eras).await?;
            Ok(AnswerBody::ours(stamp(&method, &result.into())))
        })
    }

    fn notice(&self, _: &Arc<Origin>, _: Notification) {}

    fn ended(&self, _: &ClientKey) {}
}

async fn answer(call: Call, eras: Eras) -> Result<Value, CallError> {
    let changes = &call.shared.changes;
    match call.request.method.as_str() {
        "server/discover" => Ok(discover(eras)),
        "tools/list" => Ok(tools::list(changes.tools())),
        "tools/call" => tools::call(call).await,
        "resources/list" => Ok(resources::list(changes.resources())),
        "resources/templates/list" => Ok(resources::templates()),
        "resources/read" => read(&call),
        "prompts/list" => Ok(prompts::list(changes.prompts())),
        "prompts/get" => prompt(&call).await,
        "completion/complete" => Ok(completion::complete(&call.params)),
        "logging/setLevel" => set_level(&call),
        "subscriptions/listen" => Ok(changes::listen(&call).await),
        "tasks/get" | "tasks/update" | "tasks/cancel" if call.is_modern() => tasks::answer(&call),
        other => Err(CallError::unknown_method(other)),
    }
}

fn discover(eras: Eras) -> Value {
    json!({
        "supportedVersions": eras.versions(),
        "capabilities": {
            "tools": { "listChanged": true },
            "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "completions": {},
            "logging": {},
            "extensions": { TASKS_EXTENSION: {} },
        },
        "instructions": "A server for tests: call what you like, nothing happens.",
    })
}

fn read(call: &Call) -> Result<Value, CallError> {
    let uri = call.text("uri");
    resources::read(uri, call.shared.changes.updates()).ok_or_else(|| {
        let error =
            json!({ "code": INVALID_PARAMS, "message": "resource not found", "data": { "uri": uri } });
        CallError::reported(error.into())
    })
}

async fn prompt(call: &Call) -> Result<Value, CallError> {
    let name = call.text("name");
    match prompts::find(name) {
        None => Err(CallError::invalid_params(format!("unknown prompt: {name}"))),
        Some(Prompt::Plain(make)) => Ok(make(&call.arguments())),
        Some(Prompt::Asking(conversation)) => match asks::converse(call, name, conversation).await? {
            Outcome::Result(result) => Ok(result),
            Outcome::Refused(choice) => {
                Err(CallError::invalid_params(format!("the user chose: {choice}, so there is no prompt")))
            }
        },
    }
}

fn set_level(call: &Call) -> Result<Value, CallError> {
    let level = LogLevel::parse(call.text("level"))
        .ok_or_else(|| CallError::invalid_params("`level` is none of the known log levels"))?;
    call.request.origin.log_level.set(level);
    Ok(json!({}))
}

/// The result in its complete modern form.
fn stamp(method: &Method, result: &Raw) -> Raw {
    let info = json!({ "name": "toolyard-fixture", "version": env!("CARGO_PKG_VERSION") });
    let result = stamp_result(result, Some(&info.into()));
    let final_result = result.member("resultType").is_some_and(|kind| kind.as_str() == r#""complete""#);
    match method.as_str() {
        "server/discover" | "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            stamp_cache(&result, TTL_MS, "public")
        }
        "resources/read" if final_result => stamp_cache(&result, TTL_MS, "private"),
        _ => result,
    }
}
