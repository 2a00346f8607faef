//! Tokens that end: refreshed once, saved before use, and never in a loop.

use std::sync::Arc;

use serde_json::json;
use toolyard_oauth::Kind;
use toolyard_oauth::client::{Challenge, Credential, Keeper};

use crate::server::{Server, token};

fn header(text: &str) -> http::HeaderValue {
    http::HeaderValue::from_str(&format!("Bearer {text}")).unwrap()
}

async fn signed_in(server: &Server, lifetime: u64) -> Arc<Keeper> {
    server.script().tokens = vec![
        (200, token("first", Some("r1"), lifetime)),
        (200, token("second", Some("r2"), 3600)),
        (200, token("third", Some("r3"), 3600)),
    ];
    let keeper = server.keeper();
    server.sign_in(&keeper).await;
    keeper
}

#[tokio::test]
async fn many_callers_at_the_end_of_a_token_make_one_refresh() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 0).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let keeper = keeper.clone();
        calls.spawn(async move { keeper.authorization().await.unwrap().unwrap() });
    }
    for value in calls.join_all().await {
        assert_eq!(value, "Bearer second");
    }
    let refreshes = server.asked("/token");
    assert_eq!(refreshes.len(), 2, "one sign-in and one refresh");
    assert_eq!(refreshes[1]["refresh_token"], "r1");
    assert_eq!(refreshes[1]["resource"], format!("{}/mcp", server.base));
}

#[tokio::test]
async fn a_token_is_refreshed_when_four_fifths_of_its_life_are_over_and_before_it_expires() {
    for (age, expected, asked) in [(790, "first", 1), (805, "second", 2)] {
        let server = Server::start().await;
        let url = signed_in(&server, 1000).await.target().url.clone();
        let stored = server.vault().credential("local", &url).await.unwrap().unwrap();
        let mut older = serde_json::to_value(&stored).unwrap();
        older["obtained_at"] = json!(older["obtained_at"].as_u64().unwrap() - age);
        let older: Credential = serde_json::from_value(older).unwrap();
        assert!(!older.is_expired());
        server.vault().keep("local", &url, &older).await.unwrap();
        assert_eq!(server.keeper().authorization().await.unwrap().unwrap(), header(expected), "{age} s old");
        assert_eq!(server.asked("/token").len(), asked, "{age} s old");
    }
}

#[tokio::test]
async fn processes_that_share_a_store_make_one_refresh() {
    let server = Server::start().await;
    signed_in(&server, 0).await;
    let (one, two) = (server.keeper(), server.keeper());
    let (first, second) = tokio::join!(one.authorization(), two.authorization());
    assert_eq!((first.unwrap().unwrap(), second.unwrap().unwrap()), (header("second"), header("second")));
    assert_eq!(server.asked("/token").len(), 2);
}

#[tokio::test]
async fn a_token_that_was_replaced_during_a_cancelled_call_is_not_lost() {
    for rejected in [false, true] {
        let server = Server::start().await;
        let keeper = signed_in(&server, if rejected { 3600 } else { 0 }).await;
        let hold = Arc::new(tokio::sync::Semaphore::new(0));
        server.script().hold = Some(hold.clone());
        let (first, none) = (header("first"), Challenge::default());
        let call = async {
            if rejected { keeper.renew(Some(&first), &none).await } else { keeper.authorization().await }
        };
        tokio::select! {
            _ = call => panic!("the token endpoint has not answered"),
            () = server.was_asked("/token", 2) => {}
        }
        // The call is gone, and the server has replaced the refresh token. One that refreshes again gets an answer, too.
        hold.add_permits(2);
        let next = keeper.renew(Some(&first), &none).await.unwrap().unwrap();
        assert_eq!(next, "Bearer second", "rejected: {rejected}");
        assert_eq!(server.asked("/token").len(), 2, "one sign-in and one refresh");
    }
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_once_and_then_the_user_is_needed() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 3600).await;
    let rejected = Challenge::default();
    let renewed = keeper.renew(Some(&header("first")), &rejected).await.unwrap().unwrap();
    assert_eq!(renewed, "Bearer second");
    // A call that was sent with the old token gets the new one without another refresh.
    assert_eq!(keeper.renew(Some(&header("first")), &rejected).await.unwrap().unwrap(), "Bearer second");
    let again = keeper.renew(Some(&header("second")), &rejected).await.unwrap_err();
    assert_eq!(again.kind, Kind::SignIn);
    assert_eq!(server.asked("/token").len(), 2);
    assert!(keeper.sign_in_reason().unwrap().to_string().contains("toolyard login far"));
}

