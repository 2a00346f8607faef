//! `toolyard logs`: what servers wrote to stderr, their calls and changes of state, from the control API of the running
//! gateway.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::Value;
use toolyard_config::parse_duration;
use toolyard_config::state_dir::Running;
use toolyard_proto::calendar;

use super::live;
use super::manage::{self, Address};
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::say;
use crate::stop::Stop;

/// How often new entries are looked for.
const PAUSE: Duration = Duration::from_millis(250);
const A_DAY: Duration = Duration::from_hours(24);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard logs github
  toolyard logs -f
  toolyard logs files --since 10m --json

The gateway keeps the last 1,000 lines of each server and the last 256 calls. `[audit]` in the config records
every call: see `toolyard audit`.")]
pub(crate) struct LogsArgs {
    /// Show only this server [default: all].
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: Option<String>,
    /// Print new entries as they arrive, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Show entries since this time: 30s, 10m, 2h, 1d, or a time such as 2026-07-28T09:00 (UTC).
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<String>,
    /// Print only this many of the newest entries.
    #[arg(short = 'n', long, value_name = "NUMBER")]
    lines: Option<usize>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn logs(common: &Common, args: &LogsArgs) -> Result<(), Failure> {
    let running = manage::running(common)?;
    live::block_on(async {
        let mut stop = Stop::new()?;
        tokio::select! {
            done = read(&running, args) => done,
            _ = stop.signal() => Ok(()),
        }
    })?
}

async fn read(running: &Running, args: &LogsArgs) -> Result<(), Failure> {
    let address = Address::Socket(running.socket.as_deref().ok_or_else(manage::no_socket)?);
    let mut after = None;
    let mut since = args.since.clone();
    let mut most = args.lines;
    loop {
        let path = path(args.name.as_deref(), since.take().as_deref(), after.as_deref());
        let answer = manage::control(&address, &path, None).await;
        let answer = match answer {
            Err(_) if after.is_some() && !live::answers(&running.http) => {
                return Err(refused("the gateway has stopped", "`toolyard` starts one"));
            }
            answer => answer?,
        };
        let entries = answer["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let skipped = most.take().map_or(0, |most| entries.len().saturating_sub(most));
        for entry in entries.iter().skip(skipped) {
            say::result(if args.json { entry.to_string() } else { line(entry) });
        }
        if !args.follow || say::is_lost() {
            return Ok(());
        }
        after = answer["next"].as_str().map(str::to_owned);
        tokio::time::sleep(PAUSE).await;
    }
}

fn path(name: Option<&str>, since: Option<&str>, after: Option<&str>) -> String {
    let parameters = [("upstream", name), ("since", since), ("after", after)];
    let given = parameters.iter().filter_map(|(key, value)| Some(format!("{key}={}", encoded((*value)?))));
    format!("/logs?{}", given.collect::<Vec<_>>().join("&"))
}

/// Encodes a text for the query of a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn line(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or("-");
    let what = match text("kind") {
        "stderr" => text("text").to_owned(),
        "lost" => "(lines were lost: it writes faster than they are read)".to_owned(),
        "state" => {
            let reason = entry["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{} → {}{reason}", text("from"), text("to"))
        }
        _ => call(entry),
    };
    // What servers write must not look like another entry.
    let what = toolyard_proto::visible::line(&what).into_owned();
    format!("{}  {}  {}  {what}", text("at"), text("upstream"), text("kind"))
}

fn call(entry: &Value) -> String {
    let name = entry["tool"].as_str().or(entry["method"].as_str()).unwrap_or("-");
    let why =
        entry["error"].as_str().map(str::to_owned).or_else(|| Some(entry["code"].as_i64()?.to_string()));
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let took = entry["durationMs"].as_f64().map(|took| format!(", {took:.1} ms")).unwrap_or_default();
    format!("{name}: {}{why}{took}", entry["status"].as_str().unwrap_or("-"))
}

/// The given moment, in the form of the entries' own. They are compared as text, so a prefix such as a day is
/// enough.
fn since(text: &str) -> Result<String, String> {
    let wrong = || "expected a time such as 30s, 10m, 2h, 1d or 2026-07-28T09:00 (UTC)".to_owned();
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    if let Some(ago) = days.map(|days| A_DAY * days).or_else(|| parse_duration(text)) {
        let then = SystemTime::now().checked_sub(ago).ok_or_else(wrong)?;
        return Ok(calendar::rfc3339(then.duration_since(UNIX_EPOCH).unwrap_or_default()));
    }
    let is_start = |pattern: &str| {
        let fits =
            |(wanted, byte): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { wanted == byte };
        text.len() == pattern.len() && pattern.bytes().zip(text.bytes()).all(fits)
    };
    let forms = ["0000-00-00", "0000-00-00T00:00", "0000-00-00T00:00:00", "0000-00-00T00:00:00Z"];
    forms.into_iter().any(is_start).then(|| text.trim_end_matches('Z').to_owned()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moment_is_a_time_ago_or_a_date() {
        for right in
            ["30s", "10m", "2h", "1d", "90", "2026-07-28", "2026-07-28T09:00", "2026-07-28T09:00:00Z"]
        {
            assert!(since(right).is_ok(), "{right}");
        }
        for wrong in ["", "soon", "-1s", "2026-7-28", "2026-07-28T09:00:00+02:00"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_is_one_line_whatever_the_server_wrote() {
        let entry = json!({ "at": "T", "upstream": "fix", "kind": "stderr", "text": "a\nb\u{1b}[2J" });
        assert_eq!(line(&entry), "T  fix  stderr  a\\nb\\u{1b}[2J");
        let entry = json!({ "at": "T", "upstream": "fix", "kind": "call", "tool": "fix:echo", "status": "ok", "durationMs": 1.25 });
        assert_eq!(line(&entry), "T  fix  call  fix:echo: ok, 1.2 ms");
    }
}
