//! Tokens that only their issuer can read.

use serde_json::json;
use toolyard_serve::admit::{Refusal, Verdict, VerifyToken as _};

use crate::issuer::{GATEWAY, Issuer, refusal, verdict};

#[tokio::test]
async fn the_issuer_is_asked_once_about_an_opaque_token() {
    let issuer = Issuer::start().await;
    let server = issuer.server_with_introspection();
    let active =
        json!({ "active": true, "sub": "ann", "aud": format!("{GATEWAY}/mcp/wiki"), "groups": ["ops"] });
    issuer.state.lock().opaque.insert("opaque".into(), active);
    let mut checks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let server = server.clone();
        checks.spawn(async move { verdict(&server, "opaque").await });
    }
    for checked in checks.join_all().await {
        let Verdict::Valid(bearer) = checked else { panic!("refused") };
        assert_eq!(bearer.views.as_deref(), Some(&["wiki".to_owned()][..]));
        assert_eq!(bearer.principal.roles(), ["ops".into()]);
    }
    assert!(issuer.asked("/introspect") <= 8, "as many as are asked about at once");
    let before = issuer.asked("/introspect");
    assert!(server.check("opaque").is_some());
    assert_eq!(issuer.asked("/introspect"), before);
    let authorization = issuer.state.lock().authorization.clone();
    assert_eq!(authorization.as_deref(), Some("Basic eWFyZDpodXNo"));
}

#[tokio::test]
async fn an_inactive_token_is_refused_and_not_asked_about_again() {
    let issuer = Issuer::start().await;
    let server = issuer.server_with_introspection();
    for _ in 0..5 {
        assert!(matches!(refusal(&server, "unknown").await, Refusal::Invalid(_)));
    }
    assert_eq!(issuer.asked("/introspect"), 1);
    let elsewhere = json!({ "active": true, "sub": "ann", "aud": "https://other.example" });
    issuer.state.lock().opaque.insert("elsewhere".into(), elsewhere);
    assert!(matches!(refusal(&server, "elsewhere").await, Refusal::Invalid(_)));
}

#[tokio::test]
async fn without_introspection_an_opaque_token_is_refused_at_once() {
    let issuer = Issuer::start().await;
    assert!(matches!(issuer.server().check("opaque"), Some(Verdict::Refused(Refusal::Invalid(_)))));
    assert_eq!(issuer.asked("/introspect"), 0);
}
