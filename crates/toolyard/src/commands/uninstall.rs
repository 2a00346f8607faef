//! `toolyard uninstall`: removes Toolyard from the config of a client, and nothing else.

use clap::Args;
use toolyard_clients::{Client, ClientFile, Foreign};
use toolyard_config::Problem;

use super::install::{Action, Consent, EntryPlace, NAME, Step, client, hooks, in_folder};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// The client whose config is changed.
    #[arg(value_parser = client())]
    client: Client,
    #[command(flatten)]
    place: EntryPlace,
    /// Remove an entry of that name, whatever it runs.
    #[arg(long)]
    force: bool,
    /// Remove Toolyard's hooks from Claude Code instead of the entry.
    #[arg(long, conflicts_with = "force")]
    hooks: bool,
    #[command(flatten)]
    consent: Consent,
}

pub(super) fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    if args.hooks {
        return hooks::change(args.client, args.place.scope, hooks::What::Remove, &args.consent);
    }
    let name = args.place.name.as_str();
    let file = ClientFile::open_to_change(args.client, args.place.scope)?;
    let there = file.server(name)?;
    let is_foreign = |there: &&Foreign| !there.is_toolyard() && !is_as_installed(there);
    if let Some(there) = there.filter(is_foreign).filter(|_| !args.force) {
        let message = format!("it is not Toolyard: it {}", there.definition.what());
        let help = "name the right entry with --name, or remove this one with --force";
        let problem = Problem { place: Some(there.place.clone()), ..Problem::error(name, message, help) };
        return Err(Failure::Refused(problem));
    }
    let action = if there.is_some() { Action::Remove } else { Action::Nothing };
    let how = there.map_or_else(
        || "not installed".to_owned(),
        |there| if there.is_toolyard() { there.definition.how() } else { there.definition.what() },
    );
    let other = |other: &Foreign| format!("{} is Toolyard; --name {} takes it out", other.name, other.name);
    let notes = if there.is_none() {
        file.toolyards().map(other).chain(file.in_folders.iter().map(in_folder)).collect()
    } else {
        Vec::new()
    };
    let step = Step { file: &file, name, action, how, notes };
    args.consent.carry_out(&step, None, || file.without(name))
}

/// An entry under our name, with arguments as `install` writes them, whatever its `--command` was.
fn is_as_installed(there: &Foreign) -> bool {
    let args = &there.definition.args;
    there.name == NAME
        && there.definition.command.is_some()
        && args.first().is_some_and(|word| word == "stdio")
}
