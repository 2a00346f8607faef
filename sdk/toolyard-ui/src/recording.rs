//! Recorded steps: what an agent did with an app, kept so that it can be committed and done again.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Arguments, Context, Problems, ToolError, read_arguments, tool};

use crate::Ui;
use crate::tools::{Operator, run_step};

/// How many steps a recording holds.
const MOST_STEPS: usize = 1_000;

/// One step: a tool of this crate and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The name of the tool, for instance `ClickElement`.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// Why a replay ended before its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailed {
    /// Which step, from 1.
    pub number: usize,
    /// The reason.
    pub why: String,
}

impl fmt::Display for StepFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.number, self.why)
    }
}

impl std::error::Error for StepFailed {}

/// Does recorded steps again, one after the other, and ends at the first that fails. A test of an app reads the steps
/// from a file that is committed beside it.
pub async fn replay(ui: Arc<dyn Ui>, steps: &[Step]) -> Result<(), StepFailed> {
    replay_with(&Operator::new(ui), steps, |_| {}).await
}

async fn replay_with(
    operator: &Operator,
    steps: &[Step],
    mut done: impl FnMut(usize),
) -> Result<(), StepFailed> {
    for (position, step) in steps.iter().enumerate() {
        let ended = Box::pin(run_step(operator, step)).await;
        ended.map_err(|error| {
            let why = format!("{}: {error}", step.tool);
            StepFailed { number: position + 1, why }
        })?;
        done(position + 1);
    }
    Ok(())
}

/// The arguments of a step, clamped and checked as those of a call are, with the check of the step's tool.
pub(crate) fn arguments<A: Arguments>(
    step: &Step,
    check: Option<fn(&A, &mut Problems)>,
) -> Result<A, ToolError> {
    read_arguments(step.arguments.clone(), check)
}

/// Steps while they are being recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    steps: Option<Vec<Step>>,
}

impl Recorder {
    pub(crate) fn add(&mut self, step: Step) {
        if let Some(steps) = self.steps.as_mut().filter(|steps| steps.len() < MOST_STEPS) {
            steps.push(step);
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Record {
    /// `start` begins a new recording; `stop` ends it and returns the steps.
    what: What,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Start,
    Stop,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Steps {
    /// The steps, in their order.
    #[schemars(length(max = 1000))]
    pub(crate) steps: Vec<Step>,
}

/// Records what is done with the app: clicks, text, keys, waits and assertions that succeed.
///
/// The steps name elements by their path. Save them as a file, and `ReplaySteps` does them again.
#[tool(name = "RecordSteps")]
pub(crate) async fn record_steps(operator: &Operator, args: Record) -> Result<Steps, ToolError> {
    let mut recorder = operator.recorder();
    match args.what {
        What::Start => {
            recorder.steps = Some(Vec::new());
            Ok(Steps { steps: Vec::new() })
        }
        What::Stop => {
            let steps = recorder.steps.take();
            let missing = || ToolError::new("nothing is being recorded").hint("`start` begins a recording");
            Ok(Steps { steps: steps.ok_or_else(missing)? })
        }
    }
}

/// Does recorded steps again and fails at the first that fails.
#[tool(name = "ReplaySteps")]
pub(crate) async fn replay_steps(
    operator: &Operator,
    context: &Context,
    args: Steps,
) -> Result<String, ToolError> {
    let total = args.steps.len();
    replay_with(operator, &args.steps, |done| context.progress(done, total)).await?;
    Ok(format!("{total} steps done"))
}
