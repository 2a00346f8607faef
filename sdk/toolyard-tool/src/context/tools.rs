//! Calls of other tools: what the caller of this call can see and call in the gateway, called on the caller's behalf.
//!
//! A call passes the whole gateway as if the caller had made it: view, rights, limits and records are the caller's.
//! Questions and progress go to the caller, and the call ends with this one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};
use toolyard_model::{Answer, AnswerBody, Ask, AskError, Back, BoxFuture, Origin, Parent, Peer, Request};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::{CallError, Id, Method, Notification, Raw, Revision};

use super::Context;
use crate::ToolError;
use crate::host::Gateway;

/// How often a tool may ask before it answers.
const MOST_ROUNDS: usize = 8;
/// A tool that asks for another round without a question gets it a little later.
const PACE: Duration = Duration::from_millis(250);
/// How often a call that is waited for counts as activity. It has a deadline of its own.
const LIFE_SIGN: Duration = Duration::from_secs(5);
/// How many tools a search finds.
const MOST_FOUND: usize = 1000;
/// How many pages of a list are read.
const MOST_PAGES: usize = 100;
const PROGRESS_TOKEN: &str = "parent";

/// The tools that the caller can call in the gateway.
///
/// ```
/// # use serde_json::json;
/// # use toolyard_tool::{Context, ToolError, tool};
/// /// Finds issues and counts them.
/// #[tool(read_only)]
/// async fn count_issues(context: &Context) -> Result<usize, ToolError> {
///     let answer = context.tools()?.call("github__search_issues", json!({ "query": "is:open" })).await?;
///     Ok(answer.into_result()?.text().lines().count())
/// }
/// ```
#[derive(Clone)]
pub struct Tools {
    context: Context,
    gateway: Arc<dyn Gateway>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tools")
    }
}

/// The answer of another tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer(Value);

