//! The scripted server as a program on stdio: `script REVISION`.

use std::process::ExitCode;

use toolyard_model::Scope;
use toolyard_proto::Revision;
use toolyard_testkit::script::{Server, serve_lines};

#[tokio::main]
async fn main() -> ExitCode {
    let revision = std::env::args().nth(1).and_then(|revision| Revision::parse(&revision));
    let Some(revision) = revision else { return ExitCode::FAILURE };
    let scope = Scope::new();
    let server = Server::new(revision, &scope);
    serve_lines(server, tokio::io::stdin(), tokio::io::stdout(), &scope).await;
    ExitCode::SUCCESS
}
