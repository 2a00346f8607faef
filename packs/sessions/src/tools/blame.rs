//! `session_blame`: which session wrote the lines of a file.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Context, Host, ToolError, tool};

use super::WithText;
use super::list::Session;
use crate::config::Config;
use crate::format;
use crate::lines::Lines;
use crate::sessions::{Sessions, real};
use crate::transcript::Transcript;

/// Shorter lines are in every file.
const LEAST_LINE: usize = 6;
const MOST_FILE: u64 = 4 << 20;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Blame {
    /// The file.
    path: String,
    /// The first line; 1 if it is left out.
    #[schemars(range(min = 1))]
    first_line: Option<usize>,
    /// The last line; the last of the file if it is left out.
    #[schemars(range(min = 1))]
    last_line: Option<usize>,
}

/// A session that wrote lines of the file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Writer {
    session: Session,
    /// Lines that are in the file now and were written in this session; the newest session counts.
    lines: Vec<usize>,
    /// The commits that these lines are from, if git knows the file.
    commits: Vec<String>,
}

/// Names the sessions that wrote the lines of a file, and the commits that these lines are from.
#[tool(read_only, idempotent)]
pub(crate) async fn session_blame(
    sessions: &Sessions,
    context: &Context,
    args: Blame,
) -> Result<WithText<Vec<Writer>>, ToolError> {
    let path = real(Path::new(&args.path));
    let scope = sessions.scope(context, None).await?;
    if !scope.covers(&path) {
        return Err(ToolError::new(format!("`{}` is not below a folder of this client", path.display()))
            .hint("name its folder in `projects` of [packs.sessions]"));
    }
    if tokio::fs::metadata(&path).await?.len() > MOST_FILE {
        return Err(ToolError::new(format!("`{}` is larger than {MOST_FILE} bytes", path.display())));
    }
    let text = tokio::fs::read_to_string(&path).await?;
    let commits = commits_of(&sessions.host, &path).await;
    let range = args.first_line.unwrap_or(1)..=args.last_line.unwrap_or(usize::MAX);
    let wanted: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim().to_owned()))
        .filter(|(at, line)| range.contains(at) && line.len() >= LEAST_LINE)
        .collect();
    let writers = {
        let (path, context) = (path.clone(), context.clone());
        let work = move |config: &Config| {
            let transcripts = config.transcripts(&scope);
            writers(&transcripts, &path, wanted, &commits, &|| !context.is_cancelled())
        };
        sessions.work(work).await?
    };
    let mut shown = String::new();
    for writer in &writers {
        let title = writer.session.title.as_deref().unwrap_or("(no text)");
        let _ = writeln!(
            shown,
            "{} lines by {} ({}, {}): {title} [{}]",
            writer.lines.len(),
            writer.session.id,
            writer.session.program.name(),
            writer.session.modified,
            writer.commits.join(", ")
        );
    }
    if writers.is_empty() {
        shown.push_str("No session that you may read wrote these lines.");
    }
    Ok(WithText::new(writers, shown))
}

/// Goes through the sessions, newest first; each line belongs to the first that wrote it.
fn writers(
    transcripts: &[Transcript],
    path: &Path,
    mut wanted: Vec<(usize, String)>,
    commits: &HashMap<usize, String>,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Vec<Writer>, ToolError> {
    let mut writers = Vec::new();
    for transcript in transcripts {
        if wanted.is_empty() || !is_wanted() {
            break;
        }
        let added = added_to(transcript, path)?;
        let (theirs, rest): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(_, line)| added.contains(line));
        wanted = rest;
        if theirs.is_empty() {
            continue;
        }
        let lines: Vec<usize> = theirs.into_iter().map(|(at, _)| at).collect();
        let mut from: Vec<String> = lines.iter().filter_map(|line| commits.get(line).cloned()).collect();
        from.sort();
        from.dedup();
        writers.push(Writer { session: Session::from(transcript), lines, commits: from });
    }
    Ok(writers)
}

/// The lines that a session put into a file, itself or through its sub-agents.
fn added_to(transcript: &Transcript, path: &Path) -> Result<std::collections::HashSet<String>, ToolError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let filter = memchr::memmem::Finder::new(name.as_bytes());
    let folder = PathBuf::from(transcript.about.folder.clone().unwrap_or_default());
    let mut added = std::collections::HashSet::new();
    for file in transcript.files() {
        let mut lines = Lines::open(file)?;
        while let Some((_, line)) = lines.next()? {
            if filter.find(line).is_none() {
                continue;
            }
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            let messages = format::messages(transcript.program, &line).into_iter();
            let edits = messages.flat_map(|message| message.edits);
            for edit in edits.filter(|edit| real(&folder.join(&edit.path)) == path) {
                added.extend(edit.added.lines().map(|line| line.trim().to_owned()));
            }
        }
    }
    Ok(added)
}

/// The commit of each line, if git can be asked.
async fn commits_of(host: &Host, path: &Path) -> HashMap<usize, String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return HashMap::new() };
    let arguments = ["blame", "--no-textconv", "--line-porcelain", "--"].map(OsStr::new);
    let Ok(output) = host.git(folder).run(arguments.into_iter().chain([name])).await else {
        return HashMap::new();
    };
    parse_blame(&String::from_utf8_lossy(&output))
}

/// `<commit> <old line> <new line> …`, headers, and the line itself after a tab.
fn parse_blame(output: &str) -> HashMap<usize, String> {
    let mut commits = HashMap::new();
    let (mut commit, mut line) = (String::new(), 0);
    for text in output.lines() {
        if text.starts_with('\t') {
            continue;
        }
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            [hash, _, new, ..] if hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                hash[..10].clone_into(&mut commit);
                line = new.parse().unwrap_or_default();
            }
            ["summary", ..] => {
                let summary = text.strip_prefix("summary ").unwrap_or_default();
                commits.insert(line, format!("{commit} {summary}"));
            }
            _ => {}
        }
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_commit_that_git_names_for_it() {
        let (one, two) = ("a".repeat(40), "b".repeat(40));
        let output = format!(
            "{one} 1 1 2\nauthor Ann\nsummary Build a tower\nfilename t\n\tfn a() {{}}\n\
             {one} 2 2\nauthor Ann\nsummary Build a tower\nfilename t\n\tsummary of the text\n\
             {two} 9 3 1\nauthor Bob\nsummary \nprevious {one} t\nfilename t\n\t{one} 7 7\n"
        );
        let expected = [
            (1, format!("{} Build a tower", &one[..10])),
            (2, format!("{} Build a tower", &one[..10])),
            (3, format!("{} ", &two[..10])),
        ];
        assert_eq!(parse_blame(&output), HashMap::from(expected));
        assert_eq!(parse_blame(""), HashMap::new());
        assert_eq!(parse_blame("fatal: no such path 't' in HEAD\n"), HashMap::new());
    }
}
