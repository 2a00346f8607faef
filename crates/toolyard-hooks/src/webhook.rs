//! A hook that is a URL: the event is posted as JSON, and the answer may be a verdict.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Uri};
use toolyard_link::http::post_once;
use toolyard_model::BoxFuture;

use crate::{Event, Hook, Verdict, WebHook, reply};

/// The longest answer that is read.
const LARGEST: usize = 16 * 1024 * 1024;

pub(crate) struct Web {
    url: Uri,
    headers: HeaderMap,
    limit: Duration,
}

impl Web {
    pub(crate) fn new(hook: &WebHook, limit: Duration) -> Self {
        let mut headers = hook.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { url: hook.url.clone(), headers, limit }
    }
}

impl Hook for Web {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>> {
        let url = self.url.clone();
        let headers = self.headers.clone();
        let limit = self.limit;
        Box::pin(async move {
            let body = event.to_json().to_string().into();
            let (status, answer) = post_once(url, headers, body, LARGEST, limit).await?;
            if !status.is_success() {
                return Err(format!("it answered with status {}", status.as_u16()));
            }
            reply::read(&answer)
        })
    }
}
