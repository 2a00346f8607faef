//! The command line of the load client, and the plan that comes of it.

use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use toolyard_bench::wire;

use crate::operation::{Kind, Operation};

/// Sends MCP requests over HTTP, checks every answer and prints one JSON line.
#[derive(Parser)]
pub(crate) struct Args {
    /// The endpoint, e.g. `http://127.0.0.1:9000/mcp`.
    #[arg(long)]
    url: Endpoint,
    /// What to ask for.
    #[arg(long, value_enum, default_value_t = Kind::Echo)]
    op: Kind,
    /// The tool's name as the endpoint shows it; the operation's name if not given.
    #[arg(long)]
    tool: Option<String>,
    /// echo: bytes of text; blob: KiB; sleep: ms; progress: notifications; list: tools at least.
    #[arg(long)]
    size: Option<usize>,
    #[arg(long, value_enum, default_value_t = Era::Modern)]
    era: Era,
    /// The revision to ask for in the legacy era.
    #[arg(long, default_value = wire::LEGACY[0])]
    revision: String,
    /// Workers, one connection each.
    #[arg(short, long, default_value = "1")]
    concurrency: NonZeroUsize,
    /// Seconds to measure.
    #[arg(short, long, default_value = "5", value_parser = seconds)]
    duration: Duration,
    /// Stop after so many requests; `--duration` is then only a bound.
    #[arg(short = 'n', long)]
    requests: Option<NonZeroU64>,
    /// Seconds before measuring begins.
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    warmup: Duration,
    /// Seconds that one request may take.
    #[arg(long, default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Instead: repeat until the operation succeeds once, for so many seconds at most, and print how long it took.
    #[arg(long, value_parser = seconds)]
    ready: Option<Duration>,
    /// Copied into the output.
    #[arg(long, default_value = "")]
    label: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// Host with port, and path, of a plain HTTP URL.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) authority: String,
    pub(crate) path: String,
}

/// What to do, as parsed.
pub(crate) struct Plan {
    pub(crate) endpoint: Endpoint,
    pub(crate) operation: Operation,
    pub(crate) era: Era,
    pub(crate) revision: String,
    pub(crate) workers: usize,
    pub(crate) duration: Duration,
    pub(crate) requests: Option<NonZeroU64>,
    pub(crate) warmup: Duration,
    pub(crate) timeout: Duration,
    pub(crate) ready: Option<Duration>,
    pub(crate) label: String,
}

impl Args {
    pub(crate) fn plan(self) -> Plan {
        Plan {
            endpoint: self.url,
            operation: Operation::new(self.op, self.tool, self.size),
            era: self.era,
            revision: self.revision,
            workers: self.concurrency.get(),
            duration: self.duration,
            requests: self.requests,
            warmup: self.warmup,
            timeout: self.timeout,
            ready: self.ready,
            label: self.label,
        }
    }
}

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let rest = url.strip_prefix("http://").ok_or("only http:// URLs are spoken here")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}") })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
