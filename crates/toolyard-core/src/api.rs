//! The control API: what a request under `/api/v1` does.

use http::Method;
use serde_json::json;
use toolyard_model::{BoxFuture, Control, ControlRequest, ControlResponse};

use crate::Gateway;

impl Control for Gateway {
    fn control(&self, request: ControlRequest) -> BoxFuture<ControlResponse> {
        let response = match (&request.method, request.path.as_str()) {
            (&Method::GET, "/status") => {
                let upstreams = self.upstreams().len();
                ControlResponse::json(
                    &json!({ "version": env!("CARGO_PKG_VERSION"), "upstreams": upstreams }),
                )
            }
            (_, "/status") => ControlResponse::method_not_allowed(),
            _ => ControlResponse::not_found(),
        };
        Box::pin(async { response })
    }
}
