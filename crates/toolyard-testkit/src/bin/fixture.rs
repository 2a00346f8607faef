//! The conformance fixture as a program: over HTTP at `/mcp` (and at `/sse` for HTTP+SSE), over
//! stdio, or on a socket.
//!
//! `fixture --listen ADDR | --stdio | --tcp ADDR | --unix PATH [--era legacy|modern|both | --asks-by-era | --skill NAME]`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use toolyard_model::local::LocalListener;
use toolyard_model::{Principal, Scope, View};
use toolyard_serve::{Endpoint, Options, serve_http, serve_local, serve_stream, serve_tcp};
use toolyard_testkit::Fixture;
use toolyard_testkit::fixture::Eras;

const USAGE: &str = "usage: fixture --listen ADDR | --stdio | --tcp ADDR | --unix PATH [--era legacy|modern|both | --asks-by-era | --skill NAME]";

enum Door {
    Http(String),
    Stdio,
    Tcp(String),
    Local(PathBuf),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let (door, fixture) = arguments(std::env::args().skip(1))?;
    let scope = Scope::new();
    let endpoint = Arc::new(Endpoint::new(Arc::new(fixture), Options::default(), &scope));
    match door {
        Door::Http(address) => {
            let failed = |error| format!("listen on {address}: {error}");
            let listener = TcpListener::bind(&address).await.map_err(failed)?;
            say(&format!("listening on http://{}", listener.local_addr().map_err(failed)?));
            serve_http(listener, endpoint, scope).await;
        }
        Door::Tcp(address) => {
            let failed = |error| format!("listen on {address}: {error}");
            let listener = TcpListener::bind(&address).await.map_err(failed)?;
            say(&format!("listening on tcp://{}", listener.local_addr().map_err(failed)?));
            serve_tcp(listener, endpoint, scope).await;
        }
        Door::Local(path) => {
            let listener =
                LocalListener::bind(&path).map_err(|e| format!("listen on {}: {e}", path.display()))?;
            say(&format!("listening on unix://{}", path.display()));
            serve_local(listener, endpoint, scope).await;
        }
        Door::Stdio => {
            let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
            serve_stream(stdin, stdout, endpoint, View::Everything, Principal::local(), scope).await;
        }
    }
    Ok(())
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<(Door, Fixture), String> {
    let mut door = None;
    let mut fixture = Fixture::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stdio" => door = Some(Door::Stdio),
            "--listen" => door = words.next().map(Door::Http),
            "--tcp" => door = words.next().map(Door::Tcp),
            "--unix" => door = words.next().map(|path| Door::Local(path.into())),
            "--era" => {
                fixture = Fixture::speaking(match words.next().as_deref() {
                    Some("legacy") => Eras::Legacy,
                    Some("modern") => Eras::Modern,
                    Some("both") => Eras::Both,
                    _ => return Err(USAGE.to_owned()),
                });
            }
            "--asks-by-era" => fixture = Fixture::asking_by_era(),
            "--skill" => fixture = Fixture::with_skill(&words.next().ok_or_else(|| USAGE.to_owned())?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    door.map(|door| (door, fixture)).ok_or_else(|| USAGE.to_owned())
}

/// To stderr: over stdio, stdout is the transport. A failure to write is ignored.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
