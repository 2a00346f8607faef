//! `session_read`: the last messages of a session.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, clamp, tool};

use super::WithText;
use super::list::Session;
use crate::config::Config;
use crate::format::Message;
use crate::redact;
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

impl From<Message> for Line {
    fn from(message: Message) -> Self {
        let text = redact::beginning(&message.text, MOST_TEXT);
        Self { role: message.role, time: message.time, text }
    }
}

/// Reads the last messages of a session. Secrets are removed.
#[tool(read_only, idempotent)]
pub(crate) async fn session_read(
    sessions: &Sessions,
    context: &Context,
    args: Read,
) -> Result<WithText<Conversation>, ToolError> {
    let scope = sessions.scope(context, None).await?;
    let asked = context.clone();
    let work = move |config: &Config| {
        let transcript = config.find(&scope, &args.session_id)?;
        let tail = transcript.tail(args.limit, &|| !asked.is_cancelled())?;
        let messages = tail.messages.into_iter().map(Line::from).collect();
        let session = Session::from(&transcript);
        Ok(Conversation { session, messages, total: tail.total, skipped: tail.skipped })
    };
    let read = sessions.work(work).await?;
    let mut text = String::new();
    for message in &read.messages {
        let _ = writeln!(text, "{}: {}\n", message.role, message.text);
    }
    let _ = write!(text, "{} of {} messages of {}", read.messages.len(), read.total, read.session.id);
    Ok(WithText::new(read, text))
}
