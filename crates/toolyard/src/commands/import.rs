//! `toolyard import`: takes servers over from the configs of other clients. It shows what it would do, keeps
//! the file as it was beside the new one, and does nothing the second time.
//!
//! Secrets stay where they are: a value that looks like one is not copied but replaced by a variable, and a
//! server is off until all its variables are set.

mod report;

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use toolyard_clients::{
    self as clients, Client, ImportAction as Action, ImportStep as Step, Origin, plan_import,
};
use toolyard_config::Problem;
use toolyard_config::definition::Written;

use super::edit::{Draft, Where};
use crate::cli::{Common, one_of};
use crate::failure::{Failure, refused};
use crate::{say, settings};

#[derive(Debug, Args)]
#[command(after_help = "\
Without a client, all of them are looked at. A value of `env` or `headers` that looks like a secret is not
copied: the config gets ${NAME} instead, and the server is off until that variable is set.
--copy-secrets copies such values into the config, which only you can read.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ImportArgs {
    /// Whose servers to take over.
    #[arg(value_parser = client())]
    clients: Vec<Client>,
    /// Take them from this file, whatever client it belongs to.
    #[arg(long, value_name = "FILE", conflicts_with = "clients")]
    from: Option<PathBuf>,
    /// Write without asking.
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be done.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
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
    let mut draft = Draft::open(common, &args.place)?;
    let origins = origins(args)?;
    let mut remarks = Vec::new();
    let there: Vec<Written> = draft.upstreams().into_iter().chain(draft.apps()).collect();
    let mut steps = plan_import(&origins, &there, args.copy_secrets, &mut remarks);
    if args.from.is_some() && remarks.iter().any(Problem::is_error) {
        return Err(Failure::Config(remarks));
    }
    for step in &mut steps {
        take_over(&mut draft, step);
    }
    if !args.json {
        report::print(&origins, &steps);
        remarks.iter().for_each(say::line);
    }
    let count = steps.iter().filter(|step| step.is_new()).count();
    let written = count > 0 && wanted(args, count, &draft);
    let backup = if written { write(&draft)? } else { None };
    if args.json {
        return Ok(say::json(&report::json(&steps, &draft.path, written, backup.as_deref(), &remarks))?);
    }
    report::print_outcome(&steps, &draft.path, written, backup.as_deref());
    if written && draft.needs_trust(&args.place) {
        say::line(
            "note: toolyard.toml counts only once you trust it\n  help: look at it, then run `toolyard trust`",
        );
    }
    Ok(())
}

/// One server that is not right must not keep the others out.
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

fn wanted(args: &ImportArgs, count: usize, draft: &Draft) -> bool {
    let question = format!("write {} to {}", report::servers(count), draft.path.display());
    args.yes || !args.dry_run && !args.json && say::agreed(question)
}

fn write(draft: &Draft) -> Result<Option<PathBuf>, Failure> {
    let backup = draft.back_up()?;
    draft.save()?;
    Ok(backup)
}

fn client() -> impl TypedValueParser<Value = Client> {
    one_of(Client::ALL.map(|client| (client.id(), client.alias(), client)).to_vec())
}
