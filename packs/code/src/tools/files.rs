//! `read_file`, `write_file`, `replace`, `list_directory` and `run_shell_command`, with `files = true`. Agents have such
//! tools of their own; these are for clients that have none.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use toolyard_jail::{Existing, JailError, Kind};
use toolyard_tool::host::ChildCommand;
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::{Code, here};
use crate::change::FileChange;
use crate::project::{Project, jail_error};

/// Characters of a text that are returned.
const MAX_TEXT: usize = 20_000;
/// Lines of a log that are returned unless others are asked for.
const LOG_LINES: usize = 100;
/// Bytes of a program's output that are kept.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadFile {
    /// The file.
    path: String,
    /// The first line to return, counted from 0.
    offset: Option<usize>,
    /// How many lines to return.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FileText {
    text: String,
    /// The first line that is returned, counted from 0.
    offset: usize,
    /// How many lines the file has.
    lines: usize,
    /// Whether something in the middle or at the start was left out.
    truncated: bool,
}

/// Reads a text file, or some of its lines. Of a log, the last 100 lines.
#[tool(read_only, idempotent)]
pub(crate) fn read_file(
    code: &Code,
    context: &Context,
    args: ReadFile,
) -> Result<WithText<FileText>, ToolError> {
    let place = code.place(context, &args.path)?;
    let text = place
        .project
        .text(&place.below)
        .ok_or_else(|| ToolError::new(format!("`{}` is not a text file of at most 2 MB", args.path)))?;
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let is_log =
        place.below.extension().is_some_and(|ending| ["log", "out", "err"].iter().any(|log| ending == *log));
    let is_whole = args.offset.is_none() && args.limit.is_none();
    let first = match args.offset {
        None if is_log && is_whole => all.len().saturating_sub(LOG_LINES),
        offset => offset.unwrap_or(0).min(all.len()),
    };
    let end = args.limit.map_or(all.len(), |limit| first.saturating_add(limit).min(all.len()));
    let chosen = all[first..end].concat();
    let cut = if is_log { cut_start(&chosen) } else { cut_middle(&chosen) };
    let truncated = cut.len() != chosen.len() || (is_whole && first > 0);
    let read = FileText { text: cut.clone(), offset: first, lines: all.len(), truncated };
    Ok(WithText::new(read, cut))
}

/// The head and the tail of a text that is too long.
fn cut_middle(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_TEXT {
        return text.to_owned();
    }
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (&text[..byte(MAX_TEXT / 2)], &text[byte(count - MAX_TEXT / 2)..]);
    format!(
        "{head}\n… {} characters left out: use `offset` and `limit` to read them …\n{tail}",
        count - MAX_TEXT
    )
}

