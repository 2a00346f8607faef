//! Switches single tools off and on. `toolyard tools disable` and `enable` use it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use toolyard_model::{BoxFuture, ControlRequest, ControlResponse};
use toolyard_proto::name::{UpstreamId, canonical};

use super::{Answered, unknown};
use crate::Gateway;
use crate::upstream::Upstream;

impl Gateway {
    /// Switches the tool that the body names by its canonical id. The answer comes once lists show it.
    pub(super) fn switch_tool(&self, request: &ControlRequest, switch: &str) -> BoxFuture<Answered> {
        let is_on = switch == "enable";
        if !is_on && switch != "disable" {
            return Box::pin(async { Err(ControlResponse::not_found()) });
        }
        let (gateway, named) = (self.clone(), super::approvals::id_in(request));
        Box::pin(async move {
            let (upstream, tool) = gateway.tool_in(&named?)?;
            let id = canonical(upstream.id(), &tool);
            let outlets = &gateway.shared().outlets;
            let was_on = !outlets.switches.of(upstream.id()).contains(&tool);
            outlets.switches.set(upstream.id(), &tool, is_on).map_err(|error| {
                let message = format!("the switch of `{id}` cannot be stored: {error}");
                ControlResponse::error(StatusCode::INTERNAL_SERVER_ERROR, "failed", &message)
            })?;
            upstream.review_again(outlets);
            gateway.shared().catalog.show(&upstream).await;
            let state = if is_on { "on" } else { "off" };
            tracing::info!(target: "upstream", tool = %id, state, "a tool was switched by an operator");
            Ok(ControlResponse::json(&json!({ "id": id, "state": state, "changed": was_on != is_on })))
        })
    }

    /// The upstream and the own name of a tool. It must be defined, unless what the upstream defines is not known.
    fn tool_in(&self, id: &str) -> Result<(Arc<Upstream>, String), ControlResponse> {
        let Some((owner, tool)) = id.split_once(':').filter(|(_, tool)| !tool.is_empty()) else {
            let message = format!("`{id}` is not the id of a tool; write UPSTREAM:TOOL");
            return Err(ControlResponse::error(StatusCode::BAD_REQUEST, "invalid_id", &message));
        };
        let upstream = self.find(owner).ok_or_else(|| unknown(owner))?;
        if *upstream.id() == UpstreamId::yard() {
            let message = "the gateway's own tools are always on; a profile can leave them out";
            return Err(ControlResponse::error(StatusCode::CONFLICT, "not_managed", message));
        }
        let is_off = self.shared().outlets.switches.of(upstream.id()).iter().any(|off| off == tool);
        if !is_off && upstream.definitions().is_some_and(|definitions| !definitions.has_tool(tool)) {
            let message = format!(
                "`{}` has no tool `{tool}`; `toolyard tools list --upstream {0}` lists them",
                upstream.id()
            );
            return Err(ControlResponse::error(StatusCode::NOT_FOUND, "unknown_tool", &message));
        }
        Ok((upstream, tool.to_owned()))
    }
}
