//! Questions to the client in the middle of a call: to its user, to its model, about its folders.

use futures_util::future::try_join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolyard_model::{Ask, AskError};
use toolyard_proto::{Method, Raw};

use super::Context;
use super::questions::Question;
use crate::check::Checker;
use crate::{ToolError, schema};

/// The user's reaction to a question.
///
/// ```
/// use toolyard_tool::Reply;
///
/// assert_eq!(Reply::Accepted(7).accepted().unwrap(), 7);
/// assert!(Reply::<u32>::Declined.accepted().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<T> {
    /// The user answered.
    Accepted(T),
    /// The user declined.
    Declined,
    /// The user dismissed the question.
    Cancelled,
}

impl<T> Reply<T> {
    /// The answer, or an error if there is none.
    pub fn accepted(self) -> Result<T, ToolError> {
        match self {
            Self::Accepted(answer) => Ok(answer),
            Self::Declined => Err(ToolError::new("the user declined to answer")),
            Self::Cancelled => Err(ToolError::new("the user cancelled the question")),
        }
    }
}

/// A folder or file that the client works in.
///
/// ```
/// # use toolyard_tool::{Context, ToolError, tool};
/// /// Lists the folders where the client works.
/// #[tool(read_only)]
/// async fn folders(context: &Context) -> Result<Vec<String>, ToolError> {
///     Ok(context.roots().await?.into_iter().map(|root| root.name.unwrap_or(root.uri)).collect())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Root {
    /// The address of the root; today always a `file://` URI.
    pub uri: String,
    /// Its name for people.
    pub name: Option<String>,
}

/// A question to the client's model.
///
/// ```
/// # use toolyard_tool::{Context, Sample, ToolError, tool};
/// /// Lets the client's model think.
/// #[tool]
/// async fn summarize(context: &Context) -> Result<String, ToolError> {
///     let sample = Sample::new("Summarize: …", 200).system("Be brief.").temperature(0.2);
///     Ok(context.sample(sample).await?.text)
/// }
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct Sample(Value);

impl Sample {
    /// Asks for an answer to `text`, of at most `max_tokens` tokens.
    pub fn new(text: impl Into<String>, max_tokens: u32) -> Self {
        let message = json!({ "role": "user", "content": { "type": "text", "text": text.into() } });
        Self(json!({ "messages": [message], "maxTokens": max_tokens }))
    }

    /// Sets the system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.0["systemPrompt"] = text.into().into();
        self
    }

    /// Sets the temperature of the model.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.0["temperature"] = temperature.into();
        self
    }

    pub(super) fn into_params(self) -> Value {
        self.0
    }

    /// Sets any other parameter of `sampling/createMessage`.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0[key] = value.into();
        self
    }
}

/// The answer of the client's model.
///
/// ```
/// use toolyard_tool::Sampled;
///
/// fn signed(answer: &Sampled) -> String {
///     format!("{} ({})", answer.text, answer.model)
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The text of the answer; empty if it is not text.
    pub text: String,
    /// The name of the model.
    pub model: String,
    /// The whole result as the client sent it.
    pub whole: Value,
}

impl Sampled {
    pub(super) fn read(whole: Value) -> Self {
        let text = whole["content"]["text"].as_str().unwrap_or_default().to_owned();
        let model = whole["model"].as_str().unwrap_or_default().to_owned();
        Self { text, model, whole }
    }
}

