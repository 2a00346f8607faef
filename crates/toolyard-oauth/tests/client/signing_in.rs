//! Sign-ins in the browser and by device code: what is sent, and which redirects are refused.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolyard_link::http::Authorize as _;
use toolyard_model::Principal;
use toolyard_oauth::client::{Callback, Challenge, DeviceSignIn, Keeper, Page, SHARED, Settings, SignIns};
use toolyard_oauth::{Http, Kind};

use crate::server::{Server, token};

const REDIRECT: &str = "http://127.0.0.1:1/oauth/callback";

async fn finish(keeper: &Keeper, query: impl Fn(&str) -> String) -> Result<(), Kind> {
    let sign_in = keeper.begin(&Challenge::default(), REDIRECT).await.unwrap();
    keeper.finish(&sign_in, &query(sign_in.state())).await.map_err(|error| error.kind)
}

#[tokio::test]
async fn a_sign_in_sends_pkce_state_and_the_resource() {
    let server = Server::start().await;
    let keeper = server.keeper();
    let sign_in = keeper.begin(&Challenge::default(), REDIRECT).await.unwrap();
    for part in ["response_type=code", "code_challenge_method=S256", "resource=http", "client_id=registered"]
    {
        assert!(sign_in.url.contains(part), "{part}: {}", sign_in.url);
    }
    keeper.finish(&sign_in, &format!("code=c&state={}", sign_in.state())).await.unwrap();
    let sent = &server.asked("/token")[0];
    assert_eq!(sent["grant_type"], "authorization_code");
    assert_eq!(sent["resource"], format!("{}/mcp", server.base));
    assert!(sent["code_verifier"].as_str().unwrap().len() >= 43);
    assert_eq!(server.asked("/register")[0]["application_type"], "native");
    assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer first");
    // The next process has it from the store.
    assert_eq!(server.keeper().authorization().await.unwrap().unwrap(), "Bearer first");
}

#[tokio::test]
async fn a_redirect_of_another_sign_in_or_issuer_is_refused_before_the_code_is_used() {
    let server = Server::start().await;
    let keeper = server.keeper();
    let base = server.base.clone();
    assert_eq!(finish(&keeper, |_| "code=c&state=other".into()).await, Err(Kind::Violation));
    let wrong = finish(&keeper, |state| format!("code=c&state={state}&iss=https://evil.example"));
    assert_eq!(wrong.await, Err(Kind::Violation));
    let slash = finish(&keeper, |state| format!("code=c&state={state}&iss={base}/"));
    assert_eq!(slash.await, Err(Kind::Violation));
    server.script().metadata["authorization_response_iss_parameter_supported"] = true.into();
    assert_eq!(finish(&keeper, |state| format!("code=c&state={state}")).await, Err(Kind::Violation));
    assert!(server.asked("/token").is_empty(), "no code was redeemed");
    assert_eq!(finish(&keeper, |state| format!("code=c&state={state}&iss={base}")).await, Ok(()));
}

#[tokio::test]
async fn an_error_in_the_redirect_is_reported() {
    let server = Server::start().await;
    let keeper = server.keeper();
    let refused = finish(&keeper, |state| format!("error=access_denied&state={state}"));
    assert_eq!(refused.await, Err(Kind::Refused("access_denied".into())));
}

#[tokio::test]
async fn a_server_without_pkce_is_not_signed_in_at() {
    let server = Server::start().await;
    server.script().metadata["code_challenge_methods_supported"] = json!(["plain"]);
    let begun = server.keeper().begin(&Challenge::default(), REDIRECT).await;
    assert_eq!(begun.unwrap_err().kind, Kind::Violation);
}

#[tokio::test]
async fn clients_prove_themselves_as_the_server_wants() {
    let server = Server::start().await;
    let settings =
        Settings { client_id: Some("mine".into()), client_secret: Some("s:x".into()), ..Settings::default() };
    let keeper = server.keeper_with(settings.clone());
    server.sign_in(&keeper).await;
    // base64 of `mine:s%3Ax`
    assert_eq!(server.script().basic.take().as_deref(), Some("Basic bWluZTpzJTNBeA=="));
    assert!(server.asked("/register").is_empty());
    server.script().metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    server.sign_in(&server.keeper_with(settings)).await;
    assert_eq!(server.asked("/token")[1]["client_secret"], "s:x");
}

#[tokio::test]
async fn a_client_id_document_is_used_where_the_server_takes_it() {
    let server = Server::start().await;
    let document = "https://client.example/client.json";
    let settings = Settings { client_metadata_url: Some(document.into()), ..Settings::default() };
    server.sign_in(&server.keeper_with(settings.clone())).await;
    assert_eq!(server.asked("/token")[0]["client_id"], "registered");
    server.script().metadata["client_id_metadata_document_supported"] = true.into();
    server.sign_in(&server.keeper_with(settings)).await;
    assert_eq!(server.asked("/token")[1]["client_id"], document);
}

