//! The command line of the measuring upstream.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};

use clap::{Parser, ValueEnum};

/// A fast MCP server with the tools echo, add, sleep, blob and progress.
#[derive(Parser)]
pub(crate) struct Args {
    /// Serve Streamable HTTP at `http://ADDR/mcp`; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:0", conflicts_with = "stdio")]
    pub(crate) listen: SocketAddr,
    /// Serve newline-delimited JSON-RPC on stdin and stdout instead.
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Add so many tools with schemas of about 1 KB.
    #[arg(long, default_value_t = 0)]
    pub(crate) tools: usize,
    /// Answer `tools/list` in pages of so many tools.
    #[arg(long)]
    pub(crate) page_size: Option<NonZeroUsize>,
    /// Answer every HTTP request as an event stream rather than as JSON.
    #[arg(long)]
    pub(crate) sse: bool,
    /// On stdio: change the list of tools and announce it every so many milliseconds.
    #[arg(long, requires = "stdio")]
    pub(crate) churn_ms: Option<NonZeroU64>,
    /// Which eras to speak.
    #[arg(long, value_enum, default_value_t = Eras::Both)]
    pub(crate) era: Eras,
    /// Worker threads; one per core if not given.
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Both,
}
