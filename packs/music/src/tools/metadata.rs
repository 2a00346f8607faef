//! Reading and writing tags, one file or many.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::Inside;
use toolyard_tool::{Context, Problems, ToolError, WithText, tool};

use super::count;
use crate::library::Library;
use crate::tags::read::{self, AudioFile};
use crate::tags::{TagChange, write};
use crate::trouble::{JailResult as _, cancelled};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadMetadata {
    /// The file.
    path: String,
    /// Also say how long it is and how it is encoded.
    #[serde(default)]
    include_properties: bool,
}

/// Reads the tags of an audio file, and which pictures are in it.
#[tool(read_only, idempotent)]
pub(crate) fn read_metadata(library: &Library, args: ReadMetadata) -> Result<WithText<AudioFile>, ToolError> {
    let audio = read_one(library, &args.path, args.include_properties)?;
    let text = summary(&audio);
    Ok(WithText::new(audio, text))
}

fn read_one(library: &Library, path: &str, with_properties: bool) -> Result<AudioFile, ToolError> {
    let path = library.path(path)?;
    let mut file = library.jail.open(&path).tool_error()?;
    read::read(&mut file, name(&path), path.to_string(), with_properties)
}

fn name(path: &Inside) -> &str {
    path.name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn summary(audio: &AudioFile) -> String {
    let mut lines = vec![format!("{} ({})", audio.file, audio.format)];
    match &audio.metadata {
        Some(metadata) => {
            lines.extend(metadata.tags.texts().into_iter().map(|(name, value)| format!("{name}: {value}")));
        }
        None => lines.push("no tags".into()),
    }
    if let Some(properties) = &audio.properties {
        lines.push(format!("duration: {}", properties.duration_formatted));
    }
    if !audio.pictures.is_empty() {
        lines.push(count(audio.pictures.len(), "picture"));
    }
    lines.join("\n")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadBatch {
    /// The files.
    #[schemars(length(min = 1, max = 500))]
    paths: Vec<String>,
    /// Also say how long they are and how they are encoded.
    #[serde(default)]
    include_properties: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ReadResults {
    results: Vec<ReadResult>,
    ok_count: usize,
    error_count: usize,
}

#[derive(Serialize, JsonSchema)]
struct ReadResult {
    path: String,
    metadata: Option<AudioFile>,
    error: Option<String>,
}

/// Reads the tags of up to 500 audio files. A file that cannot be read is named and does not stop the others.
#[tool(read_only, idempotent)]
pub(crate) fn read_metadata_batch(
    library: &Library,
    context: &Context,
    args: ReadBatch,
) -> Result<WithText<ReadResults>, ToolError> {
    let mut results = Vec::with_capacity(args.paths.len());
    for (done, path) in (1_u32..).zip(&args.paths) {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        let (metadata, error) = match read_one(library, path, args.include_properties) {
            Ok(audio) => (Some(audio), None),
            Err(error) => (None, Some(error.to_string())),
        };
        results.push(ReadResult { path: path.clone(), metadata, error });
        context.progress(done, args.paths.len());
    }
    let error_count = results.iter().filter(|result| result.error.is_some()).count();
    let ok_count = results.len() - error_count;
    let mut lines = vec![format!("{} read, {error_count} failed", count(ok_count, "file"))];
    for result in &results {
        lines.push(match (&result.metadata, &result.error) {
            (Some(audio), _) => one_line(audio),
            (None, error) => format!("{}: {}", result.path, error.as_deref().unwrap_or_default()),
        });
    }
    Ok(WithText::new(ReadResults { results, ok_count, error_count }, lines.join("\n")))
}

fn one_line(audio: &AudioFile) -> String {
    let tags = audio.metadata.as_ref().map(|metadata| &metadata.tags);
    let or_unknown = |text: Option<&String>| text.map_or("?", String::as_str).to_owned();
    let artist = or_unknown(tags.and_then(|tags| tags.artist.as_ref()));
    let title = or_unknown(tags.and_then(|tags| tags.title.as_ref()));
    format!("{}: {artist} – {title}", audio.file)
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Written {
    file: String,
    clear_existing: bool,
    fields_updated: usize,
    /// The fields and their new values; nothing for a field that was deleted.
    updated_fields: BTreeMap<String, Option<String>>,
}

/// Writes tags into an audio file; what is not named stays as it is. `remove` deletes fields. The file is
/// replaced in one step: it is the old one or the new one, whatever happens.
#[tool(
    destructive,
    idempotent,
    check = write::check,
    rule = "`remove` may hold the names of the fields above.",
    rule = "There must be something to write, to `remove` or to clear."
)]
pub(crate) fn write_metadata(
    library: &Library,
    context: &Context,
    change: TagChange,
) -> Result<WithText<Written>, ToolError> {
    let path = library.path_to_change(&change.path)?;
    let updated_fields = {
        let _locked = library.lock(context, &[&path])?;
        write::write(library, context, &path, &change)?
    };
    let text = format!("{path}: {} written", count(updated_fields.len(), "field"));
    let written = Written {
        file: path.to_string(),
        clear_existing: change.clear_existing,
        fields_updated: updated_fields.len(),
        updated_fields,
    };
    Ok(WithText::new(written, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteBatch {
    /// What to write, file by file.
    #[schemars(length(min = 1, max = 500))]
    writes: Vec<TagChange>,
    /// Leave the rest undone after the first failure.
    #[serde(default)]
    stop_on_error: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WriteResults {
    results: Vec<WriteResult>,
    ok_count: usize,
    error_count: usize,
    stopped_early: bool,
    /// How many were not tried.
    skipped: usize,
}

#[derive(Serialize, JsonSchema)]
struct WriteResult {
    path: String,
    fields_updated: usize,
    error: Option<String>,
}

fn check_batch(batch: &WriteBatch, problems: &mut Problems) {
    for change in &batch.writes {
        write::check(change, problems);
    }
}

/// Writes tags into up to 500 audio files. Each file is changed whole or not at all; for changes that can be
/// undone together, use `apply_plan`.
#[tool(
    destructive,
    idempotent,
    check = check_batch,
    rule = "In each of `writes`, `remove` may hold the names of fields, and there must be something to write, to \
            `remove` or to clear."
)]
pub(crate) fn write_metadata_batch(
    library: &Library,
    context: &Context,
    args: WriteBatch,
) -> Result<WithText<WriteResults>, ToolError> {
    let total = args.writes.len();
    let mut results = Vec::with_capacity(total);
    let mut stopped_early = false;
    for (done, change) in (1_u32..).zip(&args.writes) {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        let written = library.path_to_change(&change.path).and_then(|path| {
            let _locked = library.lock(context, &[&path])?;
            write::write(library, context, &path, change)
        });
        let (fields_updated, error) = match written {
            Ok(changed) => (changed.len(), None),
            Err(error) => (0, Some(error.to_string())),
        };
        stopped_early = error.is_some() && args.stop_on_error;
        results.push(WriteResult { path: change.path.clone(), fields_updated, error });
        if stopped_early {
            break;
        }
        context.progress(done, total);
    }
    let error_count = results.iter().filter(|result| result.error.is_some()).count();
    let (ok_count, skipped) = (results.len() - error_count, total - results.len());
    let mut lines =
        vec![format!("{} written, {error_count} failed, {skipped} not tried", count(ok_count, "file"))];
    lines.extend(
        results.iter().filter_map(|result| Some(format!("{}: {}", result.path, result.error.as_ref()?))),
    );
    let results = WriteResults { results, ok_count, error_count, stopped_early, skipped };
    Ok(WithText::new(results, lines.join("\n")))
}
