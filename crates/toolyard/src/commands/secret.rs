//! `toolyard secret`: stores, lists and removes secrets that configs refer to as `${secret:NAME}`, and moves the key that
//! opens them. No command prints a value.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use toolyard_secrets::{Error, KeyPlace, LONGEST_VALUE, Secret, Store};

use crate::failure::{Failure, refused};
use crate::{say, settings, system};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a secret, whose value is read from stdin.
    Set(SetArgs),
    /// List the names of the stored secrets.
    #[command(alias = "ls")]
    List(ListArgs),
    /// Remove a secret.
    #[command(alias = "remove")]
    Rm(RmArgs),
    /// Show where the key of the secrets is, or move it.
    Key(KeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Where to move the key: a file that only you can read, or the keyring of the operating system.
    place: Option<KeyDestination>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeyDestination {
    File,
    Keyring,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name, to be used in a config as `${secret:NAME}`.
    name: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// Its name.
    name: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn secret(command: SecretCommand) -> Result<(), Failure> {
    let Some(store) = settings::secrets() else {
        let message = "there is no folder for secrets: neither XDG_STATE_HOME nor HOME is set";
        return Err(Failure::Usage(message.to_owned()));
    };
    match command {
        SecretCommand::Set(SetArgs { name, json }) => set(&store, &name, json),
        SecretCommand::List(ListArgs { json }) => list(&store, json),
        SecretCommand::Rm(RmArgs { name, json }) => remove(&store, &name, json),
        SecretCommand::Key(KeyArgs { place, json }) => key(&store, place, json),
    }
}

fn set(store: &Store, name: &str, json: bool) -> Result<(), Failure> {
    // A wrong name is reported before the value is typed.
    store.get(name).map_err(failure)?;
    let value = read_value(name)?;
    if value.expose().is_empty() {
        return Err(refused(
            "the value is empty, so nothing was stored",
            format!("pipe it in: printf %s VALUE | toolyard secret set {name}"),
        ));
    }
    store.set(name, value).map_err(failure)?;
    if json {
        return Ok(say::json(&json!({ "name": name, "stored": true }))?);
    }
    say::result(format_args!("stored `{name}`; a config refers to it as ${{secret:{name}}}"));
    Ok(())
}

/// One line from a terminal, which does not show it; all of anything else, without the newline at its end.
fn read_value(name: &str) -> Result<Secret, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        say::line(format_args!("value of `{name}` (not shown):"));
        let mut line = String::new();
        system::without_echo(|| stdin.lock().read_line(&mut line))?;
        return Ok(Secret::from(line.trim_end_matches(['\r', '\n']).to_owned()));
    }
    let mut bytes = Vec::new();
    // More than fits is refused by the store.
    let limit = u64::try_from(LONGEST_VALUE + 2).unwrap_or(u64::MAX);
    stdin.lock().take(limit).read_to_end(&mut bytes)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        bytes.pop_if(|last| *last == b'\r');
    }
    Ok(Secret::new(bytes))
}

fn list(store: &Store, json: bool) -> Result<(), Failure> {
    let names = store.names().map_err(failure)?;
    if json {
        return Ok(say::json(&names)?);
    }
    if names.is_empty() {
        say::line("no secrets are stored; `toolyard secret set NAME` stores one");
    }
    names.iter().for_each(say::result);
    Ok(())
}

fn remove(store: &Store, name: &str, json: bool) -> Result<(), Failure> {
    let was_there = store.remove(name).map_err(failure)?;
    if json {
        return Ok(say::json(&json!({ "name": name, "removed": was_there }))?);
    }
    if !was_there {
        return Err(refused(
            format!("there is no stored secret `{name}`"),
            "`toolyard secret list` shows the names of the stored secrets",
        ));
    }
    say::result(format_args!("removed `{name}`"));
    Ok(())
}

fn key(store: &Store, place: Option<KeyDestination>, json: bool) -> Result<(), Failure> {
    match place {
        Some(KeyDestination::File) => store.move_key(KeyPlace::File).map_err(failure)?,
        Some(KeyDestination::Keyring) => store.move_key(KeyPlace::Keyring).map_err(failure)?,
        None => {}
    }
    let place = match store.key_place() {
        KeyPlace::File => "file",
        KeyPlace::Keyring => "keyring",
    };
    if json {
        return Ok(say::json(&json!({ "key": place }))?);
    }
    say::result(format_args!("the key of the secrets is in the {place}"));
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Name(_) | Error::TooLong => Failure::Usage(error.to_string()),
        error => Failure::Other(error.into()),
    }
}
