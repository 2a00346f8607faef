//! Serves the pages of sign-ins, and the metadata of the gateway's views.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION, REFERRER_POLICY,
};
use http::{HeaderMap, Method, StatusCode};
use toolyard_model::BoxFuture;
use toolyard_serve::{PageRequest, PageResponse, PublicPages};

use crate::client::{Page, SignIns};
use crate::resource::ResourceServer;

/// Answers browsers, and clients that look for metadata.
#[derive(Debug)]
pub struct Web {
    sign_ins: Arc<SignIns>,
    resource: Option<ResourceServer>,
}

impl Web {
    pub fn new(sign_ins: Arc<SignIns>, resource: Option<ResourceServer>) -> Self {
        Self { sign_ins, resource }
    }
}

impl PublicPages for Web {
    fn sign_in(&self, request: &PageRequest) -> Option<String> {
        SignIns::id_in(&request.path, &request.query)
    }

    fn page(&self, request: PageRequest) -> BoxFuture<Option<PageResponse>> {
        let PageRequest { method, path, query } = request;
        let (sign_ins, confirmed) = (self.sign_ins.clone(), method == Method::POST);
        let metadata = self.resource.as_ref().and_then(|resource| resource.metadata(&path));
        Box::pin(async move {
            if let Some(metadata) = metadata.filter(|_| method == Method::GET) {
                return Some(json(&metadata));
            }
            if method != Method::GET && method != Method::POST {
                return None;
            }
            render(sign_ins.page(&path, &query, confirmed).await)
        })
    }
}

fn render(page: Page) -> Option<PageResponse> {
    Some(match page {
        Page::NotFound => return None,
        Page::Redirect(url) => {
            let mut response = html(StatusCode::SEE_OTHER, "Sign in", "<p>Continuing to the sign-in.</p>");
            response.headers.insert(LOCATION, HeaderValue::try_from(url).ok()?);
            response
        }
        Page::Confirm { owner, target, issuer, go_on } => {
            let [owner, target, issuer, go_on] = [owner, target, issuer, go_on].map(|text| escaped(&text));
            let text = format!(
                "<p>This lets the gateway use <b>{target}</b> for <b>{owner}</b>. You will sign in at {issuer}.</p>\
                 <p>Continue only if this is you and you have just asked for it.</p>\
                 <form method=\"post\" action=\"{go_on}\"><button>Continue</button></form>"
            );
            html(StatusCode::OK, "Sign in", &text)
        }
        Page::Done { target } => {
            let text =
                format!("<p>You are signed in at <b>{}</b>. You can close this page.</p>", escaped(&target));
            html(StatusCode::OK, "Signed in", &text)
        }
        Page::Failed { message } => {
            let text = format!("<p>The sign-in failed: {}</p>", escaped(&message));
            html(StatusCode::BAD_REQUEST, "Sign-in failed", &text)
        }
    })
}

/// Clients may keep metadata for a while.
fn json(value: &serde_json::Value) -> PageResponse {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    PageResponse { status: StatusCode::OK, headers, body: Bytes::from(value.to_string()) }
}

/// A page without scripts that no other page may embed.
fn html(status: StatusCode, title: &str, text: &str) -> PageResponse {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} - Toolyard</title>\
         <main><h1>{title}</h1>{text}</main></html>"
    );
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // With `no-referrer` a browser sends the form with the origin `null`, which is refused.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // `form-action` is left out: browsers apply it to the redirect that follows, too.
    let policy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    PageResponse { status, headers, body: Bytes::from(body) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_become_markup() {
        let page = Page::Failed { message: "<script>\"&".into() };
        let body = render(page).unwrap().body;
        assert!(String::from_utf8_lossy(&body).contains("&lt;script&gt;&quot;&amp;"));
    }
}
