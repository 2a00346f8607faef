//! AcoustID: which recordings sound like this. At most three requests a second.

use std::time::Duration;

use serde_json::Value;
use toolyard_tool::{Secret, ToolError};

use super::pace::Pace;
use super::web::Web;
use crate::config::Config;
use crate::fingerprint::Fingerprint;

const GAP: Duration = Duration::from_millis(340);
const ATTEMPTS: u32 = 3;
const LONGEST_HOLD: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 4 * 1024 * 1024;
const INVALID_KEY: u64 = 4;

pub(crate) struct AcoustId {
    web: Web,
    url: String,
    key: Option<Secret>,
    pace: Pace,
}

impl AcoustId {
    pub(crate) fn new(web: Web, config: &Config) -> Self {
        let url = format!("{}/lookup", config.acoustid_url.trim_end_matches('/'));
        Self { web, url, key: config.acoustid_key.clone(), pace: Pace::new(GAP) }
    }

    /// Fails early, before any work is done.
    pub(crate) fn key(&self) -> Result<&str, ToolError> {
        self.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()).ok_or_else(|| {
            ToolError::new("AcoustID needs a key, and none is configured")
                .hint("register an application at acoustid.org and set `acoustid_key` in [packs.music]")
        })
    }

    pub(crate) async fn lookup(&self, fingerprint: &Fingerprint, meta: &str) -> Result<Value, ToolError> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length in seconds")]
        let duration = (fingerprint.duration.round() as u64).to_string();
        let encoded = fingerprint.encoded();
        let fields = [
            ("client", self.key()?),
            ("duration", &duration),
            ("fingerprint", &encoded),
            ("meta", meta),
            ("format", "json"),
        ];
        for attempt in 1.. {
            self.pace.turn().await;
            let reply = self.web.post_form(&self.url, &fields, MOST_BYTES).await?;
            let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            if reply.status.is_success() && body["status"] == "ok" {
                return Ok(body);
            }
            let wait = reply.retry_after().unwrap_or(Duration::from_secs(u64::from(attempt)));
            if !reply.is_worth_retrying() || attempt == ATTEMPTS || wait > LONGEST_HOLD {
                return Err(refused(reply.status.as_u16(), &body));
            }
            self.pace.hold(wait);
        }
        Err(ToolError::new("AcoustID was not asked"))
    }
}

fn refused(status: u16, body: &Value) -> ToolError {
    let why = body["error"]["message"].as_str().unwrap_or("no reason was given");
    let error = ToolError::new(format!("AcoustID refused (HTTP status {status}): {why}"));
    match body["error"]["code"].as_u64() {
        Some(INVALID_KEY) => error.hint(
            "check `acoustid_key` in [packs.music]: it must be the key of an application, not of a user",
        ),
        _ if status == 429 || status >= 500 => error.hint("the service is busy: try again later"),
        _ => error.hint("the file may be damaged or too short: try another one, or `mb_match_from_tags`"),
    }
}

/// Without the key.
impl std::fmt::Debug for AcoustId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcoustId").field("url", &self.url).finish_non_exhaustive()
    }
}
