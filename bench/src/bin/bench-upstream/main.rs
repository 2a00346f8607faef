//! A fast MCP server to measure gateways with.
//!
//! Hand-made on purpose: no SDK, no schema work per call; `tools/list` and `blob` are built once.
//! Both eras are spoken on one endpoint, over HTTP and over stdio.

#![expect(clippy::print_stderr, reason = "a command line tool: it prints where it listens")]

mod args;
mod http;
mod message;
mod server;
mod stdio;
mod tools;

use std::sync::Arc;

use clap::Parser;

fn main() -> std::io::Result<()> {
    let args = args::Args::parse();
    let server = Arc::new(server::Server::new(&args));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(threads.get());
    }
    let runtime = runtime.enable_all().build()?;
    let ended = if args.stdio {
        runtime.block_on(stdio::serve(server, args.churn_ms))
    } else {
        runtime.block_on(http::serve(server, args.listen, args.sse))
    };
    // The thread that reads stdin cannot be joined, so it is left behind.
    runtime.shutdown_background();
    ended
}
