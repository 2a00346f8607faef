//! Requests with credentials: with those of a login, which may be renewed, and with a second key after too many
//! requests.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use toolyard_model::Principal;
use toolyard_proto::CallError;

use super::connections::Arriving;
use super::upstream::HttpUpstream;
use super::{Authorize, Unauthorized, spare};

/// A request that may be sent twice.
pub(super) struct Parts {
    pub(super) target: Uri,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl HttpUpstream {
    /// Sends a request with the first credential and, if the server refuses that because of too many requests, at once
    /// with the second: such a request was certainly not carried out.
    pub(super) async fn with_spare(
        &self,
        authorize: Option<&Arc<dyn Authorize>>,
        principal: Option<Principal>,
        mut parts: Parts,
    ) -> Result<Response<Arriving>, CallError> {
        let spare = self.spare.as_ref();
        if !spare.is_some_and(|spare| spare.is_on()) {
            let response = match authorize {
                Some(authorize) => self.send_authorized(authorize, principal, &parts).await?,
                None => self.with_credentials(&parts, None).await?,
            };
            if spare.is_none() || response.status() != StatusCode::TOO_MANY_REQUESTS {
                return Ok(response);
            }
        }
        if let Some(spare) = spare {
            spare.begin();
            spare.put_into(&mut parts.headers);
        }
        let mut response = self.with_credentials(&parts, None).await?;
        spare::mark(&mut response);
        Ok(response)
    }

    /// Sends a request with credentials; if they are refused and can be renewed, once more.
    async fn send_authorized(
        &self,
        authorize: &Arc<dyn Authorize>,
        principal: Option<Principal>,
        parts: &Parts,
    ) -> Result<Response<Arriving>, CallError> {
        let refused = |why: Unauthorized| why.to_call_error().at(&self.name);
        let used = authorize.authorization(principal.as_ref()).await.map_err(refused)?;
        let response = self.with_credentials(parts, used.as_ref()).await?;
        let status = response.status();
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(response);
        }
        let renewed = authorize.renewed(principal.as_ref(), used, status, response.headers()).await;
        match renewed.map_err(refused)? {
            Some(renewed) => self.with_credentials(parts, Some(&renewed)).await,
            None => Ok(response),
        }
    }

    async fn with_credentials(
        &self,
        parts: &Parts,
        credentials: Option<&HeaderValue>,
    ) -> Result<Response<Arriving>, CallError> {
        let mut headers = parts.headers.clone();
        if let Some(credentials) = credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        self.send_plain(parts.target.clone(), parts.method.clone(), headers, parts.body.clone()).await
    }
}
