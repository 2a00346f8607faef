//! `apply_plan`, `undo_plan`, `plan_list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, Problems, ToolError, WithText, tool};

use super::count;
use crate::clock::rfc3339;
use crate::library::Library;
use crate::plan::forecast::Forecast;
use crate::plan::journal::{self, Journal};
use crate::plan::run::Runner;
use crate::plan::undo::{self, Outcome, Undone};
use crate::plan::{OpKind, Operation};
use crate::trouble::cancelled;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Plan {
    /// What to do, in this order.
    #[schemars(length(min = 1, max = 1000))]
    operations: Vec<Operation>,
    /// Leave the rest undone after the first failure.
    #[serde(default)]
    stop_on_error: bool,
    /// Only say what would be done; each operation sees what those before it would have done.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Applied {
    /// For `undo_plan`; nothing for a dry run.
    plan_id: Option<String>,
    results: Vec<OpResult>,
    executed: usize,
    ok_count: usize,
    error_count: usize,
    skipped: usize,
    stopped_early: bool,
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct OpResult {
    op_index: usize,
    op_kind: OpKind,
    status: Status,
    detail: Option<String>,
    error: Option<String>,
    dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Error,
    Skipped,
}

fn check(plan: &Plan, problems: &mut Problems) {
    for operation in &plan.operations {
        operation.check(problems);
    }
}

/// Carries out up to 1000 operations: making folders, moving, writing tags, embedding covers. Begin with
/// `dry_run: true`. What was done can be taken back with `undo_plan`, even if the program was killed meanwhile.
#[tool(
    destructive,
    task,
    check = check,
    rule = "Operations that write tags or embed a cover take what `write_metadata` and `embed_cover` take."
)]
pub(crate) fn apply_plan(
    library: &Library,
    context: &Context,
    plan: Plan,
) -> Result<WithText<Applied>, ToolError> {
    let _locked = library.lock_plans(context)?;
    let (results, plan_id) = if plan.dry_run {
        let mut forecast = Forecast::new(library);
        (each(context, &plan, |_, operation| forecast.apply(operation))?, None)
    } else {
        let journal = Journal::begin(library, plan.operations.len())?;
        let id = journal.id.clone();
        let mut runner = Runner { library, context, journal };
        (each(context, &plan, |index, operation| runner.run(index, operation))?, Some(id))
    };
    let of = |status| results.iter().filter(|result| result.status == status).count();
    let ok_count = of(Status::Ok);
    let error_count = of(Status::Error);
    let skipped = of(Status::Skipped);
    let text = text(&results, plan_id.as_deref());
    let applied = Applied {
        plan_id,
        executed: ok_count + error_count,
        ok_count,
        error_count,
        skipped,
        stopped_early: skipped > 0,
        dry_run: plan.dry_run,
        results,
    };
    Ok(WithText::new(applied, text))
}

fn each(
    context: &Context,
    plan: &Plan,
    mut apply: impl FnMut(usize, &Operation) -> Result<String, ToolError>,
) -> Result<Vec<OpResult>, ToolError> {
    let mut results = Vec::with_capacity(plan.operations.len());
    let mut has_failed = false;
    for (index, operation) in plan.operations.iter().enumerate() {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        let mut result = OpResult {
            op_index: index,
            op_kind: operation.kind(),
            status: Status::Skipped,
            detail: None,
            error: None,
            dry_run: plan.dry_run,
        };
        if !(has_failed && plan.stop_on_error) {
            match apply(index, operation) {
                Ok(detail) => (result.status, result.detail) = (Status::Ok, Some(detail)),
                Err(error) => (result.status, result.error) = (Status::Error, Some(error.to_string())),
            }
        }
        has_failed |= result.status == Status::Error;
        results.push(result);
        context.progress(index + 1, plan.operations.len());
    }
    Ok(results)
}

