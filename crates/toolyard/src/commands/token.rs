//! `toolyard token`: makes a token for one connection, or a new secret.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use data_encoding::BASE64;

use crate::cli::Common;
use crate::failure::Failure;
use crate::say;
use crate::settings;

const USUAL_CLIENT: &str = "toolyard-cli";

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The client id in the token, by which the gateway knows the client.
    #[arg(long, value_name = "ID", default_value = USUAL_CLIENT)]
    client: String,
    /// Make a secret for [auth] instead.
    #[arg(long)]
    new_secret: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn token(common: &Common, args: &TokenArgs) -> Result<(), Failure> {
    if args.new_secret {
        return show("secret", &new_secret()?, args.json);
    }
    let settings = settings::read(common)?;
    let Some(secret) = settings.config.auth.as_ref().and_then(|rules| rules.secrets.first()) else {
        let message = "there is no `secret` in [auth] to make a token from: make one with `toolyard token --new-secret` and write it as `secret` in [auth]";
        return Err(Failure::Usage(message.to_owned()));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    show("token", &secret.mint(&args.client, now), args.json)
}

fn new_secret() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(BASE64.encode(&bytes))
}

fn show(key: &str, value: &str, json: bool) -> Result<(), Failure> {
    if json {
        return Ok(say::json(&serde_json::json!({ key: value }))?);
    }
    say::result(value);
    Ok(())
}
