//! `toolyard import`: takes servers over from the configs of other clients. It shows what it would do, keeps
//! the file as it was beside the new one, and does nothing the second time.
//!
//! Secrets stay where they are: a value that looks like one is not copied but replaced by a variable, and a
//! server is off until all its variables are set. Where the user agrees, secrets are moved into the store instead.

mod report;

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use toolyard_clients::{
    self as clients, Client, ImportAction as Action, ImportStep as Step, Origin, SecretUse, plan_import,
};
use toolyard_config::Problem;
use toolyard_config::definition::Written;
use toolyard_secrets::{Secret, Store};

use super::edit::{Draft, Where};
use super::install::needs_yes;
use crate::cli::{Common, one_of};
use crate::failure::{Failure, refused};
use crate::{say, settings};

#[derive(Debug, Args)]
#[command(after_help = "\
Without a client, the files of all clients are read. A value of `env` or `headers` that looks like a secret is not
copied: the config gets ${NAME} instead, and the server is off until that variable is set.
--store-secrets puts such values into the store of `toolyard secret`, and the config refers to them; on a terminal
you are asked whether to do so. --copy-secrets copies them into the config, which only you can read.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ImportArgs {
    /// The client whose servers are imported.
    #[arg(value_parser = client())]
    clients: Vec<Client>,
    /// Import from this file, which may be the config of any supported client.
    #[arg(long, value_name = "FILE", conflicts_with = "clients")]
    from: Option<PathBuf>,
    /// Write without asking.
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be done.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Put secrets into the store of `toolyard secret`; the config refers to them.
    #[arg(long, conflicts_with = "copy_secrets")]
    store_secrets: bool,
    /// Copy secrets into the config as they are.
    #[arg(long)]
    copy_secrets: bool,
    #[command(flatten)]
    place: Where,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn import(common: &Common, args: &ImportArgs) -> Result<(), Failure> {
    let origins = origins(args)?;
    let mut prepared = prepare(common, args, &origins, args.store_secrets)?;
    prepared.print(args, &origins);
    if wants_store(args, report::left_secrets(&prepared.steps)) {
        // The draft locks the file, so it must go before this run makes another.
        drop(prepared);
        prepared = prepare(common, args, &origins, true)?;
        prepared.print(args, &origins);
    }
    let Prepared { draft, steps, remarks } = prepared;
    let count = steps.iter().filter(|step| step.is_new()).count();
    let written = count > 0 && wanted(args, count, &draft)?;
    let backup = if written { write(&draft, &steps)? } else { None };
    if args.json {
        return Ok(say::json(&report::json(&steps, &draft.path, written, backup.as_deref(), &remarks))?);
    }
    report::print_outcome(&origins, &steps, &draft.path, written, backup.as_deref());
    if written && draft.needs_trust(&args.place) {
        say::line(
            "note: toolyard.toml is not used until you trust it\n  help: look at it, then run `toolyard trust`",
        );
    }
    Ok(())
}

/// The prepared change of the config.
struct Prepared {
    draft: Draft,
    steps: Vec<Step>,
    remarks: Vec<Problem>,
}

impl Prepared {
    fn print(&self, args: &ImportArgs, origins: &[Origin]) {
        if !args.json {
            report::print(origins, &self.steps);
            self.remarks.iter().for_each(say::line);
        }
    }
}

/// Whether the user, who has seen what would be imported, moves this many secrets into the store.
fn wants_store(args: &ImportArgs, left: usize) -> bool {
    let is_asked = !(args.yes || args.dry_run || args.json || args.store_secrets || args.copy_secrets);
    is_asked
        && left > 0
        && say::agreed(format_args!("put {left} of their secrets into the store of `toolyard secret`"))
}

fn prepare(
    common: &Common,
    args: &ImportArgs,
    origins: &[Origin],
    stores: bool,
) -> Result<Prepared, Failure> {
    let mut draft = Draft::open(common, &args.place)?;
    let mut remarks = Vec::new();
    let there: Vec<Written> = draft.upstreams().into_iter().chain(draft.apps()).collect();
    let store = if stores { Some(secret_store()?) } else { None };
    let is_taken = |name: &str, value: &str| {
        let there = store.as_ref().map(|store| store.get(name));
        there.is_some_and(|there| !matches!(there, Ok(None)) && !is_value(there, value))
    };
    let secrets = match (stores, args.copy_secrets) {
        (true, _) => SecretUse::Store(&is_taken),
        (false, true) => SecretUse::Copy,
        (false, false) => SecretUse::Leave,
    };
    let mut steps = plan_import(origins, &there, secrets, &mut remarks);
    if args.from.is_some() && remarks.iter().any(Problem::is_error) {
        return Err(Failure::Config(remarks));
    }
    for step in &mut steps {
        take_over(&mut draft, step);
    }
    Ok(Prepared { draft, steps, remarks })
}

fn is_value(stored: Result<Option<Secret>, toolyard_secrets::Error>, value: &str) -> bool {
    stored.is_ok_and(|secret| secret.is_some_and(|secret| secret.expose() == value.as_bytes()))
}

fn secret_store() -> Result<Store, Failure> {
    settings::secrets().ok_or_else(|| {
        let message = "there is no folder for secrets: neither XDG_STATE_HOME nor HOME is set";
        Failure::Usage(message.to_owned())
    })
}

/// An invalid server must not prevent the import of the others.
fn take_over(draft: &mut Draft, step: &mut Step) {
    let Action::Add { id, definition, .. } = &step.action else { return };
    match &definition.url {
        Some(endpoint) if step.is_app => draft.insert_app(id, endpoint),
        _ => draft.insert(id, definition),
    }
    if let Some(problem) = draft.new_problems().into_iter().find(Problem::is_error) {
        if step.is_app {
            draft.remove_app(id);
        } else {
            draft.remove(id);
        }
        let key = problem.key.strip_prefix(&format!("upstreams.{id}.")).unwrap_or_default().to_owned();
        step.action = Action::Skip { why: format!("cannot be taken over: {key}: {}", problem.message) };
    }
}

fn origins(args: &ImportArgs) -> Result<Vec<Origin>, Failure> {
    if let Some(file) = &args.from {
        return Ok(vec![Origin::of_file(file)]);
    }
    let all = clients::origins(&args.clients, &settings::variable);
    let found: Vec<Origin> = all.iter().filter(|origin| origin.path.is_file()).cloned().collect();
    if found.is_empty() {
        let places: Vec<String> =
            all.iter().map(|origin| format!("\n    {}", origin.path.display())).collect();
        let message = "no config of another client was found";
        return Err(refused(
            message,
            format!("name a file with --from FILE; these were looked for:{}", places.concat()),
        ));
    }
    Ok(found)
}

/// Whether to write: `--yes`, or the user confirms. Fails if there is no terminal to ask on.
fn wanted(args: &ImportArgs, count: usize, draft: &Draft) -> Result<bool, Failure> {
    if args.yes || args.dry_run {
        return Ok(args.yes);
    }
    if args.json || !say::can_ask() {
        return Err(needs_yes(&draft.path));
    }
    Ok(say::agreed(format_args!("write {} to {}", report::servers(count), draft.path.display())))
}

/// Secrets first: a config that refers to a secret that could not be stored would not work.
fn write(draft: &Draft, steps: &[Step]) -> Result<Option<PathBuf>, Failure> {
    for step in steps {
        let Action::Add { secrets, .. } = &step.action else { continue };
        for secret in secrets {
            let value = Secret::from(secret.value.clone());
            secret_store()?.set(&secret.name, value).map_err(anyhow::Error::from)?;
        }
    }
    let backup = draft.back_up()?;
    draft.save()?;
    Ok(backup)
}

fn client() -> impl TypedValueParser<Value = Client> {
    one_of(Client::ALL.map(|client| (client.id(), client.alias(), client)).to_vec())
}
