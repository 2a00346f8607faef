//! The messages of a server arrive unchanged: everything that the fixture and server-everything offer is
//! listed, called, read and completed directly and through the gateway, and the answers are compared byte by
//! byte.
//!
//! At `/mcp/{upstream}` there is no difference at all. At `/mcp` names, URIs and ids of tasks carry the
//! upstream's id (`view.rs`), and nothing else differs.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stderr, reason = "shows what a test skips and why it failed")]

#[path = "../support/everything.rs"]
mod found;
#[path = "../support/fixture.rs"]
mod fixture;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/installed.rs"]
mod installed;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/python.rs"]
mod python_server;
#[path = "../support/wire.rs"]
mod wire;

mod agenda;
mod compare;
mod crowd;
mod doors;
mod everything;
mod follow;
mod mask;
mod python;
mod record;
mod view;

use agenda::Subject;
use gateway::{Gateway, Reach};
use program::Program;
use record::{Recording, record};
use view::View;
use wire::Era;

/// How the gateway reaches the upstream, or a client the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http,
    Stdio,
    Tcp,
    Unix,
    Sse,
}

/// An upstream behind a transport, with clients that come over HTTP.
async fn check(subject: &Subject, over: Over, era: Era) {
    check_both(subject, over, Over::Http, era).await;
}

/// A server of its own for each recording, so that what one recording changes is not seen by another.
async fn check_both(subject: &Subject, over: Over, client: Over, era: Era) {
    let folder = tempfile::tempdir().unwrap();
    let (_server, reach) = (subject.start)(over, era, folder.path());
    let direct = record(subject, &reach, era, View::Direct, None).await;
    for (label, bytes) in subject.known {
        let answer =
            direct.exchanges.iter().find(|(asked, _)| asked == label).map(|(_, exchange)| &exchange.outcome);
        let is_contained =
            answer.is_some_and(|answer| answer.as_ref().is_ok_and(|answer| answer.contains(bytes)));
        assert!(is_contained, "{label} does not contain {bytes} but {answer:?}");
    }
    for view in [View::Alone, View::Everything] {
        let through = through(subject, (over, client), era, view, &direct).await;
        let differences = compare::differences(subject, era, view, &direct, &through);
        assert!(
            differences.is_empty(),
            "{} over {over:?} to {client:?} in the {era:?} era differs in {} place(s) at {view:?}:\n{}",
            subject.name,
            differences.len(),
            differences.join("\n")
        );
    }
}

async fn through(
    subject: &Subject,
    (over, client): (Over, Over),
    era: Era,
    view: View,
    direct: &Recording,
) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let (_server, reach): (Option<Program>, Reach) = (subject.start)(over, era, folder.path());
    let era_name = if era == Era::Legacy { "legacy" } else { "modern" };
    let config = format!(
        "era = \"{era_name}\"\nroots = [\"{}\"]\n[listen]\ntcp = \"127.0.0.1:0\"\nunix = \"{}\"",
        wire::script::ROOT,
        folder.path().join("mcp.sock").display(),
    );
    let gateway = Gateway::before(&[(view::ID, reach, &config)]);
    let door = doors::to(&gateway, client, view, folder.path());
    record(subject, &door, era, view, Some(&direct.agenda)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_fixture_over_http_is_relayed_to_the_byte() {
    check(&agenda::FIXTURE, Over::Http, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_fixture_over_stdio_is_relayed_to_the_byte() {
    check(&agenda::FIXTURE, Over::Stdio, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_fixture_over_http_is_relayed_to_the_byte() {
    check(&agenda::FIXTURE, Over::Http, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_fixture_over_stdio_is_relayed_to_the_byte() {
    check(&agenda::FIXTURE, Over::Stdio, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
async fn server_everything_over_http_is_relayed_to_the_byte() {
    check(&everything::EVERYTHING, Over::Http, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
async fn server_everything_over_stdio_is_relayed_to_the_byte() {
    check(&everything::EVERYTHING, Over::Stdio, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the Python SDK; `cargo xtask peers` installs it"]
async fn a_python_server_over_http_is_relayed_to_the_byte_in_both_eras() {
    check(&python::PYTHON, Over::Http, Era::Legacy).await;
    check(&python::PYTHON, Over::Http, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the Python SDK; `cargo xtask peers` installs it"]
async fn a_python_server_over_stdio_is_relayed_to_the_byte_in_both_eras() {
    check(&python::PYTHON, Over::Stdio, Era::Legacy).await;
    check(&python::PYTHON, Over::Stdio, Era::Modern).await;
}