impl Context {
    /// Asks the user to fill in a form with the fields of `T`: a flat struct of strings, numbers, flags and
    /// choices. Doc comments on the fields become their descriptions.
    ///
    /// ```
    /// # use toolyard_tool::{Context, Reply, ToolError, schemars::JsonSchema, tool};
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Confirm {
    ///     /// Really delete it?
    ///     sure: bool,
    /// }
    ///
    /// /// Deletes everything, after asking.
    /// #[tool(destructive)]
    /// async fn delete_all(context: &Context) -> Result<&'static str, ToolError> {
    ///     let answer = context.ask::<Confirm>("This cannot be undone.").await?.accepted()?;
    ///     Ok(if answer.sure { "deleted" } else { "kept" })
    /// }
    /// ```
    pub async fn ask<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Result<Reply<T>, ToolError> {
        let params = form_params::<T>(&message.into());
        read_form(&put(self, Method::ELICIT, Some(params)).await?.read()?)
    }

    /// Asks the user to visit a page, for what must not pass through the client (signing in, paying).
    /// Accepted means that the user agreed to go there, not that the user has finished there.
    ///
    /// ```
    /// # use toolyard_tool::{Context, ToolError, tool};
    /// /// Signs in.
    /// #[tool]
    /// async fn sign_in(context: &Context) -> Result<(), ToolError> {
    ///     context.ask_to_visit("https://example.com/sign-in", "Please sign in.").await?.accepted()
    /// }
    /// ```
    pub async fn ask_to_visit(&self, url: &str, message: impl Into<String>) -> Result<Reply<()>, ToolError> {
        let id = crate::random::token();
        let params = json!({ "mode": "url", "message": message.into(), "url": url, "elicitationId": id });
        read_reply(&put(self, Method::ELICIT, Some(params)).await?.read()?, |_| Ok(()))
    }

    /// Asks the client's model.
    pub async fn sample(&self, sample: Sample) -> Result<Sampled, ToolError> {
        Ok(Sampled::read(put(self, Method::SAMPLE, Some(sample.0)).await?.read()?))
    }

    /// Asks which folders the client works in.
    pub async fn roots(&self) -> Result<Vec<Root>, ToolError> {
        read_roots(put(self, Method::ROOTS_LIST, None).await?.read()?)
    }

    /// Whether the client declared that it can be asked this.
    pub(super) fn check_can(&self, ask: &Ask) -> Result<(), ToolError> {
        match ask.missing(&self.0.origin.capabilities) {
            Some(capability) => Err(ToolError::needs(capability)),
            None => Ok(()),
        }
    }
}

/// Asks one question while the call is under way.
async fn put(context: &Context, method: Method, params: Option<Value>) -> Result<Raw, ToolError> {
    let name = method.to_string();
    let ask = Ask { method, params: params.map(Raw::from) };
    context.check_can(&ask)?;
    let _asking = context.asking();
    context.0.peer.ask(ask).await.map_err(|error| unanswered(&name, &error))
}

/// Asks several questions while the call is under way; in a task each under its name.
pub(super) async fn put_all(
    context: &Context,
    all: Vec<Question>,
) -> Result<Vec<(String, Value)>, ToolError> {
    let names: Vec<_> = all.iter().map(|one| (one.name.clone(), one.method.to_string())).collect();
    let _asking = context.asking();
    let asking = match &context.0.task {
        Some(task) => task.ask_all(all.into_iter().map(|one| (Some(one.name.clone()), one.ask()))),
        None => all.into_iter().map(|one| context.0.peer.ask(one.ask())).collect(),
    };
    let answering = names.into_iter().zip(asking).map(|((name, method), asking)| async move {
        let answer = asking.await.map_err(|error| unanswered(&method, &error))?;
        Ok::<_, ToolError>((name, answer.read()?))
    });
    try_join_all(answering).await
}

pub(super) fn read_roots(answer: Value) -> Result<Vec<Root>, ToolError> {
    #[derive(Deserialize)]
    struct Roots {
        roots: Vec<Root>,
    }
    Ok(serde_json::from_value::<Roots>(answer)?.roots)
}

/// The question that shows a form to the user.
pub(super) fn form_params<T: JsonSchema>(message: &str) -> Value {
    let schema = schema::shown(&Checker::new(schema::form::<T>()).published());
    json!({ "mode": "form", "message": message, "requestedSchema": schema })
}

/// Reads a form like arguments; a null field was left empty.
pub(super) fn read_form<T: DeserializeOwned + JsonSchema>(answer: &Value) -> Result<Reply<T>, ToolError> {
    read_reply(answer, |mut content| {
        if let Value::Object(fields) = &mut content {
            fields.retain(|_, value| !value.is_null());
        }
        let checker = Checker::new(schema::form::<T>());
        checker.clamp(&mut content)?;
        checker.check(&content)?.into_result_of_form()?;
        Ok(serde_json::from_value(content)?)
    })
}

fn read_reply<T>(
    answer: &Value,
    read: impl FnOnce(Value) -> Result<T, ToolError>,
) -> Result<Reply<T>, ToolError> {
    match answer["action"].as_str() {
        Some("accept") => {
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            read(content).map(Reply::Accepted)
        }
        Some("decline") => Ok(Reply::Declined),
        _ => Ok(Reply::Cancelled),
    }
}

pub(super) fn unanswered(method: &str, error: &AskError) -> ToolError {
    let details = match error {
        AskError::Reported(error) => error.member("message").and_then(|message| message.as_string()),
        _ => None,
    };
    let reason = details.map_or_else(|| error.to_string(), |details| format!("{error}: {details}"));
    ToolError::new(format!("this needs `{method}` from the client, but {reason}"))
}
