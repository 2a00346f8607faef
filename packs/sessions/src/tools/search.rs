//! `session_search`: words in all sessions.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Context, ToolError, clamp, tool};

use super::list::twenty;
use super::{WithText, in_one_line, moment};
use crate::config::{Config, Program};
use crate::filter::Filter;
use crate::format::{self, Message};
use crate::lines::Lines;
use crate::redact;
use crate::sessions::Sessions;
use crate::transcript::Transcript;

/// How many characters are shown before a found word; twice as many are shown from its beginning on.
const AROUND: usize = 160;
/// At how many places a word is looked for outside secrets.
const MOST_PLACES: usize = 8;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Search {
    /// Words that a message must have, in any order.
    #[schemars(length(min = 1))]
    query: String,
    /// Only in this session: its id, or how the id begins.
    session_id: Option<String>,
    /// Only in sessions of this folder.
    project_path: Option<String>,
    /// How many messages to show.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 200), transform = clamp)]
    limit: usize,
}

/// A message with the words.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Hit {
    session_id: String,
    program: Program,
    project: Option<String>,
    role: String,
    /// The sub-agent that wrote it, if it is not of the conversation itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    time: Option<String>,
    text: String,
}

/// Finds messages in sessions of Claude Code, Codex and Gemini, newest sessions first. Secrets are removed.
#[tool(read_only, idempotent)]
pub(crate) async fn session_search(
    sessions: &Sessions,
    context: &Context,
    args: Search,
) -> Result<WithText<Vec<Hit>>, ToolError> {
    let scope = sessions.scope(context, args.project_path.as_deref()).await?;
    let words = Words::new(&args.query)?;
    let (context, limit) = (context.clone(), args.limit);
    let work = move |config: &Config| {
        let transcripts = match &args.session_id {
            Some(id) => vec![config.find(&scope, id)?],
            None => config.transcripts(&scope),
        };
        let mut hits = Vec::new();
        for (done, transcript) in transcripts.iter().enumerate() {
            context.progress(done + 1, transcripts.len());
            words.search(transcript, limit, &mut hits, &|| !context.is_cancelled())?;
            if hits.len() >= limit || context.is_cancelled() {
                break;
            }
        }
        Ok(hits)
    };
    let hits = sessions.work(work).await?;
    let mut text = String::new();
    for hit in &hits {
        let time = hit.time.as_deref().unwrap_or_default();
        let agent = hit.agent.as_ref().map(|agent| format!(" of sub-agent {agent}")).unwrap_or_default();
        let program = hit.program.name();
        let _ = writeln!(text, "{} ({program}) {time} {}{agent}: {}", hit.session_id, hit.role, hit.text);
    }
    if hits.is_empty() {
        text.push_str("No message has these words.");
    }
    Ok(WithText::new(hits, text))
}

/// The words of a query, in lower case.
struct Words {
    words: Vec<String>,
    /// One for each plain word: lines that lack one of them need not be parsed.
    filters: Vec<Filter>,
}

impl Words {
    fn new(query: &str) -> Result<Self, ToolError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() {
            return Err(ToolError::new("the query has no words"));
        }
        // Anything else may be written differently in JSON.
        let is_plain = |word: &&String| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c));
        let mut filters: Vec<Filter> = words.iter().filter(is_plain).map(|word| Filter::new(word)).collect();
        // A long word is in few lines.
        filters.sort_by_key(|filter| std::cmp::Reverse(filter.len()));
        Ok(Self { words, filters })
    }

    fn search(
        &self,
        transcript: &Transcript,
        limit: usize,
        hits: &mut Vec<Hit>,
        is_wanted: &dyn Fn() -> bool,
    ) -> std::io::Result<()> {
        for file in transcript.files() {
            let mut lines = Lines::open(file)?;
            while hits.len() < limit && is_wanted() {
                let Some((_, line)) = lines.next()? else { break };
                if !self.filters.iter().all(|filter| filter.is_in(line)) {
                    continue;
                }
                let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
                let messages = format::messages(transcript.program, &line).into_iter();
                let found = messages.filter_map(|message| self.hit(transcript, message));
                let room = limit - hits.len();
                hits.extend(found.take(room));
            }
        }
        Ok(())
    }

    fn hit(&self, transcript: &Transcript, message: Message) -> Option<Hit> {
        let text = self.find(&message)?;
        Some(Hit {
            session_id: transcript.id(),
            program: transcript.program,
            project: transcript.about.folder.clone(),
            role: message.role,
            agent: message.agent,
            time: message.time.or_else(|| Some(moment(transcript.modified))),
            text,
        })
    }

    /// The text around the first word, if all words are there. A word within a secret does not count: else a secret
    /// could be guessed letter by letter.
    fn find(&self, message: &Message) -> Option<String> {
        let lower = message.text.to_lowercase();
        if !self.words.iter().all(|word| lower.contains(word)) {
            return None;
        }
        let mut windows = self.words.iter().map(|word| window(&message.text, &lower, word));
        let first = windows.next()??;
        windows.all(|window| window.is_some()).then_some(first)
    }
}

/// The text around a word, without secrets, in one line. `lower` is the text in lower case, which may have another
/// length; that only moves the part of the text that is searched for secrets.
fn window(text: &str, lower: &str, word: &str) -> Option<String> {
    lower.match_indices(word).take(MOST_PLACES).find_map(|(at, _)| {
        let text = redact::around(text, at);
        let at = text.to_lowercase().find(word)?;
        let begin = text.floor_char_boundary(at.saturating_sub(AROUND));
        let end = text.ceil_char_boundary((at + AROUND * 2).min(text.len()));
        Some(in_one_line(&text[begin.min(end)..end]))
    })
}
