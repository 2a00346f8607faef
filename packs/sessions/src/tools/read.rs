//! `session_read`: the last messages of a session.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, clamp, tool};

use super::WithText;
use super::list::Session;
use crate::redact::redact;
use crate::sessions::Sessions;

/// The maximum length of one message.
const MOST_TEXT: usize = 4000;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Read {
    /// The id of the session, or how it begins.
    #[schemars(length(min = 4))]
    session_id: String,
    /// How many messages to show, from the end.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    limit: usize,
}

fn fifty() -> usize {
    50
}

/// A session with its last messages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Conversation {
    session: Session,
    messages: Vec<Line>,
    /// How many messages the conversation has.
    total: usize,
    /// Lines of the file that are not understood.
    skipped: usize,
}

/// A message.
#[derive(Serialize, JsonSchema)]
struct Line {
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    text: String,
}

/// Reads the last messages of a session. Secrets are removed.
#[tool(read_only, idempotent)]
pub(crate) async fn session_read(
    sessions: &Sessions,
    context: &Context,
    args: Read,
) -> Result<WithText<Conversation>, ToolError> {
    let scope = sessions.scope(context, None).await?;
    let transcript = sessions.find(&scope, &args.session_id)?;
    let (about, asked) = (Session::from(&transcript), context.clone());
    let tail = tokio::task::spawn_blocking(move || transcript.tail(args.limit, &|| !asked.is_cancelled()));
    let tail = tail.await??;
    let messages: Vec<Line> = tail
        .messages
        .into_iter()
        .map(|message| Line { role: message.role, time: message.time, text: redact(&cut(&message.text)) })
        .collect();
    let mut text = String::new();
    for message in &messages {
        let _ = writeln!(text, "{}: {}\n", message.role, message.text);
    }
    let _ = write!(text, "{} of {} messages of {}", messages.len(), tail.total, about.id);
    Ok(WithText::new(
        Conversation { session: about, messages, total: tail.total, skipped: tail.skipped },
        text,
    ))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