impl ToolAnswer {
    /// All text of the answer, joined by line breaks.
    pub fn text(&self) -> String {
        let content = self.0["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = content.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The structured part of the answer.
    pub fn structured(&self) -> Option<&Value> {
        self.0.get("structuredContent")
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }

    /// The answer, or an error with its text if the tool failed.
    pub fn into_result(self) -> Result<Self, ToolError> {
        if self.is_error() { Err(ToolError::new(self.text())) } else { Ok(self) }
    }

    /// The whole result as the tool returned it.
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl Context {
    /// The tools of the gateway as the caller sees them. An error in a program that is not a gateway.
    pub fn tools(&self) -> Result<Tools, ToolError> {
        let gateway = self.set().host.get().and_then(|host| host.gateway()).cloned();
        let gateway = gateway.ok_or_else(|| {
            ToolError::new("this tool calls other tools of a gateway, but it is served without one")
                .hint("use it as a pack of the gateway")
        })?;
        Ok(Tools { context: self.clone(), gateway })
    }
}

impl Tools {
    /// The definitions of all tools that the caller sees, as a client gets them.
    pub async fn list(&self) -> Result<Vec<Value>, ToolError> {
        let (mut tools, mut cursor) = (Vec::new(), None::<Value>);
        for _ in 0..MOST_PAGES {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let mut page: Value = self.request(Method::new("tools/list"), &params.into()).await?.read()?;
            if let Value::Array(more) = page["tools"].take() {
                tools.extend(more);
            }
            cursor = Some(page["nextCursor"].take()).filter(Value::is_string);
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
    }

    /// The id of a listed tool, `UPSTREAM:TOOL`, whatever name the caller sees. `None` if the gateway does not know it.
    pub fn id(&self, listed: &str) -> Option<String> {
        self.gateway.tool_id(&self.context.0.origin, listed)
    }

    /// The tools that the caller can find by these words, best first, at most 1,000: name, id, title, description and
    /// input schema. The gateway ranks them as it does for clients, and finds also tools that it does not list.
    pub async fn search(&self, words: &str) -> Result<Vec<Value>, ToolError> {
        let searching = self.gateway.search_tools(&self.context.0.origin, words, MOST_FOUND);
        let Some(searching) = searching else { return self.search_list(words).await };
        Ok(searching.await.iter().map(Raw::read).collect::<Result<_, _>>()?)
    }

    /// Of the listed tools, those whose name, title or description has any of these words.
    async fn search_list(&self, words: &str) -> Result<Vec<Value>, ToolError> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let mut scored: Vec<(usize, Value)> =
            self.list().await?.into_iter().map(|tool| (score(&tool, &words), tool)).collect();
        scored.retain(|(score, _)| *score > 0);
        // The sort is stable, so that equals stay in the order of the list.
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        Ok(scored.into_iter().map(|(_, tool)| tool).collect())
    }

    /// Calls a tool by the name that the caller knows it by. A tool that failed is an answer with
    /// [`is_error`](ToolAnswer::is_error). Dropping the future cancels the call.
    pub async fn call(&self, name: &str, arguments: impl Into<Value>) -> Result<ToolAnswer, ToolError> {
        let meta = json!({ "progressToken": PROGRESS_TOKEN });
        let base = json!({ "name": name, "arguments": arguments.into(), "_meta": meta });
        let mut params = base.clone();
        for _ in 0..MOST_ROUNDS {
            let result: Value = self.request(Method::TOOLS_CALL, &params.clone().into()).await?.read()?;
            if result["resultType"] != "input_required" {
                return Ok(ToolAnswer(result));
            }
            params = base.clone();
            params["inputResponses"] = self.answers(&result["inputRequests"]).await?;
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
        }
        Err(ToolError::new(format!("the tool `{name}` asked {MOST_ROUNDS} times without finishing")))
    }

    /// The skills of all servers that the caller sees, as the protocol's extension lists them; none where no server has
    /// any.
    pub async fn skills(&self) -> Result<Vec<Value>, ToolError> {
        let mut page: Value = self.request(Method::new("skills/list"), &Raw::empty_object()).await?.read()?;
        Ok(match page["skills"].take() {
            Value::Array(skills) => skills,
            _ => Vec::new(),
        })
    }

    /// The text of a resource that the caller can read.
    pub async fn read_text(&self, uri: &str) -> Result<String, ToolError> {
        let params = json!({ "uri": uri });
        let read: Value = self.request(Method::new("resources/read"), &params.into()).await?.read()?;
        let text = read["contents"][0]["text"].as_str();
        text.map(str::to_owned).ok_or_else(|| ToolError::new(format!("{uri} is not a text")))
    }

    /// Puts the questions of a tool to the caller, all at once.
    async fn answers(&self, questions: &Value) -> Result<Value, ToolError> {
        let questions = questions.as_object().cloned().unwrap_or_default();
        if questions.is_empty() {
            tokio::time::sleep(PACE).await;
        }
        let asking = questions
            .into_iter()
            .map(|(key, question)| async move { Ok::<_, ToolError>((key, self.answer(&question).await?)) });
        Ok(try_join_all(asking).await?.into_iter().collect::<Map<_, _>>().into())
    }

    async fn answer(&self, question: &Value) -> Result<Value, ToolError> {
        let method = Method::new(question["method"].as_str().unwrap_or_default());
        let ask = Ask { method: method.clone(), params: question.get("params").cloned().map(Raw::from) };
        self.context.check_can(&ask)?;
        let _asking = self.context.asking();
        match self.context.0.peer.ask(ask).await {
            Ok(answer) => Ok(answer.read()?),
            Err(AskError::Reported(_) | AskError::Timeout) if method == Method::ELICIT => {
                Ok(json!({ "action": "cancel" }))
            }
            Err(error) => Err(super::ask::unanswered(method.as_str(), &error)),
        }
    }

    async fn request(&self, method: Method, params: &Raw) -> Result<Raw, ToolError> {
        let peer = Peer::new(Arc::new(ToCaller { context: self.context.clone() }));
        let answering = self.gateway.handle(self.request_of(method, params), peer);
        match self.waiting(answering).await {
            Ok(AnswerBody::Whole(result, _)) => Ok(result),
            Ok(AnswerBody::Stream(_)) => Err(ToolError::new("the gateway answered with a stream")),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Waits for an answer. Meanwhile this call counts as alive.
    async fn waiting(&self, mut answering: BoxFuture<Answer>) -> Answer {
        loop {
            match tokio::time::timeout(LIFE_SIGN, &mut answering).await {
                Ok(answer) => return answer,
                Err(_) => self.context.0.peer.alive(),
            }
        }
    }

    /// In the name of the caller, with what it can be asked, but without tasks: the answer is waited for.
    fn request_of(&self, method: Method, params: &Raw) -> Request {
        let caller = &self.context.0.origin;
        let meta = RequestMeta {
            revision: Revision::NEWEST,
            capabilities: can_be_asked(&caller.capabilities),
            client_info: caller.client_info.clone(),
            log_level: None,
        };
        let params = stamp_request(Some(params), &meta);
        let origin = Origin::new(
            caller.view.clone(),
            caller.principal.clone(),
            caller.client.clone(),
            Revision::NEWEST,
        );
        let origin = origin
            .with_capabilities(meta.capabilities)
            .with_client_info(meta.client_info)
            .with_place(caller.is_proven, caller.folder.clone());
        let id = Id::string(&format!("call-{}", crate::random::token()));
        Request::new(Arc::new(origin), id, method, params).numbered(0, Some(Arc::new(self.parent())))
    }

    /// This call as the parent of another.
    fn parent(&self) -> Parent {
        let context = &self.context.0;
        let tool = context.params.member("name").and_then(|name| name.as_string());
        let upstream = self.context.set().host.get().map(|host| host.pack().into());
        Parent {
            call: context.call,
            upstream: upstream.unwrap_or_else(|| self.context.set().name.clone()),
            tool: tool.unwrap_or_default(),
            parent: context.parent.clone(),
        }
    }
}

/// Words in the name count most.
fn score(tool: &Value, words: &[String]) -> usize {
    let count = |key: &str, weight: usize| {
        let text = tool[key].as_str().unwrap_or_default().to_lowercase();
        words.iter().filter(|word| text.contains(word.as_str())).count() * weight
    };
    count("name", 4) + count("title", 2) + count("description", 1)
}

/// Of the caller's capabilities, those for questions.
fn can_be_asked(capabilities: &Raw) -> Raw {
    ["elicitation", "sampling", "roots"].iter().fold(Raw::empty_object(), |kept, key| {
        match capabilities.member(key) {
            Some(capability) => kept.with(key, &capability),
            None => kept,
        }
    })
}

fn failed(error: &CallError) -> ToolError {
    ToolError::new(error.to_string())
}

/// The channel back to the caller of this call.
struct ToCaller {
    context: Context,
}

impl Back for ToCaller {
    fn notify(&self, notification: Notification) {
        if notification.method != Method::PROGRESS {
            return self.context.0.peer.notify(notification);
        }
        let params = notification.params.and_then(|params| params.read::<Value>().ok()).unwrap_or_default();
        self.context.pass_on_progress(params["message"].as_str());
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        let (asking, answering) = (self.context.asking(), self.context.0.peer.ask(ask));
        Box::pin(async move {
            let _asking = asking;
            answering.await
        })
    }

    fn alive(&self) {
        self.context.0.peer.alive();
    }
}
