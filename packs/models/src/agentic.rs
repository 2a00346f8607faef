//! A model that calls tools until it has an answer, or until a bound stops it: turns, time, tokens, money.

mod choice;
mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolyard_tool::ToolError;

use crate::conversation::{Message, Outcome, ToolCall, ToolSpec, Usage};
use crate::models::{Answered, Invocation, Models};
use crate::progress::Progress;

pub(crate) use choice::{Chosen, choose};
pub(crate) use toolbox::{CallersTools, Offered, Toolbox};

/// Calls of one turn that run at the same time.
const AT_ONCE: usize = 8;
/// What a model sees of one answer of a tool.
const MOST_RESULT: usize = 50_000;

/// When a run ends without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) turns: u32,
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
}

/// One request to the model and the calls that followed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TurnReport {
    /// What the model wrote beside its calls.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    pub(crate) calls: Vec<CallReport>,
}

/// One call of a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CallReport {
    pub(crate) tool: String,
    pub(crate) failed: bool,
    pub(crate) duration_ms: u64,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// The last answer of the model; nothing if it never answered.
    pub(crate) answered: Option<Answered>,
    pub(crate) turns: Vec<TurnReport>,
    pub(crate) stopped_by: StoppedBy,
    /// The sum over all turns; nothing if a turn did not report it.
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<f64>,
}

impl Models {
    /// Lets a model work with tools. What it was asked is in `invocation`.
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
        let deadline = Instant::now() + bounds.time;
        let mut run = Run {
            answered: None,
            turns: Vec::new(),
            stopped_by: StoppedBy::MaxTurns,
            usage: Some(Usage::default()),
            cost: Some(0.0),
        };
        for turn in 1..=bounds.turns {
            progress.note(format!("turn {turn} of {}", bounds.turns));
            let Ok(answered) = timeout_at(deadline, self.next_answer(&mut invocation, turn, progress)).await
            else {
                run.stopped_by = StoppedBy::Timeout;
                break;
            };
            let mut answered = answered?;
            run.add(&answered);
            self.conclude(&invocation, &mut answered).await?;
            let calls = answered.reply.calls.clone();
            let text = answered.reply.text.clone();
            let echo = Message::Echo(answered.reply.echo.clone());
            run.answered = Some(answered);
            if calls.is_empty() {
                run.stopped_by = StoppedBy::Answer;
                break;
            }
            if let Some(stop) = run.is_over(bounds) {
                run.turns.push(TurnReport { text, calls: Vec::new() });
                run.stopped_by = stop;
                break;
            }
            let working = call_all(calls, &tools, &toolbox, progress);
            let Ok(done) = timeout_at(deadline, working).await else {
                run.turns.push(TurnReport { text, calls: Vec::new() });
                run.stopped_by = StoppedBy::Timeout;
                break;
            };
            let (outcomes, reports) = done.into_iter().unzip();
            run.turns.push(TurnReport { text, calls: reports });
            invocation.turn.messages.extend([echo, Message::Results(outcomes)]);
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

/// Makes all calls of a turn; results in the order of the calls.
async fn call_all(
    calls: Vec<ToolCall>,
    tools: &Chosen,
    toolbox: &Arc<dyn Toolbox>,
    progress: &Progress,
) -> Vec<(Outcome, CallReport)> {
    stream::iter(calls).map(|call| call_one(call, tools, toolbox, progress)).buffered(AT_ONCE).collect().await
}

async fn call_one(
    call: ToolCall,
    tools: &Chosen,
    toolbox: &Arc<dyn Toolbox>,
    progress: &Progress,
) -> (Outcome, CallReport) {
    let begun = Instant::now();
    progress.note(format!("calling {}", call.name));
    let (text, is_error) = match attempt(&call, tools, toolbox, progress).await {
        Ok((text, is_error)) => (text, is_error),
        Err(error) => (error.to_string(), true),
    };
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = CallReport { tool: call.name.clone(), failed: is_error, duration_ms };
    let outcome = Outcome { id: call.id, name: call.name, text: cut(text), is_error };
    (outcome, report)
}

async fn attempt(
    call: &ToolCall,
    tools: &Chosen,
    toolbox: &Arc<dyn Toolbox>,
    progress: &Progress,
) -> Result<(String, bool), ToolError> {
    let Some(offered) = tools.find(&call.name) else {
        return Err(ToolError::new(format!("there is no tool `{}`", call.name))
            .hint("use one of the tools you were given"));
    };
    let Value::Object(_) = &call.arguments else {
        return Err(ToolError::new("the arguments are not a JSON object").hint("write them as a JSON object"));
    };
    tools.permit(offered, &call.arguments, progress.context()).await?;
    toolbox.call(&offered.name, call.arguments.clone()).await
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
