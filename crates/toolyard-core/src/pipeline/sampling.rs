//! Answers `sampling/createMessage` of an upstream with a configured model, for clients that cannot sample. A client
//! that can is asked itself.
//!
//! The model is called through the chain of the pack's tool, so that rules, limits and hooks apply to it. A question
//! comes as a request on the way back, or as a part of the answer: then the call is sent again with what the model
//! answered, and the client receives only the questions that are for its user.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Origin, Parent, Peer};
use toolyard_proto::error::code::INTERNAL;
use toolyard_proto::modern::CLIENT_CAPABILITIES;
use toolyard_proto::splice::members;
use toolyard_proto::{CallError, Id, Method, Notification, Raw};

use super::retry::{CatalogCell, find};
use super::{Call, Next, Step};
use crate::catalog::ViewEntry;
use crate::plan::SamplingPlan;

/// How often a call that waits for the model counts as alive.
const LIFE_SIGN: Duration = Duration::from_secs(5);
/// The tool that answers.
const TOOL: &str = "models:create_message";
/// The parameters that it takes.
const TAKEN: [&str; 5] = ["messages", "systemPrompt", "maxTokens", "temperature", "stopSequences"];

pub(super) struct Sampling {
    plan: Arc<SamplingPlan>,
    catalog: CatalogCell,
}

pub(super) fn step(plan: Option<&Arc<SamplingPlan>>, catalog: &CatalogCell) -> Option<Arc<dyn Step>> {
    Some(Arc::new(Sampling { plan: plan?.clone(), catalog: catalog.clone() }))
}

impl Step for Sampling {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let ask = Ask { method: Method::SAMPLE, params: None };
        if ask.missing(&call.origin.capabilities).is_some() {
            let sampler = Sampler {
                plan: self.plan.clone(),
                catalog: self.catalog.clone(),
                call: Call { peer: Peer::none(), ..call.clone() },
                peer: call.peer.clone(),
                answered: AtomicU32::new(0),
            };
            let sampler = Arc::new(sampler);
            call.peer = Peer::new(sampler.clone());
            call.origin = able_to_sample(&call.origin);
            if call.params.at(&["_meta", CLIENT_CAPABILITIES]).is_some() {
                let path = ["_meta", CLIENT_CAPABILITIES, "sampling"];
                call.params = call.params.with_path(&path, &Raw::empty_object()).into();
            }
            call.needs_whole = true;
            return Box::pin(rounds(sampler, call, next));
        }
        next.run(call)
    }
}

/// Sends a call until its answer has no question to the model, or the configured number of answers is reached.
async fn rounds(sampler: Arc<Sampler>, call: Call, next: Next) -> Answer {
    let mut sent = call.clone();
    loop {
        let answer = next.clone().run(sent).await?;
        let AnswerBody::Whole(result, revision) = &answer else { return Ok(answer) };
        let Some(asked) = Asked::in_result(result) else { return Ok(answer) };
        if let Some(others) = asked.others {
            // The upstream asks for what is missing again, once the client has answered these.
            return Ok(AnswerBody::Whole(result.with("inputRequests", &others), *revision));
        }
        let mut responses = Raw::empty_object();
        for (key, params) in &asked.samples {
            responses = responses.with(key, &sampler.answer(params).await?);
        }
        sent = call.clone();
        let params = call.params.with("inputResponses", &responses);
        sent.params = match result.member("requestState") {
            Some(state) => params.with("requestState", &state).into(),
            None => params.into(),
        };
    }
}

/// Questions in an answer, if any of them is for a model.
struct Asked {
    /// The parameters of each question, by its key.
    samples: Vec<(String, Raw)>,
    /// The questions for the user, unchanged.
    others: Option<Raw>,
}

impl Asked {
    fn in_result(result: &Raw) -> Option<Self> {
        let requests = result.member("inputRequests")?;
        let (mut samples, mut others) = (Vec::new(), Raw::empty_object());
        let mut has_others = false;
        for member in members(requests.as_bytes()) {
            let (key, request) = (requests.slice(member.key.at).as_string()?, requests.slice(member.value));
            let method = request.member("method").and_then(|method| method.as_string());
            if method.as_deref() == Some(Method::SAMPLE.as_str()) {
                samples.push((key, request.member("params").unwrap_or_else(Raw::empty_object)));
            } else {
                others = others.with(&key, &request);
                has_others = true;
            }
        }
        (!samples.is_empty()).then_some(Self { samples, others: has_others.then_some(others) })
    }
}

