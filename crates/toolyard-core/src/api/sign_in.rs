//! Begins a sign-in at an upstream for an operator, who opens its page in a browser.

use http::StatusCode;
use serde_json::json;
use toolyard_model::{BoxFuture, ControlResponse};

use super::{Answered, unknown};
use crate::Gateway;
use crate::plan::BegunSignIn;

impl Gateway {
    /// Answers with the page where the user begins. The upstream is connected again when the user is done.
    pub(super) fn begin_sign_in(&self, id: &str) -> BoxFuture<Answered> {
        let Some(upstream) = self.find(id) else {
            let error = unknown(id);
            return Box::pin(async { Err(error) });
        };
        let (gateway, id) = (self.clone(), upstream.id().to_string());
        Box::pin(async move {
            let begun = upstream.connector().begin_sign_in().ok_or_else(|| no_sign_in(&id))?;
            let BegunSignIn { url, outcome } = begun.await.map_err(|reason| {
                ControlResponse::error(StatusCode::BAD_GATEWAY, "sign_in_failed", &reason.to_string())
            })?;
            tracing::info!(target: "auth", upstream = id, "an operator began a sign-in");
            let (again, name) = (gateway.clone(), id.clone());
            gateway.scope().spawn(async move {
                if let Err(reason) = outcome.await {
                    tracing::warn!(target: "auth", upstream = name, %reason, "a sign-in did not succeed");
                } else if let Some(upstream) = again.find(&name) {
                    // Found again, because it may have been restarted since.
                    upstream.try_now().await;
                }
            });
            Ok(ControlResponse::json(&json!({ "id": id, "state": "signing in", "url": url })))
        })
    }
}

fn no_sign_in(id: &str) -> ControlResponse {
    let message = format!("`{id}` has no sign-in");
    ControlResponse::error(StatusCode::CONFLICT, "no_sign_in", &message)
}
