//! Clients and servers of other makers, in every era they speak, through the real gateway: each client lists,
//! calls, reads and gets what each server offers, is asked by it, and receives its progress.
//!
//! `cargo xtask peers` installs the Python and npm packages. Without them, the Rust SDK visits the Rust servers.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stderr, reason = "shows what a test skips and why it failed")]

#[path = "../support/everything.rs"]
mod everything;
#[path = "../support/fixture.rs"]
mod fixture;
#[path = "../support/gateway.rs"]
#[expect(dead_code, reason = "shared with tests that look into its folder")]
mod gateway;
#[path = "../support/installed.rs"]
mod installed;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/wire.rs"]
#[expect(dead_code, reason = "this test only checks that all peers have connected")]
mod wire;

mod offers;
mod rust_client;
mod rust_server;
mod scripts;
mod stop;
mod yard;

use std::time::Instant;

use scripts::Script;
use stop::{Seen, Stop};
use yard::Yard;

/// Who visits, and in which mode of its own.
enum Visitor {
    Rust(rust_client::Mode),
    Script(Script, &'static str),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_can_use_every_rust_server_in_every_era_they_speak() {
    visit_all(Yard::of_rust().await, rust_visitors()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the Python SDK and the npm packages; `cargo xtask peers` installs them"]
async fn every_client_can_use_every_server_in_every_era_they_speak() {
    let mut visitors = rust_visitors();
    for script in [Script::python(), Script::typescript()] {
        visitors.extend(["legacy", "auto", wire::MODERN].map(|mode| Visitor::Script(script.clone(), mode)));
    }
    visit_all(Yard::of_all().await, visitors).await;
}

fn rust_visitors() -> Vec<Visitor> {
    rust_client::Mode::ALL.into_iter().map(Visitor::Rust).collect()
}

async fn visit_all(yard: Yard, visitors: Vec<Visitor>) {
    let stops = yard.stops();
    let mut wrong = Vec::new();
    for visitor in visitors {
        let (name, start) = (visitor.name(), Instant::now());
        let visit = visitor.visit(&stops).await;
        match visit {
            Ok(seen) => {
                assert_eq!(seen.len(), stops.len(), "{name} did not come to the end of its way");
                let found =
                    stops.iter().zip(&seen).flat_map(|(stop, seen)| stop.check(visitor.version(), seen));
                wrong.extend(found.map(|found| format!("{name}: {found}")));
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
        eprintln!("{name} has been at {} places in {:?}", stops.len(), start.elapsed());
    }
    assert!(wrong.is_empty(), "{} thing(s) went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

impl Visitor {
    fn name(&self) -> String {
        match self {
            Self::Rust(mode) => format!("rmcp ({mode:?})"),
            Self::Script(script, mode) => format!("{} ({mode})", script.name()),
        }
    }

    /// The gateway speaks both eras, so only a client that insists on the legacy one gets it.
    fn version(&self) -> &'static str {
        match self {
            Self::Rust(rust_client::Mode::Initialize) | Self::Script(_, "legacy") => wire::LEGACY,
            _ => wire::MODERN,
        }
    }

    async fn visit(&self, stops: &[Stop]) -> Result<Vec<Seen>, String> {
        match self {
            Self::Rust(mode) => rust_client::visit(*mode, stops).await,
            Self::Script(script, mode) => script.visit(mode, stops).await,
        }
    }
}
