//! A tool of 2025-11-25 that sends the user to a page before it does anything.

use serde_json::{Value, json};

use super::server::Call;
use super::tools::text;

impl Call {
    /// Refuses the first call with the error of that revision, and every other one of them from then on.
    pub(super) fn visit(&self) -> Result<Value, Value> {
        if self.server.called("visit").is_multiple_of(2) {
            return Ok(text("visited"));
        }
        let page = json!({
            "mode": "url", "elicitationId": "e7", "url": "https://example.com/consent", "message": "Say yes there",
        });
        Err(
            json!({ "code": -32042, "message": "a page has to be visited first", "data": { "elicitations": [page] } }),
        )
    }
}
