//! Requests that an issuer gets: few, whatever clients send.

use serde_json::json;
use toolyard_serve::admit::{Refusal, Verdict};

use crate::issuer::{Issuer, refusal, verdict};

#[tokio::test]
async fn a_flood_of_unknown_keys_makes_one_request_for_keys() {
    let issuer = Issuer::start().await;
    let server = issuer.server();
    let mut checks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let header = json!({ "alg": "RS256", "kid": format!("made-up-{number}") });
        let (server, token) = (server.clone(), issuer.sign(&header, &issuer.claims()));
        checks.spawn(async move { refusal(&server, &token).await });
    }
    assert!(checks.join_all().await.iter().all(|refusal| matches!(refusal, Refusal::Invalid(_))));
    assert_eq!((issuer.asked("/jwks"), issuer.asked("/.well-known/oauth-authorization-server")), (1, 1));
}

#[tokio::test]
async fn a_new_key_is_fetched_after_a_while_and_old_keys_last_while_the_issuer_is_down() {
    let issuer = Issuer::start().await;
    let server = issuer.server();
    let all = std::mem::replace(&mut issuer.state.lock().jwks, json!({ "keys": [] }));
    issuer.state.lock().jwks["keys"] = json!([all["keys"][0]]);
    let (old, new) = (issuer.token("RS256", &issuer.claims()), issuer.token("ES256", &issuer.claims()));
    assert!(matches!(verdict(&server, &old).await, Verdict::Valid(_)));
    issuer.state.lock().jwks = all;
    refusal(&server, &new).await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(matches!(verdict(&server, &new).await, Verdict::Valid(_)));
    assert_eq!(issuer.asked("/jwks"), 2);
    issuer.state.lock().is_broken = true;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_mins(20)).await;
    tokio::time::resume();
    let again = issuer.token("RS256", &issuer.claims_with(&json!({ "sub": "bob" })));
    assert!(matches!(verdict(&server, &again).await, Verdict::Valid(_)));
}

#[tokio::test]
async fn without_keys_a_token_is_neither_valid_nor_invalid() {
    let issuer = Issuer::start().await;
    issuer.state.lock().is_broken = true;
    let (server, token) = (issuer.server(), issuer.token("RS256", &issuer.claims()));
    assert!(matches!(refusal(&server, &token).await, Refusal::Unavailable(_)));
    issuer.state.lock().is_broken = false;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    tokio::time::resume();
    assert!(matches!(verdict(&server, &token).await, Verdict::Valid(_)));
}
