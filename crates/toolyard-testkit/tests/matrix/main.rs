//! Every client revision at every server revision, over HTTP and over stdio, through a gateway: one table of
//! features, and each cell works, is refused in the clear, or has nothing to do because a revision lacks the
//! thing. The outcome is the table in `docs/guide/eras.md`; `UPDATE=1` writes it.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod features;
mod scene;
mod table;

use futures_util::future::join_all;
use toolyard_model::Scope;
use toolyard_proto::Revision;

use features::FEATURES;
use scene::{Scene, Transport};
use table::Outcome;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_revision_meets_every_other_over_both_transports() {
    let pairs = [Transport::Http, Transport::Stdio]
        .into_iter()
        .flat_map(|transport| Revision::ALL.into_iter().map(move |server| at_one_server(transport, server)));
    let wrong: Vec<String> = join_all(pairs).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    table::check();
}

/// Clients of every revision, one after the other.
async fn at_one_server(transport: Transport, server: Revision) -> Vec<String> {
    let scope = Scope::new();
    let scene = Scene::set(transport, server, &scope).await;
    let mut wrong = Vec::new();
    for client in Revision::ALL {
        wrong.extend(check(&scene, client, &scope).await);
    }
    scene.end(&scope).await;
    wrong
}

/// Every feature between one client and the scene's server; gives what went wrong.
async fn check(scene: &Scene, revision: Revision, scope: &Scope) -> Vec<String> {
    let place = format!("{:?}, client {revision}, server {}", scene.transport, scene.server);
    let client = match scene.client(revision, scope).await {
        Ok(client) => client,
        Err(problem) => return vec![format!("{place}: {problem}")],
    };
    let mut wrong = Vec::new();
    for feature in FEATURES {
        let outcome = match feature.outcome(revision, scene.server) {
            Outcome::Works => (feature.check)(client.clone()).await,
            Outcome::Refused => features::refused(&client, feature.name).await,
            Outcome::Lacking => Ok(()),
        };
        wrong.extend(outcome.err().map(|problem| format!("{place}, {}: {problem}", feature.name)));
    }
    wrong.extend(client.wrong().iter().map(|seen| format!("{place}: it should never have seen {seen}")));
    wrong
}
