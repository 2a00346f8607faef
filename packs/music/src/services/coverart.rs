//! The Cover Art Archive: which pictures a release has, and the pictures themselves.

use std::time::Duration;

use serde_json::Value;
use toolyard_tool::ToolError;

use super::pace::Pace;
use super::web::{Reply, Web, as_safe_as};
use crate::config::Config;

const GAP: Duration = Duration::from_millis(250);
const ATTEMPTS: u32 = 3;
const LONGEST_HOLD: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The largest picture that is downloaded.
const LARGEST: usize = 50 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct CoverArt {
    web: Web,
    base: String,
    pace: Pace,
}

/// A picture and where it came from.
pub(crate) struct Downloaded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) url: String,
}

impl CoverArt {
    pub(crate) fn new(web: Web, config: &Config) -> Self {
        Self { web, base: config.coverart_url.trim_end_matches('/').to_owned(), pace: Pace::new(GAP) }
    }

    /// The images of a release in the archive.
    pub(crate) async fn images(&self, mbid: &str) -> Result<Vec<Value>, ToolError> {
        let reply = self.fetch(&format!("{}/release/{mbid}", self.base), MOST_BYTES).await?;
        if reply.status == 404 {
            return Err(ToolError::not_found("the Cover Art Archive has no pictures of this release")
                .hint("try another release of the same release group: `mb_release_search` with `release_group_releases`"));
        }
        expect_ok(&reply)?;
        let listing: Value = serde_json::from_slice(&reply.body)?;
        Ok(listing["images"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn download(&self, url: &str) -> Result<Downloaded, ToolError> {
        let reply = self.fetch(&as_safe_as(&self.base, url), LARGEST).await?;
        expect_ok(&reply)?;
        Ok(Downloaded { bytes: reply.body.to_vec(), url: reply.url })
    }

    async fn fetch(&self, url: &str, most_bytes: usize) -> Result<Reply, ToolError> {
        for attempt in 1..ATTEMPTS {
            self.pace.turn().await;
            let reply = self.web.get(url, most_bytes).await?;
            let wait = reply.retry_after().unwrap_or(Duration::from_secs(u64::from(attempt)));
            if !reply.is_worth_retrying() || wait > LONGEST_HOLD {
                return Ok(reply);
            }
            self.pace.hold(wait);
        }
        self.pace.turn().await;
        self.web.get(url, most_bytes).await
    }
}

fn expect_ok(reply: &Reply) -> Result<(), ToolError> {
    if reply.status.is_success() {
        return Ok(());
    }
    Err(ToolError::new(format!("the Cover Art Archive answered with HTTP status {}", reply.status.as_u16()))
        .hint("try again later"))
}
