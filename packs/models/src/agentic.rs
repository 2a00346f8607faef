//! A model that calls tools until it has an answer, or until a bound stops it: turns, time, tokens, money.

mod choice;
mod toolbox;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolyard_tool::ToolError;

use crate::conversation::{Message, Outcome, ToolCall, ToolSpec, Usage};
use crate::models::{Answered, Invocation, Models};
use crate::progress::Progress;
use turns::Turns;

pub(crate) use choice::{Chosen, choose};
pub(crate) use toolbox::{CallersTools, Offered, Toolbox};
#[cfg(test)]
pub(crate) use turns::CallReport;
pub(crate) use turns::TurnReport;

/// Calls of one turn that run at the same time.
const AT_ONCE: usize = 8;
/// What a model sees of one answer of a tool.
const MOST_RESULT: usize = 50_000;

/// When a run ends without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) turns: u32,
    /// Without the time in which the user is asked.
    pub(crate) time: Duration,
    pub(crate) tokens: Option<u64>,
    pub(crate) cost: Option<f64>,
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoppedBy {
    /// The model had its answer.
    Answer,
    MaxTurns,
    Timeout,
    MaxTokens,
    MaxCost,
    /// The model could not be asked again, or a hook refused what it wrote.
    Error,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// The last answer of the model; nothing if it never answered.
    pub(crate) answered: Option<Answered>,
    pub(crate) turns: Vec<TurnReport>,
    pub(crate) stopped_by: StoppedBy,
    /// The error that ended it.
    pub(crate) error: Option<ToolError>,
    /// The sum over all turns; nothing if a turn did not report it.
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<f64>,
}

/// What a run works with.
struct Work<'a> {
    models: &'a Models,
    tools: &'a Chosen,
    toolbox: &'a dyn Toolbox,
    bounds: Bounds,
    progress: &'a Progress,
    turns: &'a Turns,
}

impl Models {
    /// Lets a model work with tools. What it was asked is in `invocation`. An error before the first turn is that of the
    /// run; after it, the error is a part of the run.
    pub(crate) async fn work(
        &self,
        mut invocation: Invocation,
        tools: Chosen,
        toolbox: Arc<dyn Toolbox>,
        bounds: Bounds,
        progress: &Progress,
    ) -> Result<Run, ToolError> {
        self.prepare(&mut invocation).await?;
        if bounds.cost.is_some() && !self.has_prices(&invocation)? {
            return Err(ToolError::new(format!("`max_cost` needs the prices of `{}`", invocation.model))
                .hint(
                    "set `price_in` and `price_out` of the model in [packs.models], or leave `max_cost` out",
                ));
        }
        invocation.turn.tools = tools.specs();
        let (turns, mut run) = (Turns::default(), Run::new());
        let work = Work { models: self, tools: &tools, toolbox: &*toolbox, bounds, progress, turns: &turns };
        let working = work.take_turns(invocation, &mut run);
        let ended = progress.context().within(bounds.time, working).await;
        run.turns = turns.into_reports();
        match ended {
            None => run.stopped_by = StoppedBy::Timeout,
            Some(Ok(stopped_by)) => run.stopped_by = stopped_by,
            Some(Err(error)) if run.turns.is_empty() => return Err(error),
            Some(Err(error)) => (run.stopped_by, run.error) = (StoppedBy::Error, Some(error)),
        }
        Ok(run)
    }

    /// The first answer may come from a fallback; from then on the conversation stays where it is, since its form is
    /// that of one provider.
    async fn next_answer(
        &self,
        invocation: &mut Invocation,
        turn: u32,
        progress: &Progress,
    ) -> Result<Answered, ToolError> {
        if turn > 1 {
            return self.answer_without_fallback(invocation, progress).await;
        }
        let answered = self.answer(invocation, progress).await?;
        invocation.model = format!("{}/{}", answered.provider, answered.model);
        invocation.kinds = &[];
        Ok(answered)
    }
}

