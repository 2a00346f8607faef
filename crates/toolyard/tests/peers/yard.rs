//! All servers behind one gateway. Servers of both eras are there twice: in the era that the gateway chooses, and held
//! to the legacy one.

use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::everything::Everything;
use super::fixture::{fixture_child, serve_fixture};
use super::gateway::{Gateway, Reach};
use super::offers::{EVERYTHING, FIXTURE, Offer, PYTHON, RUST, STRANGE};
use super::program::Program;
use super::python::{python_child, serve_python};
use super::rust_server::RustServer;
use super::stop::Stop;
use super::wire::{Client, Era, LEGACY, Request};

/// A server whose definitions would make clients drop their whole list; only used together with all the others.
const STRANGER: &str = "strange";
const STRANGE_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/strange");
const OLD: &str = "era = \"legacy\"";
/// How long all servers together may take to start.
const ARRIVAL: Duration = Duration::from_mins(1);
const PACE: Duration = Duration::from_millis(100);

pub(crate) struct Yard {
    gateway: Gateway,
    upstreams: Vec<(&'static str, &'static Offer)>,
    _programs: Vec<Program>,
    _rust: RustServer,
}

/// An upstream's id, what it offers, how it is reached, and more of its config.
type Row = (&'static str, &'static Offer, Reach, &'static str);

impl Yard {
    /// The servers that are built with this workspace.
    pub(crate) async fn of_rust() -> Self {
        Self::open(Vec::new(), Vec::new()).await
    }

    /// The servers of other vendors as well.
    pub(crate) async fn of_all() -> Self {
        let mut programs = Vec::new();
        let mut rows = everything(&mut programs);
        rows.extend(python(&mut programs));
        Self::open(programs, rows).await
    }

    async fn open(mut programs: Vec<Program>, more: Vec<Row>) -> Self {
        let rust = RustServer::start().await;
        let mut rows = vec![
            ("rmcp-http", &RUST, rust.reach(), ""),
            ("rmcp-http-old", &RUST, rust.reach(), OLD),
            ("fixture-stdio", &FIXTURE, fixture_child("both"), ""),
            ("fixture-stdio-old", &FIXTURE, fixture_child("both"), OLD),
            (STRANGER, &STRANGE, strange_child(), ""),
        ];
        let (program, reach) = serve_fixture("both");
        programs.push(program);
        rows.extend([
            ("fixture-http", &FIXTURE, reach.clone(), ""),
            ("fixture-http-old", &FIXTURE, reach, OLD),
        ]);
        rows.extend(more);
        let configured: Vec<_> =
            rows.iter().map(|(id, _, reach, more)| (*id, reach.clone(), *more)).collect();
        let gateway = Gateway::before(&configured);
        let upstreams = rows.iter().map(|(id, offer, ..)| (*id, *offer)).collect();
        let yard = Self { gateway, upstreams, _programs: programs, _rust: rust };
        let (mut client, _) = Client::open(&Reach::Url(yard.gateway.everything()), Era::Modern).await;
        let arrival = timeout(ARRIVAL, yard.all_have_arrived(&mut client)).await;
        arrival.expect("all upstreams are listed in time");
        check_versions(&mut client, &rows).await;
        yard
    }

    async fn all_have_arrived(&self, client: &mut Client) {
        let list = Request::new("tools/list", "tools/list", json!({}));
        loop {
            let listed = client.exchange(&list).await.outcome.unwrap();
            if self.upstreams.iter().all(|(id, _)| listed.contains(&format!("\"{id}__"))) {
                return;
            }
            sleep(PACE).await;
        }
    }

    /// Where there is something to see.
    pub(crate) fn stops(&self) -> Vec<Stop> {
        let alone = self.upstreams.iter().filter(|(id, _)| *id != STRANGER);
        let alone = alone.map(|(id, offer)| Stop::alone(self.gateway.alone(id), offer));
        let together = Stop::together(self.gateway.everything(), &self.upstreams, &STRANGE);
        std::iter::once(together).chain(alone).collect()
    }
}

/// The gateway uses the era that the table states for each upstream: legacy if the config sets it, or if the upstream
/// supports no other.
async fn check_versions(client: &mut Client, rows: &[Row]) {
    let call = Request::new("upstreams", "tools/call", json!({ "name": "yard__upstreams", "arguments": {} }));
    let status = client.exchange(&call).await.result();
    let upstreams = status["structuredContent"]["upstreams"].as_array().expect("a list of upstreams");
    for (id, offer, _, more) in rows {
        let version = if *more == OLD { LEGACY } else { offer.version };
        let upstream = upstreams.iter().find(|upstream| upstream["id"] == *id);
        assert!(upstream.is_some_and(|upstream| upstream["revision"] == version), "{id}: {upstream:?}");
    }
}

fn strange_child() -> Reach {
    let script = format!("{STRANGE_SERVER}/server.sh");
    Reach::Child(["sh", &script, STRANGE_SERVER].map(str::to_owned).to_vec())
}

fn everything(programs: &mut Vec<Program>) -> Vec<Row> {
    let everything = Everything::find();
    let (program, reach) = everything.serve();
    programs.push(program);
    vec![
        ("everything-http", &EVERYTHING, reach, ""),
        ("everything-stdio", &EVERYTHING, everything.child(), ""),
    ]
}

fn python(programs: &mut Vec<Program>) -> Vec<Row> {
    let (program, over_http) = serve_python();
    programs.push(program);
    vec![
        ("python-http", &PYTHON, over_http.clone(), ""),
        ("python-http-old", &PYTHON, over_http, OLD),
        ("python-stdio", &PYTHON, python_child(), ""),
        ("python-stdio-old", &PYTHON, python_child(), OLD),
    ]
}
