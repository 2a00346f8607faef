//! MusicBrainz: search, look up, browse. One request a second, as its rules ask; answers are kept for a day, those
//! about labels and works for a week.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use toolyard_tool::ToolError;

use super::cache::Cache;
use super::pace::Pace;
use super::web::{Web, query};
use crate::config::Config;

const GAP: Duration = Duration::from_millis(1050);
const ATTEMPTS: u32 = 3;
/// A service that asks for a longer pause is not waited for.
const LONGEST_HOLD: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 16 * 1024 * 1024;
const DAY: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub(crate) struct MusicBrainz {
    web: Web,
    base: String,
    pace: Pace,
    cache: Cache,
    /// Seconds since 1970.
    clock: fn() -> u64,
}

impl MusicBrainz {
    pub(crate) fn new(web: Web, config: &Config) -> Self {
        let base = config.musicbrainz_url.trim_end_matches('/').to_owned();
        Self { web, base, pace: Pace::new(GAP), cache: Cache::new(config.cache.clone()), clock: now }
    }

    /// `/artist?query=…`.
    pub(crate) async fn search(&self, entity: &str, lucene: &str, limit: u32) -> Result<Value, ToolError> {
        let fields = [("query", lucene), ("limit", &limit.to_string()), ("fmt", "json")];
        self.ask(entity, &format!("{entity}?{}", query(&fields))).await
    }

    /// `/artist/MBID?inc=…`.
    pub(crate) async fn lookup(&self, entity: &str, mbid: &str, inc: &[&str]) -> Result<Value, ToolError> {
        // The service wants a literal plus between them, which is what an escaped space is.
        let fields = query(&[("inc", &inc.join(" ")), ("fmt", "json")]);
        let fields = if inc.is_empty() { "fmt=json".to_owned() } else { fields };
        self.ask(entity, &format!("{entity}/{mbid}?{fields}")).await
    }

    /// `/release?artist=MBID`: everything of one kind that belongs to something.
    pub(crate) async fn browse(
        &self,
        entity: &str,
        of: (&str, &str),
        limit: u32,
    ) -> Result<Value, ToolError> {
        let fields = [of, ("limit", &limit.to_string()), ("fmt", "json")];
        self.ask(entity, &format!("{entity}?{}", query(&fields))).await
    }

    async fn ask(&self, entity: &str, path: &str) -> Result<Value, ToolError> {
        let url = format!("{}/{path}", self.base);
        if let Some(kept) = self.kept(&url).await {
            return Ok(kept);
        }
        let body = self.fetch(&url).await?;
        let value = serde_json::from_slice(&body).map_err(|error| {
            ToolError::new(format!("`{url}` answered something that is not JSON: {error}"))
                .hint("check `musicbrainz_url` in [packs.music]")
        })?;
        let time = if matches!(entity, "label" | "work") { DAY * 7 } else { DAY };
        let (cache, now) = (self.cache.clone(), (self.clock)());
        // The write is not awaited; a lost answer is requested again.
        let _ = tokio::task::spawn_blocking(move || cache.put(&url, &body, now, time)).await;
        Ok(value)
    }

    async fn kept(&self, url: &str) -> Option<Value> {
        let cache = self.cache.clone();
        let url = url.to_owned();
        let now = (self.clock)();
        let kept = tokio::task::spawn_blocking(move || cache.get(&url, now)).await.ok()??;
        serde_json::from_slice(&kept).ok()
    }

    async fn fetch(&self, url: &str) -> Result<Vec<u8>, ToolError> {
        for attempt in 1.. {
            self.pace.turn().await;
            let reply = self.web.get(url, MOST_BYTES).await;
            self.pace.answered();
            let reply = reply?;
            let wait = reply.retry_after().unwrap_or(Duration::from_secs(1 << attempt.min(4)));
            match reply.status.as_u16() {
                200 => return Ok(reply.body.to_vec()),
                404 => {
                    return Err(ToolError::not_found("MusicBrainz has no entry with that id")
                        .hint("search for it by name"));
                }
                400 => return Err(refused(&reply.body)),
                _ if reply.is_worth_retrying() && attempt < ATTEMPTS && wait <= LONGEST_HOLD => {
                    self.pace.hold(wait);
                }
                status => return Err(busy(status, wait)),
            }
        }
        Err(ToolError::new("MusicBrainz was not asked"))
    }
}

fn refused(body: &[u8]) -> ToolError {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    let why = answer.as_ref().and_then(|answer| answer["error"].as_str()).unwrap_or("no reason was given");
    ToolError::new(format!("MusicBrainz does not understand the query: {why}")).hint(
        "check the Lucene syntax: quotes and brackets must be closed, special characters escaped with `\\`",
    )
}

fn busy(status: u16, wait: Duration) -> ToolError {
    ToolError::new(format!(
        "MusicBrainz answered with HTTP status {status}, {ATTEMPTS} times or for too long"
    ))
    .hint(format!(
        "it is busy: try again in {} seconds, and set `contact` in [packs.music]",
        wait.as_secs().max(1)
    ))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A query in plain words, for one field: Lucene syntax is escaped.
pub(crate) fn lucene(field: &str, words: &str) -> String {
    let mut escaped = String::new();
    for c in words.chars() {
        if r#"+-&|!(){}[]^"~*?:\/"#.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    // Words that Lucene takes for operators.
    let words: Vec<String> = escaped
        .split_whitespace()
        .map(|word| if ["AND", "OR", "NOT"].contains(&word) { word.to_lowercase() } else { word.to_owned() })
        .collect();
    format!("{field}:({})", words.join(" "))
}

/// Whether a text is a MusicBrainz id.
pub(crate) fn is_mbid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
