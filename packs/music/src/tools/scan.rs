//! `fs_scan_audio`: the audio files of the library, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::count;
use crate::cursor::Cursor;
use crate::library::Library;
use crate::tags::write::Failed;
use crate::trouble::cancelled;
use crate::walk::{AUDIO, DEEPEST, Flow, Wanted, walk};

const MOST: u32 = 5000;
/// The text names the first of them; the structured answer has all.
const MOST_SHOWN: usize = 200;
/// How often progress is reported.
pub(crate) const REPORT_EVERY: u64 = 200;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ScanAudio {
    /// The folder to begin in; `.` is the root of the library.
    root: String,
    /// Endings of file names, without the dot; by default all audio formats.
    #[serde(default)]
    extensions: Vec<String>,
    /// How many levels of folders to open, 16 at most.
    #[serde(default = "deepest")]
    max_depth: u32,
    /// How many files to answer with.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 5000), transform = clamp)]
    max_results: u32,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Look at files and folders that begin with a dot, too.
    #[serde(default)]
    include_hidden: bool,
}

pub(crate) fn deepest() -> u32 {
    DEEPEST
}

pub(crate) fn most() -> u32 {
    MOST
}

/// Endings as they are compared.
pub(crate) fn endings(given: &[String]) -> Vec<String> {
    if given.is_empty() {
        return AUDIO.map(ToOwned::to_owned).to_vec();
    }
    given.iter().map(|ending| ending.trim_start_matches('.').to_lowercase()).collect()
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Scan {
    files: Vec<ScannedFile>,
    /// On this page and all before it.
    total_seen: u64,
    /// Where the next page begins; nothing if this is the last one.
    next_cursor: Option<String>,
    truncated: bool,
    /// Whether `max_depth` was more than 16.
    depth_clamped: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ScannedFile {
    path: String,
    size: u64,
    extension: String,
}

/// Finds audio files in the library, in the order of their paths. Answers with pages: while there is a
/// `next_cursor`, call again with it.
#[tool(read_only, idempotent)]
pub(crate) fn fs_scan_audio(
    library: &Library,
    context: &Context,
    args: ScanAudio,
) -> Result<WithText<Scan>, ToolError> {
    let root = library.path(&args.root)?;
    let cursor = Cursor::read(library, args.cursor.as_deref())?;
    let wanted = Wanted {
        extensions: endings(&args.extensions),
        max_depth: args.max_depth.clamp(1, DEEPEST),
        include_hidden: args.include_hidden,
        after: cursor.after,
    };
    let mut files = Vec::new();
    let mut seen = cursor.seen;
    let mut next_cursor = None;
    let mut last = None;
    let page = usize::try_from(args.max_results)?;
    let remarks = walk(&library.jail, &root, &wanted, &mut |found| {
        if context.is_cancelled() {
            return Err(Failed(cancelled()));
        }
        // One more than the page holds, to know whether there is another page.
        if files.len() == page {
            next_cursor = last.as_ref().map(|last| Cursor::write(last, seen));
            return Ok(Flow::Stop);
        }
        seen += 1;
        report_progress(context, seen, "files found");
        files.push(ScannedFile {
            path: found.path.to_string(),
            size: found.look.size,
            extension: found.extension(),
        });
        last = Some(found.path.clone());
        Ok(Flow::On)
    });
    let mut remarks = remarks.map_err(|Failed(error)| error)?;
    if remarks.is_cut {
        remarks.warn(format!("folders deeper than {} levels were left out", wanted.max_depth));
    }
    let more = if next_cursor.is_some() { "; there are more, see next_cursor" } else { "" };
    let shown = files.iter().take(MOST_SHOWN);
    let text = shown.fold(format!("{}{more}", count(files.len(), "audio file")), |text, file| {
        format!("{text}\n{}", file.path)
    });
    let scan = Scan {
        files,
        total_seen: seen,
        truncated: next_cursor.is_some(),
        next_cursor,
        depth_clamped: args.max_depth > DEEPEST,
        warnings: remarks.warnings,
    };
    Ok(WithText::new(scan, text))
}

/// Reports the progress of a scan from time to time.
pub(crate) fn report_progress(context: &Context, done: u64, what: &str) {
    if done.is_multiple_of(REPORT_EVERY) {
        context.progress_with(done, None, format!("{done} {what}"));
    }
}
