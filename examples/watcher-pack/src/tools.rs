//! The tools: each uses another part of the host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use toolyard_tool::host::ChildCommand;
use toolyard_tool::{Context, ToolError, tool};

use crate::Watcher;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct File {
    /// The name of a file in the folder.
    name: String,
}

/// Lists the files of the watched folder with their sizes.
#[tool(read_only)]
pub(crate) async fn list_files(watcher: &Watcher) -> BTreeMap<String, u64> {
    watcher.index.files()
}

/// Counts the lines of a file, with the program `wc`.
#[tool(read_only)]
pub(crate) async fn count_lines(watcher: &Watcher, file: File) -> Result<String, ToolError> {
    let path = watcher.path(&file.name)?;
    let mut child = watcher.host.child(ChildCommand::new("wc").arg("-l").arg("--").arg(path)).await?;
    let mut output = String::new();
    child.stdout.read_to_string(&mut output).await?;
    match child.control.wait().await? {
        Some(0) => Ok(output.split_whitespace().next().unwrap_or("0").to_owned()),
        code => Err(ToolError::new(format!("`wc` ended with {code:?}"))),
    }
}

/// The checksum of a file, from the tool `dev__hash` of the gateway.
#[tool(read_only)]
pub(crate) async fn checksum(watcher: &Watcher, context: &Context, file: File) -> Result<String, ToolError> {
    let text = std::fs::read_to_string(watcher.path(&file.name)?)?;
    let answer = context.tools()?.call("dev__hash", json!({ "text": text })).await?;
    Ok(answer.into_result()?.text())
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Delete them?
    sure: bool,
}

/// Deletes all empty files, after asking.
#[tool(destructive, task, keep = "7d", resume)]
pub(crate) async fn delete_empty(watcher: &Watcher, context: &Context) -> Result<String, ToolError> {
    // After a restart the function begins again. A question with the same text is not asked twice, so the text must
    // not depend on what may have changed.
    let answer = context.ask::<Confirm>("Delete all empty files of the folder?").await?.accepted()?;
    if !answer.sure {
        return Ok("kept all files".into());
    }
    let mut deleted = 0;
    for name in watcher.index.files().into_iter().filter(|(_, size)| *size == 0).map(|(name, _)| name) {
        match std::fs::remove_file(watcher.path(&name)?) {
            Ok(()) => deleted += 1,
            // An earlier run of this task has deleted it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        context.progress_with(deleted, None, format!("deleted {name}"));
    }
    watcher.index.look(&watcher.folder)?;
    Ok(format!("deleted {deleted} files"))
}

impl Watcher {
    /// Only files of the index: a name cannot lead out of the folder.
    fn path(&self, name: &str) -> Result<std::path::PathBuf, ToolError> {
        if !self.index.files().contains_key(name) {
            return Err(ToolError::not_found(format!("no file `{name}` in the folder"))
                .hint("`list_files` lists them"));
        }
        Ok(self.folder.join(name))
    }
}
