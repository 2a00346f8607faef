//! What a cached token of an issuer costs per request, in instructions.
//!
//! The example `cached_token` of `toolyard-oauth` admits requests in a loop. It is counted with few and with many
//! requests; the difference is free of what the program does before and after the loop.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::callgrind::total;
use crate::process::{output, run};
use crate::{tools, workspace};

const FEW: u64 = 1_000;
const MANY: u64 = 11_000;
/// What a token that its connection has presented before may cost.
const MOST: u64 = 300;

pub(super) fn count(logs: &Path, as_json: bool) -> Result<()> {
    tools::debian("valgrind")?;
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "toolyard-oauth", "--example", "cached_token"]);
    run(&mut cargo)?;
    let program = workspace::target_directory()?.join("release/examples/cached_token");
    let per_request = |case: &str| -> Result<u64> {
        let all = |count| instructions(&program, case, count, logs);
        Ok((all(MANY)?.saturating_sub(all(FEW)?)) / (MANY - FEW))
    };
    let (open, same, other) = (per_request("open")?, per_request("connection")?, per_request("table")?);
    let costs = same.saturating_sub(open);
    if as_json {
        println!("{}", json!({ "open": open, "same_connection": same, "other_connection": other }));
    } else {
        println!("\ninstructions to admit a request");
        println!("  no token required                  {open:>8}");
        println!("  token of the same connection       {same:>8}  ({costs} more)");
        println!("  token known from other connections {other:>8}  ({} more)", other.saturating_sub(open));
    }
    ensure!(
        costs <= MOST,
        "a cached token costs {costs} instructions per request; at most {MOST} are allowed"
    );
    Ok(())
}

fn instructions(program: &Path, case: &str, count: u64, logs: &Path) -> Result<u64> {
    let profile = logs.join(format!("callgrind.token-{case}"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--cache-sim=no", "--quiet"]);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    output(valgrind.arg(program).arg(case).arg(count.to_string())).context("run `cached_token`")?;
    total(&profile)
}
