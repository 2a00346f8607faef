//! The rounds of a call that answers with questions: the client's replies so far, and the sealed state
//! that it carries from one round to the next.

use std::collections::HashMap;

use parking_lot::MutexGuard;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolyard_proto::{Method, Raw};

use super::Context;
use super::questions::Question;
use crate::ToolError;
use crate::seal::Seal;

/// The values known from earlier rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct EarlierRounds {
    /// By the names of the questions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) answers: Map<String, Value>,
    /// Remembered values, by the name of the first question that was asked with them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) memory: Map<String, Value>,
    /// The questions of this run, by name.
    #[serde(skip)]
    asked: HashMap<String, (Method, Value)>,
}

impl EarlierRounds {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.memory.is_empty()
    }
}

/// The answers of the client.
pub(super) struct Given {
    pub(super) before: EarlierRounds,
    now: Map<String, Value>,
}

impl Given {
    pub(super) fn answer(&self, name: &str) -> Option<&Value> {
        self.before.answers.get(name).or_else(|| self.now.get(name))
    }
}

impl Context {
    /// Whether questions are asked by answering the call with them.
    pub(super) fn asks_by_answer(&self) -> bool {
        self.revision().has_result_stamps() && self.0.task.as_ref().is_none_or(|task| task.asks_by_answer())
    }

    /// The questions are answered: what follows may take long.
    pub(super) fn begin_task(&self) {
        if let Some(task) = &self.0.task {
            task.begin();
        }
    }

    pub(super) fn given_answers(&self) -> Result<Given, ToolError> {
        if !self.revision().has_result_stamps() {
            return Ok(Given { before: EarlierRounds::default(), now: Map::new() });
        }
        let member = |name: &str| self.0.params.member(name);
        let now = match member("inputResponses").map(|responses| responses.read()) {
            None => Map::new(),
            Some(Ok(Value::Object(answers))) if answers.values().all(Value::is_object) => answers,
            Some(_) => return Err(ToolError::malformed("`inputResponses` must be an object of results")),
        };
        let before = match member("requestState") {
            None => EarlierRounds::default(),
            Some(state) => self
                .opened(&state)
                .ok_or_else(|| ToolError::malformed("`requestState` is not valid for this call"))?,
        };
        Ok(Given { before, now })
    }

    /// The answers that this run has so far; they go into the state of the next round.
    pub(super) fn kept(&self) -> MutexGuard<'_, EarlierRounds> {
        self.0.kept.lock()
    }

    /// Answers come back under the names of their questions, so each name must be unique.
    pub(super) fn check_name(&self, question: &Question) -> Result<(), ToolError> {
        let mut kept = self.kept();
        let asked = (question.method.clone(), question.params.clone());
        let first = kept.asked.entry(question.name.clone()).or_insert_with(|| asked.clone());
        if *first == asked {
            return Ok(());
        }
        let message = format!("two different questions are called `{}`", question.name);
        Err(ToolError::broken(message).hint("give each question a name of its own"))
    }

    pub(super) fn sealed(&self, kept: &EarlierRounds) -> String {
        let body = serde_json::to_string(kept).unwrap_or_default();
        self.seal().close(&self.call_in_words(), &body)
    }

    fn opened(&self, state: &Raw) -> Option<EarlierRounds> {
        let body = self.seal().open(&self.call_in_words(), &state.as_string()?)?;
        serde_json::from_str(&body).ok()
    }

    fn seal(&self) -> &Seal {
        self.0.set.seal.get_or_init(Seal::random)
    }

    /// The caller and the call, so that state cannot be carried from one call to another.
    fn call_in_words(&self) -> String {
        let params = self.0.params.without(&["_meta", "inputResponses", "requestState"]);
        let params = params.read().map(sorted).unwrap_or_default();
        json!([self.0.method.as_str(), self.0.origin.principal.name(), params]).to_string()
    }
}

/// The result that asks; the client calls again with `inputResponses`.
pub(super) fn input_required(questions: &[Question], state: Option<String>) -> Raw {
    let request =
        |question: &Question| json!({ "method": question.method.as_str(), "params": question.params });
    let requests: Map<String, Value> =
        questions.iter().map(|question| (question.name.clone(), request(question))).collect();
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    result.into()
}

/// Independent of the order in which the client writes members.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            members.into_iter().collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        value => value,
    }
}