/// The tail of a text that is too long.
fn cut_start(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_TEXT {
        return text.to_owned();
    }
    let byte = text.char_indices().nth(count - MAX_TEXT).map_or(0, |(byte, _)| byte);
    format!(
        "… {} characters left out: use `offset` and `limit` to read them …\n{}",
        count - MAX_TEXT,
        &text[byte..]
    )
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteFile {
    /// The file; folders that do not exist are made.
    path: String,
    /// Its new text.
    content: String,
}

/// Writes a text file, whole or not at all.
#[tool(destructive, idempotent)]
pub(crate) fn write_file(code: &Code, context: &Context, args: WriteFile) -> Result<String, ToolError> {
    let place = code.new_place(context, &args.path)?;
    place.project.writable()?;
    write(&place.project, &place.below, &args.content)?;
    Ok(format!("Wrote {} bytes to `{}`.", args.content.len(), place.below.display()))
}

fn write(project: &Project, path: &Path, text: &str) -> Result<(), ToolError> {
    let inside = project.inside(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        project.jail().make_folders(&project.inside(folder)?).map_err(jail_error)?;
    }
    let write = |into: &mut std::fs::File| -> Result<(), JailError> { Ok(into.write_all(text.as_bytes())?) };
    project.jail().write(&inside, Existing::Replace, write).map_err(jail_error)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Replace {
    /// The file.
    path: String,
    /// The text to replace, exactly as it is in the file.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// What the change is for; recorded, not interpreted.
    #[serde(rename = "instruction")]
    _instruction: Option<String>,
    /// How often the text must occur; otherwise nothing is written.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    expected_replacements: usize,
}

fn one() -> usize {
    1
}

/// Replaces text in a file, if it occurs as often as expected.
#[tool(destructive)]
pub(crate) fn replace(code: &Code, context: &Context, args: Replace) -> Result<String, ToolError> {
    let place = code.place(context, &args.path)?;
    let text = place
        .project
        .text(&place.below)
        .ok_or_else(|| ToolError::new(format!("`{}` is not a text file of at most 2 MB", args.path)))?;
    let found = text.matches(&args.old_string).count();
    if found != args.expected_replacements {
        return Err(ToolError::new(format!(
            "`{}` has the text {found} times, not {} times; nothing was written",
            args.path, args.expected_replacements
        ))
        .hint("give more of the text around it, or set `expected_replacements`"));
    }
    let after = text.replace(&args.old_string, &args.new_string);
    let changed = FileChange::new(&place.below, &text, &after);
    code.journals.apply(&place.project, &[changed])?;
    Ok(format!("Replaced the text {found} times in `{}`.", place.below.display()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListDirectory {
    /// The folder.
    #[serde(default = "here")]
    path: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Listing {
    folders: Vec<String>,
    files: Vec<String>,
}

/// Lists a folder: folders first, then files.
#[tool(read_only, idempotent)]
pub(crate) fn list_directory(
    code: &Code,
    context: &Context,
    args: ListDirectory,
) -> Result<WithText<Listing>, ToolError> {
    let place = code.place(context, &args.path)?;
    let folder = place.project.jail().folder(&place.project.inside(&place.below)?).map_err(jail_error)?;
    let mut listing = Listing { folders: Vec::new(), files: Vec::new() };
    for entry in folder.entries().map_err(jail_error)? {
        let name = entry.name.to_string_lossy().into_owned();
        let list = if entry.kind == Kind::Folder { &mut listing.folders } else { &mut listing.files };
        list.push(name);
    }
    listing.folders.sort();
    listing.files.sort();
    let folders = listing.folders.iter().map(|name| format!("[DIR] {name}"));
    let lines: Vec<String> =
        folders.chain(listing.files.iter().map(|name| format!("[FILE] {name}"))).collect();
    let text = if lines.is_empty() { "(empty directory)".to_owned() } else { lines.join("\n") };
    Ok(WithText::new(listing, text))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Shell {
    /// The command, for `bash -c`.
    #[schemars(length(min = 1))]
    command: String,
    /// What the command is for; recorded, not interpreted.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// The folder to run it in.
    #[serde(default = "here")]
    dir_path: String,
    /// After how many seconds the command and all that it started are stopped.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 3600), transform = clamp)]
    timeout_seconds: u64,
}

fn five_minutes() -> u64 {
    300
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Ran {
    stdout: String,
    stderr: String,
    /// Missing if the command was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    timed_out: bool,
}

/// Runs a shell command in a trusted project that may be changed. What it started ends with it.
#[tool(destructive, open_world)]
pub(crate) async fn run_shell_command(
    code: &Code,
    context: &Context,
    args: Shell,
) -> Result<WithText<Ran>, ToolError> {
    let place = code.locate(context, &args.dir_path).await?;
    place.project.writable()?;
    let folder = place.project.root().join(&place.below);
    let command = ChildCommand::new("bash")
        .arg("-c")
        .arg(&args.command)
        .folder(folder)
        .runs_code_of(place.project.root());
    let cannot = |error: std::io::Error| ToolError::new(format!("cannot run the command: {error}"));
    let mut child = code.host.child(command).await.map_err(cannot)?;
    child.stdin = Box::new(tokio::io::sink());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let ran = async {
        tokio::join!(collect(&mut child.stdout, &mut stdout), collect(&mut child.stderr, &mut stderr));
        child.control.wait().await
    };
    let alive = async {
        let mut seconds = 0_u32;
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            seconds += 10;
            context.progress(seconds, u32::try_from(args.timeout_seconds).unwrap_or(u32::MAX));
        }
    };
    let limited = tokio::time::timeout(Duration::from_secs(args.timeout_seconds), ran);
    let ended = tokio::select! {
        ended = limited => ended,
        () = alive => unreachable!("it reports until the end"),
    };
    let timed_out = ended.is_err();
    let exit_code = if let Ok(code) = ended {
        code.map_err(cannot)?
    } else {
        child.control.stop().await;
        None
    };
    let text = |bytes: &[u8]| cut_middle(&String::from_utf8_lossy(bytes));
    let ran = Ran { stdout: text(&stdout), stderr: text(&stderr), exit_code, timed_out };
    let end = match ran.exit_code {
        Some(code) => format!("exit code {code}"),
        None if ran.timed_out => format!("stopped after {} s", args.timeout_seconds),
        None => "ended by a signal".to_owned(),
    };
    let text = format!("{}\n{}\n({end})", ran.stdout, ran.stderr);
    Ok(WithText::new(ran, text))
}

/// Reads to the end. What was read so far is in `into` at any time, also if this is dropped because the time is up.
async fn collect(from: &mut (dyn AsyncRead + Send + Unpin), into: &mut Vec<u8>) {
    let mut limited = (&mut *from).take(MAX_OUTPUT);
    while limited.read_buf(into).await.is_ok_and(|read| read > 0) {}
    // The rest is read too: a program whose output is not read stops.
    let _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn output_that_was_read_before_the_time_was_up_is_kept() {
        let (mut far_end, mut near) = tokio::io::duplex(64);
        let mut bytes = Vec::new();
        tokio::io::AsyncWriteExt::write_all(&mut far_end, b"step 1\nstep 2\n").await.unwrap();
        let reading = tokio::time::timeout(Duration::from_secs(1), collect(&mut near, &mut bytes));
        assert!(reading.await.is_err());
        assert_eq!(bytes, b"step 1\nstep 2\n");
    }

    #[test]
    fn long_texts_lose_their_middle_and_logs_their_start() {
        let text: String = ('a'..='z').cycle().take(50_000).collect();
        let (middle, start) = (cut_middle(&text), cut_start(&text));
        assert!(
            middle.starts_with("abc")
                && middle.contains("… 30000 characters left out")
                && middle.ends_with(&text[40_000..])
        );
        assert!(start.starts_with("… 30000 characters left out") && start.ends_with(&text[30_000..]));
        assert_eq!(cut_middle("short"), "short");
    }
}
