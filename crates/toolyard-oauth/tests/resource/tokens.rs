//! Which tokens are accepted, and which are not.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;
use serde_json::{Value, json};
use toolyard_oauth::{Http, ResourceServer, ResourceSettings};
use toolyard_serve::admit::{Refusal, Verdict, VerifyToken as _};

use crate::issuer::{GATEWAY, Issuer, now, refusal, verdict};

#[tokio::test]
async fn tokens_of_each_algorithm_name_their_bearer_and_roles() {
    let issuer = Issuer::start().await;
    let server = issuer.server();
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let token = issuer.token(algorithm, &issuer.claims());
        let Verdict::Valid(bearer) = verdict(&server, &token).await else {
            panic!("{algorithm} was refused")
        };
        assert_eq!(&**bearer.principal.name(), format!("oauth:{}#ann", issuer.base));
        assert_eq!(bearer.principal.roles(), ["ops".into()]);
        assert_eq!(bearer.views, None);
    }
}

#[tokio::test]
async fn twelve_bad_tokens_are_each_invalid() {
    let issuer = Issuer::start().await;
    let server = issuer.server();
    let good = issuer.token("ES256", &issuer.claims());
    assert!(matches!(verdict(&server, &good).await, Verdict::Valid(_)));
    let with = |changes: Value| issuer.token("RS256", &issuer.claims_with(&changes));
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let unsigned = format!("{}.{}.", encode(&json!({ "alg": "none" })), encode(&issuer.claims()));
    let confused = {
        let header = json!({ "alg": "HS256", "typ": "at+jwt", "kid": "RS256" });
        let signed = format!("{}.{}", encode(&header), encode(&issuer.claims()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, &issuer.rsa_public());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref()))
    };
    let forged = {
        let (_, signature) = good.rsplit_once('.').unwrap();
        let (signed, _) = good.rsplit_once('.').unwrap();
        let (header, _) = signed.split_once('.').unwrap();
        let claims = encode(&issuer.claims_with(&json!({ "sub": "root" })));
        format!("{header}.{claims}.{signature}")
    };
    let other_type =
        issuer.sign(&json!({ "alg": "RS256", "typ": "logout+jwt", "kid": "RS256" }), &issuer.claims());
    let unknown_key = issuer.sign(&json!({ "alg": "RS256", "kid": "other" }), &issuer.claims());
    let bad = [
        ("expired", with(json!({ "exp": now() - 61 }))),
        ("not yet valid", with(json!({ "nbf": now() + 120 }))),
        ("another issuer", with(json!({ "iss": "https://evil.example" }))),
        ("another audience", with(json!({ "aud": "https://other.example/mcp" }))),
        ("alg none", unsigned),
        ("HS256 with the public key", confused),
        ("unknown key", unknown_key),
        ("another signature", forged),
        ("another type", other_type),
        ("no subject", with(json!({ "sub": null }))),
        ("garbage", "not a token".to_owned()),
        ("oversized", with(json!({ "filler": "x".repeat(20_000) }))),
    ];
    for (what, token) in bad {
        let refusal = refusal(&server, &token).await;
        assert!(matches!(refusal, Refusal::Invalid(_)), "{what}: {refusal}");
        let challenge = server.challenge("/mcp/wiki", Some(refusal));
        let expected = format!(
            "Bearer error=\"invalid_token\", error_description=\"{refusal}\", \
             resource_metadata=\"{GATEWAY}/.well-known/oauth-protected-resource/mcp/wiki\""
        );
        assert_eq!(challenge.to_str().unwrap(), expected, "{what}");
    }
}

#[tokio::test]
async fn a_signature_of_another_algorithm_than_the_key_is_refused() {
    let issuer = Issuer::start().await;
    let token = issuer.sign(&json!({ "alg": "ES256", "kid": "RS256" }), &issuer.claims());
    assert!(matches!(refusal(&issuer.server(), &token).await, Refusal::Invalid(_)));
    let extended = issuer.sign(&json!({ "alg": "RS256", "kid": "RS256", "crit": ["b64"] }), &issuer.claims());
    assert!(matches!(refusal(&issuer.server(), &extended).await, Refusal::Invalid(_)));
}

#[tokio::test]
async fn a_configured_audience_replaces_the_addresses_of_views() {
    let issuer = Issuer::start().await;
    let settings = ResourceSettings { audience: vec!["api://yard".into()], ..issuer.settings() };
    let server = ResourceServer::new(Http::default(), settings);
    let meant = issuer.token("EdDSA", &issuer.claims_with(&json!({ "aud": ["x", "api://yard"] })));
    assert!(matches!(verdict(&server, &meant).await, Verdict::Valid(_)));
    refusal(&server, &issuer.token("EdDSA", &issuer.claims())).await;
}

#[tokio::test]
async fn missing_scopes_are_named_in_the_challenge() {
    let issuer = Issuer::start().await;
    let settings = ResourceSettings { scopes: vec!["mcp".into(), "tools".into()], ..issuer.settings() };
    let server = ResourceServer::new(Http::default(), settings);
    let token = issuer.token("ES256", &issuer.claims_with(&json!({ "scope": "mcp" })));
    let refusal = refusal(&server, &token).await;
    assert_eq!(refusal, Refusal::Scopes);
    let challenge = server.challenge("/mcp", Some(refusal));
    let expected = format!(
        "Bearer error=\"insufficient_scope\", \
         resource_metadata=\"{GATEWAY}/.well-known/oauth-protected-resource/mcp\", scope=\"mcp tools\""
    );
    assert_eq!(challenge.to_str().unwrap(), expected);
    let token = issuer.token("ES256", &issuer.claims_with(&json!({ "scope": "tools mcp" })));
    assert!(matches!(verdict(&server, &token).await, Verdict::Valid(_)));
}

#[tokio::test]
async fn each_view_has_metadata_and_other_paths_have_none() {
    let issuer = Issuer::start().await;
    let server = issuer.server();
    let resource = |path: &str| {
        let metadata = server.metadata(&format!("/.well-known/oauth-protected-resource{path}"))?;
        assert_eq!(metadata["authorization_servers"], json!([issuer.base]));
        Some(metadata["resource"].as_str().unwrap().to_owned())
    };
    for path in ["", "/mcp", "/mcp/wiki", "/mcp/p/team", "/mcp/hub"] {
        assert_eq!(resource(path), Some(format!("{GATEWAY}{path}")));
    }
    for path in ["/api", "/mcp/a/b/c", "/mcp2", "x", "/mcp/a\"b"] {
        assert_eq!(resource(path), None, "{path}");
    }
}
