//! `toolyard lock`: writes what the servers of a config offer to the lock file beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toolyard_config::definition::written;
use toolyard_config::lock_path;
use toolyard_policy::pin::{LockFile, Tools, differences};

use super::tools::with_client;
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Lock only these servers, and keep the entries of others.
    names: Vec<String>,
    /// Write nothing; fail if a lock file differs from what servers offer.
    #[arg(long)]
    check: bool,
}

pub(super) fn lock(common: &Common, args: &LockArgs) -> Result<(), Failure> {
    let (offered, files) = with_client(common, None, async |client, settings| {
        client.settled().await?;
        let mut answer = client.control("/definitions", None).await?;
        let offered: BTreeMap<String, Tools> =
            serde_json::from_value(answer["upstreams"].take()).map_err(anyhow::Error::from)?;
        let mut files: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
        for upstream in written(&settings.found.sources) {
            if !upstream.definition.is_off {
                files.entry(upstream.file.clone()).or_default().push(upstream.id);
            }
        }
        Ok((offered, files))
    })?;
    let known: Vec<&String> = files.values().flatten().collect();
    if let Some(unknown) = args.names.iter().find(|name| !known.contains(name)) {
        return Err(refused(
            format!("there is no server `{unknown}` in the config"),
            "`toolyard list` shows them",
        ));
    }
    let mut differs = false;
    for (file, ids) in &files {
        let wanted = |id: &&String| args.names.is_empty() || args.names.contains(id);
        let ids: Vec<&String> = ids.iter().filter(wanted).collect();
        differs |= lock_file(&lock_path(file), &ids, &offered, args.check)?;
    }
    if !args.check {
        // The gateway reads lock files together with the config.
        let reloaded = with_client(common, None, async |client, _| {
            if client.is_own() { Ok(Value::Null) } else { client.control("/reload", Some(&json!({}))).await }
        });
        return reloaded.map(drop);
    }
    if differs { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}

/// Brings one lock file up to date, or only compares it. Returns whether it was different.
fn lock_file(
    path: &std::path::Path,
    ids: &[&String],
    offered: &BTreeMap<String, Tools>,
    is_check: bool,
) -> Result<bool, Failure> {
    if ids.is_empty() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(path).ok();
    // A lock file that cannot be read is replaced; all of its servers must then be there.
    let before = text.as_deref().and_then(|text| LockFile::parse(text).ok()).unwrap_or_default();
    let mut upstreams = before.upstreams.clone();
    for id in ids {
        let Some(tools) = offered.get(*id) else {
            let help = "`toolyard list` shows why; fix it, or lock the others by name";
            return Err(refused(format!("server `{id}` has not reported its tools"), help));
        };
        report(id, before.upstreams.get(*id), tools);
        upstreams.insert((*id).clone(), tools.clone());
    }
    let is_different = upstreams != before.upstreams;
    if !is_check && (is_different || text.is_none()) {
        std::fs::write(path, LockFile::new(upstreams).render())?;
        say::result(format_args!("wrote {}", path.display()));
    }
    Ok(is_different)
}

/// Tools that the lock file does not have yet.
fn report(id: &str, before: Option<&Tools>, tools: &Tools) {
    let none = Tools::new();
    let before = before.unwrap_or(&none);
    for (name, definition) in tools {
        match before.get(name) {
            None => say::result(format_args!("{id}:{name}  added")),
            Some(old) => {
                let places = differences(old, definition);
                if !places.is_empty() {
                    say::result(format_args!("{id}:{name}  changed"));
                }
                for one in places {
                    say::result(format_args!("    {}: {}", one.place, one.change));
                }
            }
        }
    }
    for name in before.keys().filter(|name| !tools.contains_key(*name)) {
        say::result(format_args!("{id}:{name}  removed"));
    }
}