fn text(results: &[OpResult], plan_id: Option<&str>) -> String {
    let failed = results.iter().filter(|result| result.status == Status::Error).count();
    let head = match plan_id {
        Some(id) => format!("{id}: {}, {failed} failed", count(results.len(), "operation")),
        None => format!("dry run: {}, {failed} would fail", count(results.len(), "operation")),
    };
    results.iter().fold(head, |text, result| {
        let outcome = result.error.as_ref().or(result.detail.as_ref()).map_or("not tried", String::as_str);
        format!("{text}\n{}. {outcome}", result.op_index)
    })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct UndoPlan {
    /// The plan, as `apply_plan` named it; by default the newest.
    plan_id: Option<String>,
    /// Put old files back even if the new ones were changed since.
    #[serde(default)]
    force: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct UndonePlan {
    plan_id: String,
    /// The last operation first.
    results: Vec<Undone>,
    undone: usize,
    conflicts: usize,
    /// Whether the library is as it was before the plan, and the plan is forgotten.
    complete: bool,
}

/// Undoes `apply_plan`: moves files back, restores their old content, and removes folders that the plan made and
/// that are empty. Files that were changed since are left alone and listed.
#[tool(destructive)]
pub(crate) fn undo_plan(
    library: &Library,
    context: &Context,
    args: UndoPlan,
) -> Result<WithText<UndonePlan>, ToolError> {
    let _locked = library.lock_plans(context)?;
    let mut all = journal::all(library)?;
    let record = match &args.plan_id {
        Some(id) => all.into_iter().find(|record| record.id == *id),
        None => all.pop(),
    };
    let record = record.ok_or_else(|| {
        ToolError::not_found("there is no such plan to undo")
            .hint("`plan_list` shows those that can be undone")
    })?;
    let total = record.begun.len();
    let mut results = Vec::new();
    for (done, begun) in (1_u32..).zip(record.begun.iter().rev()) {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        results.push(undo::undo(library, context, &record, begun, args.force));
        context.progress(done, total);
    }
    let of = |status| results.iter().filter(|result| result.status == status).count();
    let (undone, conflicts) = (of(Outcome::Undone), of(Outcome::Conflict));
    if conflicts == 0 {
        record.forget(library)?;
    }
    let text = results.iter().filter(|result| result.status == Outcome::Conflict).fold(
        format!("{}: {} undone, {}", record.id, count(undone, "operation"), count(conflicts, "conflict")),
        |text, conflict| format!("{text}\n{}. {}", conflict.op_index, conflict.detail),
    );
    let answer = UndonePlan { plan_id: record.id, results, undone, conflicts, complete: conflicts == 0 };
    Ok(WithText::new(answer, text))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Plans {
    /// The newest first.
    plans: Vec<PlanAbout>,
}

#[derive(Serialize, JsonSchema)]
struct PlanAbout {
    plan_id: String,
    created_at: String,
    operations: usize,
    /// How many were begun and done.
    done: usize,
    /// How many were begun and not done: they failed, or the program was killed.
    interrupted: usize,
}

/// Lists the plans that can be undone, the newest first. The last 20 are kept.
#[tool(read_only, idempotent)]
pub(crate) fn plan_list(library: &Library) -> Result<WithText<Plans>, ToolError> {
    let mut plans: Vec<PlanAbout> = journal::all(library)?
        .into_iter()
        .map(|record| PlanAbout {
            created_at: rfc3339(record.created),
            operations: record.operations,
            done: record.begun.iter().filter(|begun| begun.is_done).count(),
            interrupted: record.begun.iter().filter(|begun| !begun.is_done).count(),
            plan_id: record.id,
        })
        .collect();
    plans.reverse();
    let text = plans.iter().fold(count(plans.len(), "plan"), |text, plan| {
        format!("{text}\n{} ({}): {} of {} done", plan.plan_id, plan.created_at, plan.done, plan.operations)
    });
    Ok(WithText::new(Plans { plans }, text))
}