/// The origin of the call, with sampling declared: the gateway answers such questions for the client.
fn able_to_sample(origin: &Origin) -> Arc<Origin> {
    let Origin { view, principal, client, revision, capabilities, .. } = origin;
    let able = Origin::new(view.clone(), principal.clone(), client.clone(), *revision)
        .with_capabilities(capabilities.with("sampling", &Raw::empty_object()))
        .with_client_info(origin.client_info.clone())
        .with_log_level(origin.log_level.get())
        .with_place(origin.is_proven, origin.folder.clone());
    Arc::new(Origin { is_relayed: origin.is_relayed, ..able })
}

/// The way back of one call, on which samples are answered by the model.
struct Sampler {
    plan: Arc<SamplingPlan>,
    catalog: CatalogCell,
    /// The call before this step, without its way back.
    call: Call,
    peer: Peer,
    answered: AtomicU32,
}

impl Back for Sampler {
    fn notify(&self, notification: Notification) {
        self.peer.notify(notification);
    }

    fn notify_own(&self, notification: Notification) {
        self.peer.notify_own(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        if ask.method != Method::SAMPLE {
            return self.peer.ask(ask);
        }
        let params = ask.params.unwrap_or_else(Raw::empty_object);
        match self.sample(&params) {
            Ok(answering) => Box::pin(async {
                answering.await.map_err(|error| reported(&error)).and_then(|answer| sampled(&answer))
            }),
            Err(why) => Box::pin(async { Err(AskError::Unsupported(why)) }),
        }
    }

    fn alive(&self) {
        self.peer.alive();
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.peer.hang_up(come_back_after);
    }
}

impl Sampler {
    /// The message of the model. Meanwhile the call counts as alive.
    async fn answer(&self, params: &Raw) -> Result<Raw, CallError> {
        let mut answering = self.sample(params).map_err(CallError::internal)?;
        let answer = loop {
            match tokio::time::timeout(LIFE_SIGN, &mut answering).await {
                Ok(answer) => break answer?,
                Err(_) => self.peer.alive(),
            }
        };
        sampled(&answer).map_err(|error| match error {
            AskError::Reported(raw) => CallError::reported(raw),
            other => CallError::internal(other.to_string()),
        })
    }

    fn sample(&self, params: &Raw) -> Result<BoxFuture<Answer>, String> {
        let SamplingPlan { model, max_tokens, per_call } = &*self.plan;
        let number = self.answered.fetch_add(1, Ordering::Relaxed);
        if number >= *per_call {
            return Err(format!(
                "{per_call} questions to the model were answered for this call, which is the limit"
            ));
        }
        let catalog = self.catalog.get().and_then(Weak::upgrade);
        let found = catalog.and_then(|catalog| find(&catalog, TOOL, &self.call));
        let missing = "the pack `models`, which answers for the client, is off or not in this view";
        let ViewEntry { entry, chain } = found.ok_or(missing)?;
        let mut arguments = json!({ "model": model });
        for key in TAKEN {
            if let Some(value) = params.member(key).and_then(|value| value.read::<Value>().ok()) {
                arguments[key] = value;
            }
        }
        let wanted = arguments["maxTokens"].as_u64().unwrap_or(u64::MAX);
        arguments["maxTokens"] = wanted.min(u64::from(*max_tokens)).into();
        let call = &self.call;
        tracing::info!(upstream = %call.upstream.id(), model, "answering a question to the client's model");
        let parent = Parent {
            call: call.trace.call,
            upstream: call.upstream.name().clone(),
            tool: call.entry.as_ref().map(|entry| entry.own_name.clone()).unwrap_or_default(),
            parent: call.parent.clone(),
        };
        let mut params = Raw::from(json!({ "arguments": arguments })).with("name", &entry.own_name_raw);
        if let Some(meta) = call.params.member("_meta") {
            params = params.with("_meta", &meta.without(&["progressToken"]));
        }
        let call = Call {
            upstream: entry.upstream.clone(),
            entry: Some(entry),
            id: Id::string(&format!("yard-sample-{number}-{:?}", call.id)),
            method: Method::TOOLS_CALL,
            params: params.into(),
            headers: None,
            relay: false,
            needs_whole: true,
            deadline: None,
            parent: Some(Arc::new(parent)),
            permits: Weak::new(),
            ..call.clone()
        };
        Ok(Next::start(chain, call))
    }
}

/// The result of the tool as the protocol wants it from a client.
fn sampled(answer: &AnswerBody) -> Result<Raw, AskError> {
    let AnswerBody::Whole(result, _) = answer else {
        return Err(reported(&CallError::internal("a whole answer was asked for")));
    };
    let is_error = result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true");
    if let Some(message) = result.member("structuredContent").filter(|_| !is_error) {
        return Ok(message);
    }
    let result: Value = result.read().unwrap_or_default();
    let text = result["content"][0]["text"].as_str().unwrap_or("the model did not answer");
    Err(AskError::Reported(json!({ "code": INTERNAL, "message": text }).into()))
}

fn reported(error: &CallError) -> AskError {
    AskError::Reported(error.to_raw())
}