#[tokio::test]
async fn a_refused_refresh_token_is_not_sent_again_not_even_by_the_next_process() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 0).await;
    server.script().tokens = vec![(400, json!({ "error": "invalid_grant" }))];
    assert_eq!(keeper.authorization().await.unwrap_err().kind, Kind::SignIn);
    let next = server.keeper();
    let used = next.authorization().await.unwrap();
    assert_eq!(next.renew(used.as_ref(), &Challenge::default()).await.unwrap_err().kind, Kind::SignIn);
    assert_eq!(server.asked("/token").len(), 2, "one sign-in and one refresh");
}

#[tokio::test]
async fn a_token_answer_that_was_lost_leads_to_a_new_sign_in_and_not_to_a_loop() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 0).await;
    let before = server.vault().credential("local", &keeper.target().url).await.unwrap().unwrap();
    assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer second");
    // As if the process had been killed between the answer and the save: the store has the old refresh token.
    server.vault().keep("local", &keeper.target().url, &before).await.unwrap();
    server.script().tokens = vec![(400, json!({ "error": "invalid_grant" }))];
    let next = server.keeper();
    assert_eq!(next.authorization().await.unwrap_err().kind, Kind::SignIn);
    for _ in 0..3 {
        assert_eq!(
            next.renew(Some(&header("first")), &Challenge::default()).await.unwrap_err().kind,
            Kind::SignIn
        );
    }
    assert_eq!(server.asked("/token").len(), 3, "sign-in, refresh, refused refresh");
}

#[tokio::test]
async fn an_unreachable_server_does_not_end_a_sign_in() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 0).await;
    server.script().tokens = vec![(503, json!({}))];
    assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer first");
    server.script().tokens = vec![(200, token("second", None, 3600))];
    assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer second");
    assert_eq!(server.asked("/token")[2]["refresh_token"], "r1");
}

#[tokio::test]
async fn only_a_refused_grant_or_client_ends_a_sign_in() {
    for (status, body) in [
        (403, json!({})),
        (404, json!("not found")),
        (400, json!({ "error": "invalid_request" })),
        (200, json!({ "hello": "from a captive portal" })),
    ] {
        let server = Server::start().await;
        let keeper = signed_in(&server, 0).await;
        server.script().tokens = vec![(status, body.clone())];
        let error = keeper.authorization().await.unwrap_err();
        assert_ne!(error.kind, Kind::SignIn, "{status} {body}: {error}");
        server.script().tokens = vec![(200, token("second", None, 3600))];
        assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer second", "{status} {body}");
        assert_eq!(server.asked("/token")[2]["refresh_token"], "r1");
    }
    for code in ["invalid_grant", "invalid_client"] {
        let server = Server::start().await;
        let keeper = signed_in(&server, 0).await;
        server.script().tokens = vec![(400, json!({ "error": code }))];
        assert_eq!(keeper.authorization().await.unwrap_err().kind, Kind::SignIn, "{code}");
    }
}

#[tokio::test]
async fn a_valid_token_is_used_although_its_refresh_fails() {
    let server = Server::start().await;
    let keeper = nearly_over(&server).await;
    server.script().tokens = vec![(403, json!({}))];
    for _ in 0..5 {
        assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer first");
    }
    assert_eq!(server.asked("/token").len(), 2, "one sign-in and one attempt");
}

/// A keeper whose token is due for a refresh and still valid.
async fn nearly_over(server: &Server) -> Arc<Keeper> {
    let url = signed_in(server, 1000).await.target().url.clone();
    let stored = server.vault().credential("local", &url).await.unwrap().unwrap();
    let mut older = serde_json::to_value(&stored).unwrap();
    older["obtained_at"] = json!(older["obtained_at"].as_u64().unwrap() - 900);
    server.vault().keep("local", &url, &serde_json::from_value(older).unwrap()).await.unwrap();
    server.keeper()
}

