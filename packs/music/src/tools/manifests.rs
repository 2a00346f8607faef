//! Manifests: notes that an agent keeps with the library, such as what is left to do. They are files in
//! `.toolyard/manifests`, inside the root like everything else.

use std::io::{Read as _, Write as _};
use std::time::UNIX_EPOCH;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_jail::{Existing, Inside, JailError, Kind, Look};
use toolyard_tool::{ToolError, WithText, tool};

use super::count;
use crate::clock::rfc3339;
use crate::library::Library;
use crate::trouble::JailResult as _;

const LARGEST: usize = 10 * 1024 * 1024;
const MOST_LISTED: usize = 100;
const FOLDER: &str = "manifests";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ManifestWrite {
    /// What it is called: letters, digits, dot, dash and underscore; no dot first.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"))]
    id: String,
    /// Any JSON.
    content: Value,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ManifestRead {
    /// What it is called.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"))]
    id: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ManifestWritten {
    path: String,
    bytes: usize,
    written_at: String,
}

/// Keeps a piece of JSON with the library, under a name. What was kept under that name before is replaced.
#[tool(destructive, idempotent)]
pub(crate) fn manifest_write(
    library: &Library,
    args: ManifestWrite,
) -> Result<WithText<ManifestWritten>, ToolError> {
    let bytes = serde_json::to_vec_pretty(&args.content)?;
    if bytes.len() > LARGEST {
        return Err(ToolError::new(format!("the manifest has {} bytes; the limit is 10 MiB", bytes.len()))
            .hint("split it into several"));
    }
    library.own_folder(FOLDER)?;
    let path = path_of(&args.id)?;
    library.jail.write(&path, Existing::Replace, |file| Ok(file.write_all(&bytes)?)).tool_error()?;
    let written_at = written_at(&library.jail.look(&path).tool_error()?);
    let text = format!("{}: {} bytes", args.id, bytes.len());
    Ok(WithText::new(ManifestWritten { path: path.to_string(), bytes: bytes.len(), written_at }, text))
}

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Manifest {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// `NotFound` if there is none of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Reads what was kept under a name. That there is nothing is an answer, not a failure.
#[tool(read_only, idempotent)]
pub(crate) fn manifest_read(library: &Library, args: ManifestRead) -> Result<Manifest, ToolError> {
    let path = path_of(&args.id)?;
    let file = match library.jail.open(&path) {
        Err(JailError::Missing { .. }) => {
            return Ok(Manifest { id: args.id, error: Some("NotFound".into()), ..Manifest::default() });
        }
        opened => opened.tool_error()?,
    };
    let look = Look::of(&file)?;
    let mut bytes = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    let content = serde_json::from_slice(&bytes).map_err(|error| {
        ToolError::new(format!("the manifest `{}` is not JSON: {error}", args.id))
            .hint("write it again with `manifest_write`")
    })?;
    Ok(Manifest {
        id: args.id,
        content: Some(content),
        written_at: Some(written_at(&look)),
        bytes: Some(look.size),
        error: None,
    })
}

#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "they are the names in the answer")]
pub(crate) struct Manifests {
    manifests: Vec<ManifestAbout>,
    dir: String,
    total: usize,
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct ManifestAbout {
    id: String,
    written_at: String,
    bytes: u64,
}

/// Lists what is kept with the library, the newest first, 100 at most.
#[tool(read_only, idempotent)]
pub(crate) fn manifest_list(library: &Library) -> Result<WithText<Manifests>, ToolError> {
    let dir = folder_path()?;
    let folder = match library.jail.folder(&dir) {
        Err(JailError::Missing { .. }) => None,
        opened => Some(opened.tool_error()?),
    };
    let mut found = Vec::new();
    if let Some(folder) = &folder {
        for entry in folder.entries().tool_error()?.into_iter().filter(|entry| entry.kind == Kind::File) {
            let name = entry.name.to_string_lossy();
            let Some(id) = name.strip_suffix(".json").filter(|id| !id.starts_with('.')) else { continue };
            let look = folder.look(&entry.name).tool_error()?;
            found.push((
                look.modified,
                ManifestAbout { id: id.into(), written_at: written_at(&look), bytes: look.size },
            ));
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.id.cmp(&b.1.id)));
    let total = found.len();
    let manifests: Vec<ManifestAbout> = found.into_iter().take(MOST_LISTED).map(|(_, about)| about).collect();
    let text = manifests.iter().fold(count(total, "manifest"), |text, one| {
        format!("{text}\n{} ({}, {} bytes)", one.id, one.written_at, one.bytes)
    });
    let truncated = total > manifests.len();
    Ok(WithText::new(Manifests { manifests, dir: dir.to_string(), total, truncated }, text))
}

fn written_at(look: &Look) -> String {
    rfc3339(look.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

fn folder_path() -> Result<Inside, ToolError> {
    Inside::root().join(crate::library::OWN_FOLDER).and_then(|own| own.join(FOLDER)).tool_error()
}

fn path_of(id: &str) -> Result<Inside, ToolError> {
    folder_path()?.join(format!("{id}.json")).tool_error()
}
