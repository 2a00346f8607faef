//! The pack `sessions`: search the sessions of Claude Code, Codex and Gemini, and the skills on disk.
//!
//! `sessions` finds transcripts and decides which of them a caller may read. `transcript` reads one, `format` knows the
//! forms of the programs, `lines` reads files of any size, `filter` skips lines without a word. `owner` checks who a
//! file belongs to. `redact` removes secrets from everything that leaves. `skills`
//! finds skills and commands. `tools` holds the functions that clients call.

mod config;
mod filter;
mod format;
mod lines;
mod owner;
mod redact;
mod sessions;
mod skills;
mod tools;
mod transcript;

use std::pin::Pin;
use std::sync::Arc;

use toolyard_tool::{Context, Host, Pack, Skill, ToolError, ToolSet};

use config::Config;
use sessions::Sessions;
use tools::{blame, list, read, search, skills as on_disk};

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("sessions", "Search the sessions of all agents, and the skills on disk", tools)
}

fn tools(config: Config, host: Host) -> ToolSet<Sessions> {
    ToolSet::new("toolyard-sessions", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: sessions")
        .proven_users_only()
        .instructions(
            "Reads the sessions that Claude Code, Codex and Gemini have written. `session_search` finds what was \
             discussed, `session_blame` names the session that wrote a line of a file.",
        )
        .skills(on_disk_of(Sessions { config: config.clone(), host: host.clone() }))
        .state(Sessions { config, host })
        .with::<list::session_list>()
        .with::<read::session_read>()
        .with::<search::session_search>()
        .with::<blame::session_blame>()
        .with::<on_disk::skill_list>()
        .with::<on_disk::skill_get>()
}

type Listing = Pin<Box<dyn Future<Output = Result<Vec<Skill>, ToolError>> + Send>>;

/// The skills on disk that a caller may see, for the protocol's extension.
fn on_disk_of(sessions: Sessions) -> impl Fn(Context) -> Listing + Send + Sync + 'static {
    let sessions = Arc::new(sessions);
    move |context| {
        let sessions = sessions.clone();
        Box::pin(async move { sessions.served_skills(&context).await })
    }
}

#[cfg(test)]
mod tests;