#[tokio::test]
async fn a_slow_refresh_holds_up_neither_valid_tokens_nor_other_credentials() {
    let (slow, other) = (Server::start().await, Server::start().await);
    let keeper = nearly_over(&slow).await;
    let hold = Arc::new(tokio::sync::Semaphore::new(0));
    slow.script().hold = Some(hold.clone());
    let refreshing = keeper.authorization();
    let meanwhile = async {
        slow.was_asked("/token", 2).await;
        let process = slow.keeper();
        assert_eq!(process.authorization().await.unwrap().unwrap(), "Bearer first");
        other.script().tokens = vec![(200, token("a", Some("r"), 0)), (200, token("b", None, 3600))];
        let target = other.target(toolyard_oauth::client::Settings::default());
        let of_other = Arc::new(Keeper::new(toolyard_oauth::Http::default(), slow.vault(), target, "local"));
        other.sign_in(&of_other).await;
        assert_eq!(of_other.authorization().await.unwrap().unwrap(), "Bearer b");
        hold.add_permits(1);
    };
    let waiting = async { tokio::join!(refreshing, meanwhile) };
    let (refreshed, ()) = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!(refreshed.unwrap().unwrap(), "Bearer second");
}

#[tokio::test]
async fn a_step_up_asks_for_the_union_of_scopes_and_only_once() {
    let server = Server::start().await;
    server.script().resource.as_mut().unwrap()["scopes_supported"] = json!(["read"]);
    let keeper = signed_in(&server, 3600).await;
    let more = Challenge { scopes: vec!["write".into()], needs_more_scopes: true, ..Challenge::default() };
    let error = keeper.renew(Some(&header("first")), &more).await.unwrap_err();
    assert_eq!(error.kind, Kind::SignIn);
    assert!(error.to_string().contains("write"), "{error}");
    // The next sign-in may be made by another process, such as `toolyard login`.
    let other = server.keeper();
    let sign_in = other.begin(&Challenge::default(), "http://127.0.0.1:1/oauth/callback").await.unwrap();
    assert!(sign_in.url.contains("scope=read+write"), "{}", sign_in.url);
    // Some servers do not let a client ask for more than it was registered for.
    let registered: Vec<_> = server.asked("/register").iter().map(|sent| sent["scope"].clone()).collect();
    assert_eq!(registered, ["read", "read write"]);
    other.finish(&sign_in, &format!("code=c&state={}", sign_in.state())).await.unwrap();
    let used = keeper.renew(Some(&header("first")), &more).await.unwrap();
    let again = keeper.renew(used.as_ref(), &more).await.unwrap_err();
    assert_eq!(again.kind, Kind::Refused("insufficient_scope".into()));
}

#[tokio::test]
async fn a_credential_is_not_used_with_another_issuer() {
    let (server, other) = (Server::start().await, Server::start().await);
    let keeper = signed_in(&server, 3600).await;
    server.script().resource.as_mut().unwrap()["authorization_servers"] = json!([other.base]);
    let error = keeper.renew(Some(&header("first")), &Challenge::default()).await.unwrap_err();
    assert_eq!(error.kind, Kind::SignIn);
    assert_eq!(server.asked("/token").len(), 1);
    assert!(other.asked("/token").is_empty());
    assert!(!server.keeper().is_signed_in().await.unwrap());
}

#[tokio::test]
async fn signing_out_revokes_and_forgets() {
    let server = Server::start().await;
    let keeper = signed_in(&server, 3600).await;
    assert!(keeper.sign_out().await.unwrap());
    assert_eq!(server.asked("/revoke")[0]["token"], "r1");
    assert!(!keeper.sign_out().await.unwrap());
    assert_eq!(keeper.authorization().await.unwrap(), None);
}

#[tokio::test]
async fn no_secret_is_shown_or_stored_in_the_clear() {
    let server = Server::start().await;
    server.script().tokens = vec![(200, token("access-1", Some("refresh-1"), 3600))];
    let keeper = server.keeper();
    server.sign_in(&keeper).await;
    let stored = server.vault().credential("local", &keeper.target().url).await.unwrap().unwrap();
    let shown = format!("{keeper:?} {stored:?}");
    let files = std::fs::read_dir(server.folder())
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let all: Vec<u8> = files.flatten().chain(shown.into_bytes()).collect();
    for secret in ["access-1", "refresh-1"] {
        assert!(!all.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret}");
    }
}
