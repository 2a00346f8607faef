//! `session_list`: the sessions of a project, newest first.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, clamp, tool};

use super::{WithText, in_one_line, moment};
use crate::config::{Config, Program};
use crate::redact;
use crate::sessions::Sessions;
use crate::transcript::Transcript;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct List {
    /// The folder whose sessions to list; all that you may read if it is left out.
    project_path: Option<String>,
    /// How many to list.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 500), transform = clamp)]
    limit: usize,
}

pub(crate) fn twenty() -> usize {
    20
}

/// A session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) program: Program,
    /// The folder in which it was run.
    pub(crate) project: Option<String>,
    /// How it begins.
    pub(crate) title: Option<String>,
    /// When it was last written.
    pub(crate) modified: String,
    pub(crate) bytes: u64,
}

impl From<&Transcript> for Session {
    fn from(transcript: &Transcript) -> Self {
        Self {
            id: transcript.id(),
            program: transcript.program,
            project: transcript.about.folder.clone(),
            title: transcript.about.title.as_ref().map(|title| in_one_line(&redact::beginning(title, 120))),
            modified: moment(transcript.modified),
            bytes: transcript.bytes,
        }
    }
}

/// Lists sessions of Claude Code, Codex and Gemini, newest first.
#[tool(read_only, idempotent)]
pub(crate) async fn session_list(
    sessions: &Sessions,
    context: &Context,
    args: List,
) -> Result<WithText<Vec<Session>>, ToolError> {
    let scope = sessions.scope(context, args.project_path.as_deref()).await?;
    let work = move |config: &Config| {
        let found = config.transcripts(&scope);
        Ok((found.len(), found.iter().take(args.limit).map(Session::from).collect::<Vec<_>>()))
    };
    let (total, listed) = sessions.work(work).await?;
    let mut text = String::new();
    for session in &listed {
        let title = session.title.as_deref().unwrap_or("(no text)");
        let _ = writeln!(text, "{} ({}, {}): {title}", session.id, session.program.name(), session.modified);
    }
    let _ = write!(text, "{} of {total} sessions", listed.len());
    Ok(WithText::new(listed, text))
}
