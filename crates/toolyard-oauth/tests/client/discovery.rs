//! Which authorization server is used, and which never is.

use serde_json::json;
use toolyard_oauth::client::{Challenge, Settings, discover};
use toolyard_oauth::{Http, Kind};

use crate::server::Server;

async fn check(server: &Server, settings: Settings, expected: Result<&[&str], Kind>) {
    let found = discover(&Http::default(), &server.target(settings), &Challenge::default()).await;
    let found = found.map(|found| found.scopes).map_err(|error| error.kind);
    let expected = expected.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect::<Vec<_>>());
    assert_eq!(found, expected);
}

#[tokio::test]
async fn scopes_come_from_the_challenge_then_from_the_metadata() {
    let server = Server::start().await;
    check(&server, Settings::default(), Ok(&[])).await;
    server.script().resource.as_mut().unwrap()["scopes_supported"] = json!(["read"]);
    server.script().metadata["scopes_supported"] = json!(["read", "offline_access", "admin"]);
    check(&server, Settings::default(), Ok(&["read", "offline_access"])).await;
    let own = Settings { scopes: Some(vec!["mine".into()]), ..Settings::default() };
    check(&server, own, Ok(&["mine"])).await;
    let challenge = Challenge { scopes: vec!["write".into()], ..Challenge::default() };
    let found = discover(&Http::default(), &server.target(Settings::default()), &challenge).await.unwrap();
    assert_eq!(found.scopes, ["write", "offline_access"]);
}

#[tokio::test]
async fn metadata_of_another_resource_or_issuer_stops_the_sign_in() {
    let server = Server::start().await;
    server.script().metadata["issuer"] = "https://evil.example".into();
    check(&server, Settings::default(), Err(Kind::Violation)).await;
    server.script().resource.as_mut().unwrap()["resource"] = "https://evil.example/mcp".into();
    check(&server, Settings::default(), Err(Kind::Violation)).await;
}

#[tokio::test]
async fn a_server_without_resource_metadata_is_its_own_authorization_server() {
    let server = Server::start().await;
    server.script().resource = None;
    check(&server, Settings::default(), Ok(&[])).await;
    server.script().metadata = json!({});
    server.script().registration = (404, json!({}));
    check(&server, Settings::default(), Err(Kind::NotOffered)).await;
}
