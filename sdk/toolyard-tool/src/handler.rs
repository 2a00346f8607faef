//! A set as a [`Handler`]: one table from method to function, and lists that are made once.

mod lists;

use std::future::Future;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Request};
use toolyard_proto::error::code::INVALID_PARAMS;
use toolyard_proto::modern::{stamp_cache, stamp_result};
use toolyard_proto::{CallError, Notification, Raw};

use crate::changes::Filter;
use crate::context::unproven;
use crate::item::completion::{Typed, render};
use crate::item::template::Asked;
use crate::item::tool::Tool;
use crate::set::Proof;
use crate::skills::SkillSource;
use crate::{Content, Context, ToolError, ToolSet, headers, tasks};

pub(crate) use lists::Lists;

/// How long clients may cache a list; every change of it is announced.
const TTL_MS: u64 = 300_000;

type Answering = Result<BoxFuture<Answer>, CallError>;

impl<S: Send + Sync + 'static> Handler for ToolSet<S> {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        self.answer(&request, peer).unwrap_or_else(|error| Box::pin(async { Err(error) }))
    }

    fn notice(&self, _: &Arc<Origin>, _: Notification) {}

    fn ended(&self, client: &ClientKey) {
        self.tasks.client_ended(client);
    }
}

impl<S: Send + Sync + 'static> ToolSet<S> {
    fn answer(&self, request: &Request, peer: Peer) -> Answering {
        match request.method.as_str() {
            "server/discover" => Ok(ready(self.discover(&request.origin))),
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                self.list(request)
            }
            "tools/call" => self.call_tool(request, peer),
            "prompts/get" => self.get_prompt(request, peer),
            "resources/read" => self.read_resource(request, peer),
            "completion/complete" => self.complete(request, peer),
            "skills/list" | "skills/get" | "resources/directory/read" => self.answer_skills(request, peer),
            "logging/setLevel" => Ok(ready(Raw::empty_object())),
            "subscriptions/listen" => Ok(self.listen(request, peer)),
            _ => match self.tasks.answer(request, peer) {
                Some(answering) => Ok(self.stamped(answering, None)),
                None => Err(CallError::unknown_method(request.method.as_str())),
            },
        }
    }

    fn context(&self, request: &Request, peer: Peer) -> Context {
        Context::new(request, peer, self.surroundings.clone())
    }

    fn call_tool(&self, request: &Request, peer: Peer) -> Answering {
        let (name, arguments) = (request.params.member("name"), request.params.member("arguments"));
        let Some(name) = name.as_ref().and_then(Raw::text) else { return Err(no_text("name")) };
        let Some(tool) = self.offer.items().tool(&name).cloned() else {
            return Err(CallError::invalid_params(format!("unknown tool: {name}")));
        };
        if let Err(error) = self.admit_call(&request.origin, &tool) {
            return Ok(ready(Content::from(&error).into_raw(self.about.written().as_deref())));
        }
        headers::check(request, &tool.repeated, arguments.as_ref())?;
        if let Some(stage) = tasks::first_stage(request, &tool)? {
            let set = self.surroundings.clone();
            let run = |task: &Arc<tasks::Task>| {
                run_tool(tool.clone(), arguments, Context::in_task(request, task, set), None)
            };
            return Ok(self.stamped(self.tasks.start(request, peer, stage, &tool, run)?, None));
        }
        let context = self.context(request, peer);
        Ok(Box::pin(run_tool(tool, arguments, context, self.about.written())))
    }

    /// Refuses connections that do not prove their user, where the set requires that.
    fn admit(&self, origin: &Origin) -> Result<(), ToolError> {
        if origin.is_proven || self.about.proof != Proof::Always {
            return Ok(());
        }
        Err(unproven(&format!("`{}` serves", self.about.name), ""))
    }

    fn admit_call(&self, origin: &Origin, tool: &Tool) -> Result<(), ToolError> {
        match self.about.proof {
            Proof::ToChange { switch } if !origin.is_proven && !tool.is_read_only => {
                Err(unproven(&format!("`{}` serves", tool.name), &format!(", or set {switch}")))
            }
            _ => self.admit(origin),
        }
    }

    fn get_prompt(&self, request: &Request, peer: Peer) -> Answering {
        let name = text(request, "name")?;
        let Some(prompt) = self.offer.items().prompt(&name).cloned() else {
            return Err(CallError::invalid_params(format!("unknown prompt: {name}")));
        };
        let getting = (prompt.get)(texts(request, &["arguments"])?, self.context(request, peer));
        // A prompt that cannot be made from the given arguments is an error of the request.
        let fault = |error: &ToolError| {
            if error.is_failure() {
                return CallError::invalid_params(error.to_string());
            }
            error.to_call_error()
        };
        Ok(self.stamped(Box::pin(settled(getting, fault)), None))
    }

    /// A method of the extension for skills.
    fn answer_skills(&self, request: &Request, peer: Peer) -> Answering {
        let Some(source) = self.about.skills.clone() else {
            return Err(CallError::unknown_method(request.method.as_str()));
        };
        self.admit(&request.origin).map_err(|error| error.to_call_error())?;
        let context = self.context(request, peer);
        let answering: BoxFuture<Result<Raw, CallError>> = match request.method.as_str() {
            "skills/list" if request.params.member("cursor").is_some_and(|cursor| !cursor.is_null()) => {
                return Err(CallError::invalid_params("`cursor` is not one of this server"));
            }
            "skills/list" => Box::pin(source.list(context)),
            "skills/get" => Box::pin(source.get(context, text(request, "uri")?)),
            "resources/read" => Box::pin(source.read(context, text(request, "uri")?)),
            _ => Box::pin(source.directory(context, text(request, "uri")?)),
        };
        let answering = async { answering.await.map(AnswerBody::ours) };
        Ok(self.stamped(Box::pin(answering), Some("private")))
    }

    fn read_resource(&self, request: &Request, peer: Peer) -> Answering {
        let uri = text(request, "uri")?;
        if self.about.skills.is_some()
            && SkillSource::is_of(&uri)
            && self.offer.items().resource(&uri).is_none()
        {
            return self.answer_skills(request, peer);
        }
        self.admit(&request.origin).map_err(|error| error.to_call_error())?;
        let (context, items) = (self.context(request, peer), self.offer.items());
        let reading = if let Some(resource) = items.resource(&uri) {
            (resource.read)((), context)
        } else {
            let fits = |template: &Arc<crate::item::template::Template>| {
                template.pattern.fit(&uri).map(|variables| (template.clone(), variables))
            };
            let Some((template, variables)) = items.templates.iter().find_map(fits) else {
                return Err(no_resource(&uri));
            };
            (template.read)(Asked { uri, variables }, context)
        };
        Ok(self.stamped(Box::pin(settled(reading, ToolError::to_call_error)), Some("private")))
    }

    fn complete(&self, request: &Request, peer: Peer) -> Answering {
        let at = |path: &[&str]| request.params.at(path).and_then(|value| value.as_string());
        let of = at(&["ref", "name"]).or_else(|| at(&["ref", "uri"]));
        let (of, argument) = (of.unwrap_or_default(), at(&["argument", "name"]).unwrap_or_default());
        let is_it = |one: &&Arc<crate::item::completion::Completion>| {
            one.about.of == of && one.about.argument == argument
        };
        let items = self.offer.items();
        let Some(completion) = items.completions.iter().find(is_it) else {
            return Ok(self.stamped(ready(render(Vec::new())), None));
        };
        let others = texts(request, &["context", "arguments"])?.into_iter().collect();
        let typed = Typed { text: at(&["argument", "value"]).unwrap_or_default(), others };
        let completing = (completion.complete)(typed, self.context(request, peer));
        let completing =
            async { completing.await.map(AnswerBody::ours).map_err(|error| error.to_call_error()) };
        Ok(self.stamped(Box::pin(completing), None))
    }

    fn listen(&self, request: &Request, peer: Peer) -> BoxFuture<Answer> {
        let wishes: Value =
            request.params.member("notifications").and_then(|wishes| wishes.read().ok()).unwrap_or_default();
        let items = self.offer.items();
        let filter =
            Filter::new(&wishes, |uri| items.has_resource(uri), |id| self.tasks.is_of(id, &request.origin));
        let changes = self.surroundings.changes.clone();
        Box::pin(async move {
            changes.tell(peer, filter).await;
            Ok(AnswerBody::ours(Raw::empty_object()))
        })
    }

    /// Adds the protocol's own fields to an answer.
    fn stamped(&self, answering: BoxFuture<Answer>, cache: Option<&'static str>) -> BoxFuture<Answer> {
        let info = self.about.info().clone();
        Box::pin(async move {
            let answer = answering.await?;
            let AnswerBody::Whole(result, revision) = answer else { return Ok(answer) };
            let result = stamp_result(&result, Some(&info));
            let result = match cache.filter(|_| result.member("inputRequests").is_none()) {
                Some(scope) => stamp_cache(&result, 0, scope),
                None => result,
            };
            Ok(AnswerBody::Whole(result, revision))
        })
    }
}