#[tokio::test]
async fn a_registration_is_reused_with_its_issuer_only() {
    let server = Server::start().await;
    server.sign_in(&server.keeper()).await;
    server.sign_in(&server.keeper()).await;
    assert_eq!(server.asked("/register").len(), 1);
    let other = Server::start().await;
    let issuer = other.base.clone();
    server.script().resource.as_mut().unwrap()["authorization_servers"] = json!([issuer]);
    server.sign_in(&server.keeper()).await;
    assert_eq!(other.asked("/register").len(), 1);
}

#[tokio::test]
async fn two_redirect_addresses_keep_two_registrations() {
    let server = Server::start().await;
    let keeper = server.keeper();
    let command = "http://127.0.0.1:7780/oauth/callback";
    let gateway = "http://127.0.0.1:7777/oauth/callback";
    for (address, id) in [(command, "of-login"), (gateway, "of-gateway"), (command, "no"), (gateway, "no")] {
        server.script().registration = (201, json!({ "client_id": id }));
        let sign_in = keeper.begin(&Challenge::default(), address).await.unwrap();
        let expected = if address == command { "client_id=of-login" } else { "client_id=of-gateway" };
        assert!(sign_in.url.contains(expected), "{address}: {}", sign_in.url);
    }
    let registered = server.asked("/register");
    assert_eq!(registered.len(), 2, "{registered:?}");
}

#[tokio::test]
async fn a_client_of_the_config_is_not_sent_to_another_issuer() {
    let (server, other) = (Server::start().await, Server::start().await);
    let settings =
        Settings { client_id: Some("mine".into()), client_secret: Some("s".into()), ..Settings::default() };
    server.sign_in(&server.keeper_with(settings.clone())).await;
    server.script().resource.as_mut().unwrap()["authorization_servers"] = json!([other.base]);
    let begun = server.keeper_with(settings.clone()).begin(&Challenge::default(), REDIRECT).await;
    let error = begun.unwrap_err();
    assert_eq!(error.kind, Kind::Config);
    assert!(error.to_string().contains(&server.base) && error.to_string().contains(&other.base), "{error}");
    let named = Settings { issuer: Some(other.base.clone()), ..settings };
    server.sign_in(&server.keeper_with(named)).await;
    assert_eq!(other.asked("/token").len(), 1);
}

#[tokio::test]
async fn a_client_with_a_secret_proves_itself_for_a_device_code() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let server = Server::start().await;
        server.script().metadata["token_endpoint_auth_methods_supported"] = json!([method]);
        let settings = Settings {
            client_id: Some("mine".into()),
            client_secret: Some("s".into()),
            ..Settings::default()
        };
        let keeper = server.keeper_with(settings.clone());
        let (found, scopes) = keeper.prepare(&Challenge::default()).await.unwrap();
        let (http, vault, target) = (Http::default(), server.vault(), server.target(settings));
        DeviceSignIn::begin(&http, &vault, &target, found, &scopes, REDIRECT).await.unwrap();
        let (sent, basic) = (server.asked("/device")[0].clone(), server.script().basic.take());
        if method == "client_secret_basic" {
            // base64 of `mine:s`
            assert_eq!(basic.as_deref(), Some("Basic bWluZTpz"));
        } else {
            assert_eq!((&sent["client_id"], &sent["client_secret"]), (&json!("mine"), &json!("s")));
        }
    }
}

#[tokio::test]
async fn an_idle_connection_of_the_browser_does_not_delay_its_redirect() {
    let callback = Callback::open(None).await.unwrap();
    let uri = callback.redirect_uri();
    let address = uri.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let _idle = tokio::net::TcpStream::connect(&address).await.unwrap();
    let browsing = async {
        let mut browser = tokio::net::TcpStream::connect(&address).await.unwrap();
        let request = "GET /oauth/callback?code=c&state=mine HTTP/1.1\r\nhost: x\r\n\r\n";
        browser.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        page
    };
    let signing_in = async {
        let redirect = callback.wait("mine").await.unwrap();
        assert_eq!(redirect.query, "code=c&state=mine");
        redirect.answer(Ok(())).await;
    };
    let both = async { tokio::join!(browsing, signing_in) };
    let (page, ()) = tokio::time::timeout(std::time::Duration::from_secs(5), both).await.unwrap();
    assert!(page.contains("You are signed in"), "{page}");
}

#[tokio::test]
async fn a_device_code_is_redeemed_once_the_user_has_accepted() {
    let server = Server::start().await;
    let pending = (400, json!({ "error": "authorization_pending" }));
    server.script().tokens = vec![pending, (200, token("by-device", None, 60))];
    let keeper = server.keeper();
    let (found, scopes) = keeper.prepare(&Challenge::default()).await.unwrap();
    let (vault, target) = (server.vault(), server.target(Settings::default()));
    let http = Http::default();
    let sign_in = DeviceSignIn::begin(&http, &vault, &target, found, &scopes, REDIRECT).await.unwrap();
    assert_eq!((sign_in.user_code.as_str(), sign_in.page.as_str()), ("ABCD", "https://x"));
    keeper.accept(sign_in.finish(&http).await.unwrap()).await.unwrap();
    assert_eq!(keeper.authorization().await.unwrap().unwrap(), "Bearer by-device");
    assert_eq!(server.asked("/token").len(), 2);
}

