//! `semantic_health`: whether the provider of vectors answers.

use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::manage::ProjectArgs;
use crate::tools::Code;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    model: String,
    /// Whether the provider has just computed a vector.
    is_online: bool,
    /// Why it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Chunks of the project that can be compared by meaning.
    vectors: usize,
}

/// Checks whether the provider of vectors answers, and counts the vectors of a project.
#[tool(read_only, idempotent, open_world)]
pub(crate) fn semantic_health(
    code: &Code,
    context: &Context,
    args: ProjectArgs,
) -> Result<WithText<Health>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    code.expect_payer(&place, args.provider.as_deref())?;
    let index = code.index(&place, args.provider.as_deref())?;
    let (model, vectors) = (index.encoder().name(), index.size().vectors);
    let problem = Handle::current().block_on(index.encoder().query("health")).err();
    let problem = problem.map(|error| error.message().to_owned());
    let state = problem.as_ref().map_or_else(|| "online".to_owned(), |problem| format!("offline: {problem}"));
    let text = format!("{model}: {state}\nvectors: {vectors}");
    Ok(WithText::new(Health { model, is_online: problem.is_none(), problem, vectors }, text))
}
