//! The tools that manage the index: update, inspect and delete it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, tool};

use crate::index::Update;
use crate::tools::{Code, here, unproven};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct IndexArgs {
    /// Whether to read all files and compute all vectors of the provider again.
    #[serde(default)]
    force: bool,
    /// The project to index.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

/// Brings the index of a project up to date. Searching does this by itself; call it to prepare a large project.
#[tool(task, idempotent)]
pub(crate) fn semantic_index(
    code: &Code,
    context: &Context,
    args: IndexArgs,
) -> Result<WithText<Update>, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    code.expect_payer(&place, args.provider.as_deref())?;
    if args.force {
        code.clear_index(&place, args.provider.as_deref())?;
    }
    let index = code.index(&place, args.provider.as_deref())?;
    let report = |done: usize, total: usize| {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        context.progress(number(done), number(total));
    };
    let go_on = || !context.is_cancelled();
    let mut update = index.refresh(&go_on, &report)?;
    if !update.cancelled && index.claim_fill() {
        let filled = code.fill_in_turn(&index, &go_on, &|size| report(size.vectors, size.chunks));
        index.end_fill(&filled);
        update.cancelled = !filled?;
    }
    let text = format!(
        "Indexed {} files, removed {}, {} unchanged; {} chunks in all{}.",
        update.indexed_files,
        update.removed_files,
        update.reused_files,
        update.chunks,
        if update.cancelled { "; cancelled before the end" } else { "" }
    );
    Ok(WithText::new(update, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ProjectArgs {
    /// The project.
    #[serde(default = "here")]
    pub(super) project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    pub(super) provider: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats {
    project: String,
    /// Where the index is stored.
    folder: String,
    model: String,
    dimensions: usize,
    files: usize,
    chunks: usize,
    /// Chunks that can be compared by meaning.
    vectors: usize,
}

/// Shows what is indexed of a project.
#[tool(read_only, idempotent)]
pub(crate) fn semantic_stats(code: &Code, context: &Context, args: ProjectArgs) -> Result<Stats, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let index = code.index(&place, args.provider.as_deref())?;
    let size = index.size();
    Ok(Stats {
        project: place.project.root().display().to_string(),
        folder: index.folder().display().to_string(),
        model: index.encoder().name(),
        dimensions: index.dimensions(),
        files: size.files,
        chunks: size.chunks,
        vectors: size.vectors,
    })
}

/// Stops an update of the index that is under way. What is indexed so far stays.
#[tool(idempotent)]
pub(crate) fn cancel_indexing(
    code: &Code,
    context: &Context,
    args: ProjectArgs,
) -> Result<String, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    code.index(&place, args.provider.as_deref())?.cancel();
    Ok(format!("Asked the update of `{}` to stop.", place.project.root().display()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteArgs {
    /// The project whose index is deleted.
    #[serde(default = "here")]
    project_path: String,
    /// Whether to delete the indexes of all projects.
    #[serde(default)]
    delete_all: bool,
    /// Only the index with the vectors of this provider; those of all providers if it is left out.
    provider: Option<String>,
}

/// Deletes the index of a project. The files of the project stay, and the next search makes a new index.
#[tool(destructive, idempotent)]
pub(crate) fn delete_index(code: &Code, context: &Context, args: DeleteArgs) -> Result<String, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    if args.delete_all && args.provider.is_some() {
        return Err(
            ToolError::new("`delete_all` deletes the indexes of all providers").hint("leave out `provider`")
        );
    }
    if args.delete_all {
        if !context.is_proven() {
            return Err(unproven("the indexes of all projects are deleted"));
        }
        let had_any = code.delete_all()?;
        return Ok(if had_any { "Deleted all indexes." } else { "There was no index." }.to_owned());
    }
    let place = code.place(context, &args.project_path)?;
    code.expect_owner(&place, args.provider.as_deref())?;
    let root = place.project.root().display().to_string();
    let had_any = match &args.provider {
        Some(provider) => code.clear_index(&place, Some(provider))?,
        None => code.delete_index(&place)?,
    };
    Ok(if had_any { format!("Deleted the index of `{root}`.") } else { format!("`{root}` has no index.") })
}
