//! Questions that are asked together, each under a name, and without holding the call: the client of a modern
//! call gets them as its answer and calls again with the replies.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolyard_model::Ask;
use toolyard_proto::Method;

use super::ask::{Reply, Root, Sample, Sampled, form_params, read_form, read_roots};
use super::rounds::input_required;
use super::{Context, ask};
use crate::ToolError;

/// Several questions to the client, asked at once. Made by [`Context::questions`].
///
/// ```
/// # use toolyard_tool::{Context, Sample, ToolError};
/// async fn ask(context: &Context) -> Result<String, ToolError> {
///     let questions = context.questions().roots("where").sample("what", Sample::new("What now?", 50));
///     let replies = questions.put().await?;
///     Ok(replies.sampled("what")?.text)
/// }
/// ```
#[must_use = "questions are put by `.put().await`"]
#[derive(Debug)]
pub struct Questions<'a> {
    context: &'a Context,
    all: Vec<Question>,
    memory: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) name: String,
    pub(super) method: Method,
    pub(super) params: Value,
}

impl Question {
    pub(super) fn ask(&self) -> Ask {
        Ask { method: self.method.clone(), params: Some(self.params.clone().into()) }
    }
}

/// The replies, by the names of the questions.
///
/// ```
/// # use toolyard_tool::{Context, Replies, ToolError, schemars::JsonSchema};
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Name {
///     first: String,
/// }
///
/// fn name_in(replies: &Replies) -> Result<String, ToolError> {
///     Ok(replies.form::<Name>("name")?.accepted()?.first)
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Replies {
    answers: Map<String, Value>,
    memory: Option<Value>,
}

impl Context {
    /// Starts a set of questions that are asked together.
    ///
    /// Unlike with [`Context::ask`], nothing waits in the server for a client that may never come back: the
    /// call ends with the questions, and when the client calls again with the answers, the function runs
    /// again from its beginning and gets past the questions. So ask before you do anything that must not be
    /// done twice, and give each question a name of its own: two different questions with the same name are an
    /// error. Earlier answers are kept by the client, under seal. Clients of older revisions are asked
    /// while the call is under way. In a task the questions wait until the client asks about it, unless the tool
    /// has `asks_first`: then the call ends with the first of them, and becomes a task once they are answered.
    ///
    /// ```
    /// # use toolyard_tool::{Context, ToolError, schemars::JsonSchema, tool};
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Name {
    ///     first: String,
    /// }
    ///
    /// /// Greets the user.
    /// #[tool]
    /// async fn hello(context: &Context) -> Result<String, ToolError> {
    ///     let replies = context.questions().form::<Name>("name", "Who are you?").roots("roots").put().await?;
    ///     let name = replies.form::<Name>("name")?.accepted()?;
    ///     Ok(format!("Hello, {}, you have {} folders", name.first, replies.roots("roots")?.len()))
    /// }
    /// ```
    pub fn questions(&self) -> Questions<'_> {
        Questions { context: self, all: Vec::new(), memory: None }
    }
}

impl Questions<'_> {
    /// Asks the user to fill in a form with the fields of `T`.
    pub fn form<T: JsonSchema>(self, name: &str, message: impl Into<String>) -> Self {
        self.raw(name, Method::ELICIT.as_str(), form_params::<T>(&message.into()))
    }

    /// Asks the client's model.
    pub fn sample(self, name: &str, sample: Sample) -> Self {
        self.raw(name, Method::SAMPLE.as_str(), sample.into_params())
    }

    /// Asks which folders the client works in.
    pub fn roots(self, name: &str) -> Self {
        self.raw(name, Method::ROOTS_LIST.as_str(), json!({}))
    }

    /// Adds a question in its wire format, for kinds that have no method here.
    pub fn raw(mut self, name: &str, method: &str, params: Value) -> Self {
        self.all.push(Question { name: name.to_owned(), method: Method::new(method), params });
        self
    }

    /// A value to get back with the answers, so that it need not be computed twice. Answers that come
    /// without it are asked for again.
    pub fn remember(mut self, value: &impl Serialize) -> Self {
        self.memory = serde_json::to_value(value).ok();
        self
    }

    /// Whether there are no questions.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Asks the questions, and returns the answers once all of them are there. Pass the error on with `?`: it
    /// may be what brings the questions to the client.
    pub async fn put(self) -> Result<Replies, ToolError> {
        if self.all.is_empty() {
            return Ok(Replies { answers: Map::new(), memory: self.memory });
        }
        for question in &self.all {
            self.context.check_can(&question.ask())?;
            self.context.check_name(question)?;
        }
        if self.context.asks_by_answer() { self.put_by_answer() } else { self.put_at_once().await }
    }

    fn put_by_answer(self) -> Result<Replies, ToolError> {
        let Self { context, all, memory } = self;
        let given = context.given_answers()?;
        let mut kept = context.kept();
        let subject = all.first().map(|question| question.name.clone()).unwrap_or_default();
        let remembered = given.before.memory.get(&subject);
        let is_known = memory.is_none() || remembered.is_some();
        let (mut answers, mut open) = (Map::new(), Vec::new());
        for question in all {
            match given.answer(&question.name).filter(|_| is_known) {
                Some(answer) => drop(answers.insert(question.name, answer.clone())),
                None => open.push(question),
            }
        }
        kept.answers.extend(answers.clone());
        if let Some(memory) = remembered.or(memory.as_ref()) {
            kept.memory.insert(subject, memory.clone());
        }
        if open.is_empty() {
            context.begin_task();
            return Ok(Replies { answers, memory: remembered.cloned() });
        }
        let state = (!kept.is_empty()).then(|| context.sealed(&kept));
        Err(ToolError::unanswered(input_required(&open, state)))
    }

    /// An answer that this run already has is not asked for again.
    async fn put_at_once(self) -> Result<Replies, ToolError> {
        let Self { context, all, memory } = self;
        let given = context.given_answers()?;
        let subject = all.first().map(|question| question.name.clone()).unwrap_or_default();
        let learnt = context.kept().clone();
        let remembered = learnt.memory.get(&subject).or_else(|| given.before.memory.get(&subject)).cloned();
        let is_known = memory.is_none() || remembered.is_some();
        let (mut answers, mut open) = (Map::new(), Vec::new());
        for question in all {
            let answer = learnt.answers.get(&question.name).or_else(|| given.answer(&question.name));
            match answer.filter(|_| is_known).cloned() {
                Some(answer) => drop(answers.insert(question.name, answer)),
                None => open.push(question),
            }
        }
        answers.extend(ask::put_all(context, open).await?);
        let memory = remembered.or(memory);
        let mut kept = context.kept();
        kept.answers.extend(answers.clone());
        kept.memory.extend(memory.clone().map(|memory| (subject, memory)));
        Ok(Replies { answers, memory })
    }
}

impl Replies {
    /// The user's reaction to a form.
    pub fn form<T: DeserializeOwned + JsonSchema>(&self, name: &str) -> Result<Reply<T>, ToolError> {
        read_form(self.answer(name)?)
    }

    /// The answer of the client's model.
    pub fn sampled(&self, name: &str) -> Result<Sampled, ToolError> {
        Ok(Sampled::read(self.answer(name)?.clone()))
    }

    /// The folders that the client works in.
    pub fn roots(&self, name: &str) -> Result<Vec<Root>, ToolError> {
        read_roots(self.answer(name)?.clone())
    }

    /// An answer as the client sent it.
    pub fn raw(&self, name: &str) -> Option<&Value> {
        self.answers.get(name)
    }

    /// The remembered value.
    pub fn remembered<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.memory.as_ref()?).ok()
    }

    fn answer(&self, name: &str) -> Result<&Value, ToolError> {
        self.raw(name).ok_or_else(|| ToolError::new(format!("`{name}` was never asked")))
    }
}