#[tokio::test]
async fn the_pages_of_a_gateway_lead_to_the_server_and_back_once() {
    let server = Server::start().await;
    let pages = SignIns::default();
    pages.set_base("http://127.0.0.1:7777/");
    let keeper = server.keeper();
    let mut waiting = pages.begin(&keeper, &Challenge::default()).await.unwrap();
    let path = waiting.url.strip_prefix("http://127.0.0.1:7777").unwrap().to_owned();
    let Page::Redirect(url) = pages.page(&path, "", false).await else { panic!("a redirect was expected") };
    let state = form_urlencoded::parse(url.split_once('?').unwrap().1.as_bytes())
        .find(|(key, _)| key == "state")
        .map(|(_, value)| value.into_owned());
    let query = format!("code=c&state={}", state.unwrap());
    assert_eq!(pages.page("/oauth/callback", &query, false).await, Page::Done { target: "far".into() });
    waiting.finished().await.unwrap();
    assert!(matches!(pages.page("/oauth/callback", &query, false).await, Page::Failed { .. }));
    assert_eq!(pages.page(&path, "", false).await, Page::NotFound);
}

#[tokio::test]
async fn a_sign_in_is_finished_although_the_browser_left() {
    let server = Server::start().await;
    let (pages, keeper) = (SignIns::default(), server.keeper());
    pages.set_base("http://127.0.0.1:7777");
    let mut waiting = pages.begin(&keeper, &Challenge::default()).await.unwrap();
    let path = waiting.url.strip_prefix("http://127.0.0.1:7777").unwrap().to_owned();
    let Page::Redirect(url) = pages.page(&path, "", false).await else { panic!("a redirect was expected") };
    let (_, state) = url.split_once("&state=").unwrap();
    let query = format!("code=c&state={}", state.split('&').next().unwrap());
    let hold = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    server.script().hold = Some(hold.clone());
    tokio::select! {
        page = pages.page("/oauth/callback", &query, false) => panic!("too early: {page:?}"),
        () = server.was_asked("/token", 1) => {}
    }
    hold.add_permits(1);
    waiting.finished().await.unwrap();
    assert_eq!(server.keeper().authorization().await.unwrap().unwrap(), "Bearer first");
}

#[tokio::test]
async fn an_account_at_a_provider_is_signed_in_to_without_a_server() {
    let server = Server::start().await;
    server.script().resource = None;
    let settings = Settings {
        issuer: Some(server.base.clone()),
        scopes: Some(vec!["generate".into()]),
        is_account: true,
        ..Settings::default()
    };
    let mut target = server.target(settings);
    target.url = server.base.parse().unwrap();
    let keeper = std::sync::Arc::new(Keeper::new(Http::default(), server.vault(), target, "login:provider"));
    server.sign_in(&keeper).await;
    assert!(keeper.authorization().await.unwrap().is_some());
    assert_eq!(server.asked("/token")[0]["resource"], serde_json::Value::Null);
    assert!(server.asked("/mcp").is_empty());
}

#[tokio::test]
async fn the_sign_in_of_a_principal_is_confirmed_first() {
    let server = Server::start().await;
    let pages = SignIns::default();
    pages.set_base("https://yard.example");
    let target = server.target(Settings::default());
    assert_ne!(SHARED, "oauth:https://idp.example#ann");
    let keeper = Keeper::new(Http::default(), server.vault(), target, "oauth:https://idp.example#ann");
    let waiting = pages.begin(&std::sync::Arc::new(keeper), &Challenge::default()).await.unwrap();
    let path = waiting.url.strip_prefix("https://yard.example").unwrap();
    assert!(matches!(pages.page(path, "", false).await, Page::Confirm { .. }));
    assert!(matches!(pages.page(path, "", true).await, Page::Redirect(_)));
    assert_eq!(server.asked("/register")[0]["application_type"], "web");
}

#[tokio::test]
async fn principals_share_a_sign_in_only_where_the_config_sets_that() {
    for shared in [false, true] {
        let server = Server::start().await;
        server.script().tokens = vec![(200, token("anns", None, 3600))];
        let auth = server.upstream(Settings { shared, ..Settings::default() });
        let [ann, bob] = ["ann", "bob"].map(|name| Principal::oauth("https://idp.example", name));
        server.sign_in(&auth.keeper(Some(&ann))).await;
        let header = async |principal: &Principal| auth.authorization(Some(principal)).await.unwrap();
        assert_eq!(header(&ann).await.unwrap(), "Bearer anns");
        // Bob's calls carry Ann's token only if the upstream has one sign-in for all.
        assert_eq!(header(&bob).await.is_some(), shared, "shared: {shared}");
        assert_eq!(auth.keeper(None).is_signed_in().await.unwrap(), shared, "the user of the gateway");
        assert_eq!(server.asked("/token").len(), 1);
    }
}
