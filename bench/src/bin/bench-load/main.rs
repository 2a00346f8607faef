//! A load client for MCP over Streamable HTTP that checks every answer.
//!
//! Each worker holds one keep-alive connection (and, in the legacy era, one session) and has one
//! request under way. A wrong answer counts as an error, not as a request. Prints one JSON line.

#![expect(clippy::print_stdout, reason = "a command line tool: the report is its output")]

mod args;
mod client;
mod connection;
mod operation;
mod run;
mod sse;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

fn main() -> std::io::Result<ExitCode> {
    let plan = Arc::new(args::Args::parse().plan());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(run::run(plan));
    println!("{}", report.json);
    Ok(if report.succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
