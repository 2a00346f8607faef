//! `toolyard audit`: searches, follows, exports and verifies the records of calls. It reads the database itself, so no
//! gateway has to run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;
use toolyard_audit::{AuditError, Follow, Query, Reader, Verified};

use super::live;
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::{say, settings};

/// How often new records are read.
const PAUSE: Duration = Duration::from_millis(250);
/// How many records are shown by default.
const USUAL: usize = 50;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard audit --status error --since 2h
  toolyard audit --tool files:read --json > reads.jsonl
  toolyard audit --follow
  toolyard audit --verify

A section [audit] in the config switches the audit on.")]
pub(crate) struct AuditArgs {
    /// Only tools whose id contains this.
    #[arg(long)]
    tool: Option<String>,
    /// Only this upstream.
    #[arg(long, value_name = "ID")]
    upstream: Option<String>,
    /// Only this principal.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only client programs whose name contains this.
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Only this status; `error` for every failure.
    #[arg(long)]
    status: Option<String>,
    /// Show records since this time: 30m, 2h, 7d or a date.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show records before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show this many records, the newest [default: 50, with --json all].
    #[arg(short = 'n', long, value_name = "NUMBER")]
    limit: Option<usize>,
    /// Print new records as they are written.
    #[arg(short, long, conflicts_with = "verify")]
    follow: bool,
    /// Print one JSON object per line, the oldest first.
    #[arg(long)]
    json: bool,
    /// Check that no record was changed or removed.
    #[arg(long)]
    verify: bool,
}

pub(super) fn audit(common: &Common, args: &AuditArgs) -> Result<(), Failure> {
    let reader = Reader::open(&file(common)?).map_err(unreadable)?;
    if args.verify {
        return verify(&reader, args.json);
    }
    let query = Query {
        tool: args.tool.clone(),
        upstream: args.upstream.clone(),
        principal: args.principal.clone(),
        client: args.client.clone(),
        status: args.status.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        limit: args.limit.or((!args.json).then_some(USUAL)),
        ..Query::default()
    };
    let (mut records, new) = reader.follow(&query).map_err(unreadable)?;
    records.reverse();
    if records.is_empty() && !args.follow && !args.json {
        say::line("no record fits");
    }
    for record in &records {
        print(record, args.json);
    }
    if args.follow {
        follow(new, args.json)?;
    }
    Ok(())
}

fn unreadable(error: AuditError) -> Failure {
    Failure::Other(anyhow!(error))
}

fn file(common: &Common) -> Result<PathBuf, Failure> {
    let (found, _) = settings::look(common);
    let folder = live::folder(common, &found)
        .ok_or_else(|| refused("neither XDG_STATE_HOME nor HOME is set", "use --state-dir"))?;
    Ok(toolyard_audit::path(&folder))
}

fn follow(mut new: Follow<'_>, json: bool) -> Result<(), Failure> {
    loop {
        for record in new.new_records().map_err(unreadable)? {
            print(&record, json);
        }
        if say::is_lost() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

fn print(record: &Value, json: bool) {
    if json {
        say::result(record);
        return;
    }
    let text = |key: &str| record[key].as_str().unwrap_or("-");
    let what = record["tool"].as_str().unwrap_or_else(|| text("method"));
    let why =
        record["error"].as_str().map(str::to_owned).or_else(|| Some(record["code"].as_i64()?.to_string()));
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let took = record["durationMs"].as_f64().map(|took| format!("{took:.1} ms")).unwrap_or_default();
    say::result(format_args!(
        "{}  {}{why}  {took}  {what}  {}",
        text("at"),
        text("status"),
        text("principal")
    ));
}

fn verify(reader: &Reader, json: bool) -> Result<(), Failure> {
    let verified = reader.verify().map_err(unreadable)?;
    let Verified { records, removed, last, broken } = &verified;
    if json {
        let broken = broken.map(|(id, why)| serde_json::json!({ "id": id, "why": why }));
        say::json(
            &serde_json::json!({ "records": records, "removed": removed, "last": last, "broken": broken }),
        )?;
    } else {
        say::result(verified.message());
    }
    if broken.is_some() { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}