/// Runs a tool to its end. Dropping this future marks the call as cancelled. If the server info is given, the answer
/// gets the protocol's own fields.
pub(crate) async fn run_tool(
    tool: Arc<Tool>,
    arguments: Option<Raw>,
    context: Context,
    server: Option<Arc<RawValue>>,
) -> Answer {
    let _running = context.running();
    let revision = context.revision();
    let server = server.as_deref();
    let answered = match (tool.run)(arguments, context).await {
        Ok(answer) => answer.into_raw(server),
        Err(error) => match error.asks() {
            Some(asks) => stamp_result(asks, server.map(|server| Raw::from_serialize(&server)).as_ref()),
            None if error.is_fatal(revision) => return Err(error.to_call_error()),
            None => Content::from(&error).into_raw(server),
        },
    };
    Ok(AnswerBody::ours(answered))
}

/// Waits for a prompt or a resource. The answer is its result, its questions, or the error that `fault` makes.
async fn settled(
    answering: impl Future<Output = Result<Raw, ToolError>> + Send,
    fault: impl FnOnce(&ToolError) -> CallError + Send,
) -> Answer {
    match answering.await {
        Ok(result) => Ok(AnswerBody::ours(result)),
        Err(error) => error.asks().map(|asks| AnswerBody::ours(asks.clone())).ok_or_else(|| fault(&error)),
    }
}

fn no_resource(uri: &str) -> CallError {
    let data = json!({ "uri": uri });
    let message = format!("resource not found: {uri}");
    CallError::reported(json!({ "code": INVALID_PARAMS, "message": message, "data": data }).into())
}

fn ready(result: Raw) -> BoxFuture<Answer> {
    Box::pin(async { Ok(AnswerBody::ours(result)) })
}

/// A parameter that must be text.
fn text(request: &Request, key: &str) -> Result<String, CallError> {
    request.params.member(key).and_then(|value| value.as_string()).ok_or_else(|| no_text(key))
}

fn no_text(key: &str) -> CallError {
    CallError::invalid_params(format!("`{key}` must be a string"))
}

/// A parameter that is an object of texts; absent is the same as empty.
fn texts(request: &Request, path: &[&str]) -> Result<Vec<(String, String)>, CallError> {
    let Some(raw) = request.params.at(path).filter(|raw| !raw.is_null()) else { return Ok(Vec::new()) };
    let map: serde_json::Map<String, Value> = raw
        .read()
        .map_err(|_| CallError::invalid_params(format!("`{}` must be an object", path.join("."))))?;
    let as_text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(map.into_iter().map(|(name, value)| (name, as_text(value))).collect())
}