impl Run {
    fn new() -> Self {
        Self {
            answered: None,
            turns: Vec::new(),
            stopped_by: StoppedBy::MaxTurns,
            error: None,
            usage: Some(Usage::default()),
            cost: Some(0.0),
        }
    }

    fn add(&mut self, answered: &Answered) {
        self.usage = match (self.usage, answered.usage) {
            (Some(mut sum), Some(more)) => {
                sum.add(more);
                Some(sum)
            }
            _ => None,
        };
        self.cost = self.cost.zip(answered.cost).map(|(sum, more)| sum + more);
    }

    fn is_over(&self, bounds: Bounds) -> Option<StoppedBy> {
        // A bound on something unknown cannot hold, so the run ends.
        let tokens = self.usage.map(|usage| usage.input_tokens + usage.output_tokens);
        if bounds.tokens.is_some_and(|most| tokens.is_none_or(|used| used >= most)) {
            return Some(StoppedBy::MaxTokens);
        }
        let is_dear = bounds.cost.is_some_and(|most| self.cost.is_none_or(|cost| cost >= most));
        is_dear.then_some(StoppedBy::MaxCost)
    }
}

impl Work<'_> {
    async fn take_turns(&self, mut invocation: Invocation, run: &mut Run) -> Result<StoppedBy, ToolError> {
        for turn in 1..=self.bounds.turns {
            self.progress.note(format!("turn {turn} of {}", self.bounds.turns));
            let mut answered = self.models.next_answer(&mut invocation, turn, self.progress).await?;
            run.add(&answered);
            self.models.conclude(&invocation, &mut answered).await?;
            let calls = answered.reply.calls.clone();
            let text = answered.reply.text.clone();
            let echo = Message::Echo(answered.reply.echo.clone());
            run.answered = Some(answered);
            if calls.is_empty() {
                return Ok(StoppedBy::Answer);
            }
            self.turns.begin(text);
            if let Some(stop) = run.is_over(self.bounds) {
                return Ok(stop);
            }
            let outcomes = self.call_all(calls).await;
            invocation.turn.messages.extend([echo, Message::Results(outcomes)]);
        }
        Ok(StoppedBy::MaxTurns)
    }

    /// Makes all calls of a turn; results in the order of the calls.
    async fn call_all(&self, calls: Vec<ToolCall>) -> Vec<Outcome> {
        stream::iter(calls).map(|call| self.call_one(call)).buffered(AT_ONCE).collect().await
    }

    async fn call_one(&self, call: ToolCall) -> Outcome {
        self.progress.note(format!("calling {}", call.name));
        let number = self.turns.begin_call(&call.name);
        let (text, is_error) = match self.attempt(&call).await {
            Ok((text, is_error)) => (text, is_error),
            Err(error) => (error.to_string(), true),
        };
        self.turns.end_call(number, is_error);
        Outcome { id: call.id, name: call.name, text: cut(text), is_error }
    }

    async fn attempt(&self, call: &ToolCall) -> Result<(String, bool), ToolError> {
        let Some(offered) = self.tools.find(&call.name) else {
            return Err(ToolError::new(format!("there is no tool `{}`", call.name))
                .hint("use one of the tools you were given"));
        };
        let Value::Object(_) = &call.arguments else {
            return Err(
                ToolError::new("the arguments are not a JSON object").hint("write them as a JSON object")
            );
        };
        self.tools.permit(offered, &call.arguments, self.progress.context()).await?;
        self.toolbox.call(&offered.name, call.arguments.clone()).await
    }
}

/// A long text keeps its beginning and its end.
fn cut(text: String) -> String {
    if text.len() <= MOST_RESULT {
        return text;
    }
    let half = MOST_RESULT / 2;
    let head = (0..=half).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let tail = (text.len() - half..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

impl From<&Offered> for ToolSpec {
    fn from(offered: &Offered) -> Self {
        Self {
            name: offered.name.clone(),
            description: offered.description.clone(),
            schema: offered.schema.clone(),
        }
    }
}
