//! `toolyard install`: adds Toolyard to the config of a client, so that users need not edit JSON by hand. It shows what
//! it would do, keeps a backup of the file, and changes nothing the second time.

mod entry;
pub(super) mod hooks;
mod report;
mod list;
mod notes;

use std::path::Path;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use serde_json::Value;
use toolyard_clients::{Client, ClientError, ClientFile, Entry, Foreign, Scope};
use toolyard_config::{self as config, Problem, Role, nearest};

use crate::cli::{Common, StdioArgs, one_of};
use crate::failure::{Failure, refused};
use crate::{packs, say, settings};

pub(super) use entry::own_program;
pub(super) use notes::in_folder;
pub(super) use report::{Action, Outcome, Step};

/// Clients that Toolyard can be added to.
const CLIENTS: [Client; 14] = [
    Client::ClaudeCode,
    Client::ClaudeDesktop,
    Client::Cursor,
    Client::Vscode,
    Client::Codex,
    Client::Zed,
    Client::Windsurf,
    Client::GeminiCli,
    Client::Opencode,
    Client::Cline,
    Client::Continue,
    Client::Junie,
    Client::Amp,
    Client::Goose,
];

/// The default name of an entry.
pub(super) const NAME: &str = "toolyard";

#[derive(Debug, Args)]
#[command(after_help = "\
Without a client, lists the clients on this machine. --config, --state-dir, --profile, --upstream, --hub and
--lean are written into the entry. A new file of your own is readable by you only; in an existing file everything
else is preserved byte for byte, and the previous file is kept with the suffix .bak.")]
pub(crate) struct InstallArgs {
    /// The client whose config is changed.
    #[arg(value_parser = client())]
    client: Option<Client>,
    #[command(flatten)]
    place: EntryPlace,
    #[command(flatten)]
    view: StdioArgs,
    /// The command that the client runs [default: the path of this program].
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    command: Option<String>,
    /// Replace another entry of that name.
    #[arg(long, requires = "client")]
    force: bool,
    #[command(flatten)]
    consent: Consent,
    /// Instead of the entry, add Toolyard's hooks to Claude Code; `uninstall --hooks` removes them.
    #[arg(long, requires = "client", conflicts_with_all = ["print", "force"])]
    hooks: bool,
    /// Only print the entry, to paste it; without a client, in the form that most clients use.
    #[arg(long, conflicts_with_all = ["force", "yes", "dry_run", "json"])]
    print: bool,
}

/// Which entry of which config is meant.
#[derive(Debug, Args)]
pub(super) struct EntryPlace {
    /// The name of the entry.
    #[arg(long, default_value = NAME, value_parser = name)]
    pub(super) name: String,
    /// Your own config, or that of the project in this folder.
    #[arg(long, value_parser = scope(), default_value = "user", requires = "client")]
    pub(super) scope: Scope,
}

/// Whether the change is made, and how it is reported.
#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Write without asking.
    #[arg(short, long, requires = "client")]
    yes: bool,
    /// Only show what would be done.
    #[arg(long, conflicts_with = "yes", requires = "client")]
    dry_run: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn install(common: &Common, args: &InstallArgs) -> Result<(), Failure> {
    if args.client.is_none() && !args.print {
        args.check_that_it_is_about_no_entry()?;
        return list::list(args.consent.json);
    }
    if let Some(client) = args.client.filter(|_| args.hooks) {
        let own = match &args.command {
            Some(command) => command.clone(),
            None => entry::own_program()?,
        };
        return hooks::change(client, args.place.scope, hooks::What::Install(&own), &args.consent);
    }
    check_files(common, args)?;
    let entry = entry::entry(args, common)?;
    let Some(client) = args.client.filter(|_| !args.print) else {
        print(args, &entry);
        return Ok(());
    };
    let name = args.place.name.as_str();
    let file = ClientFile::open_to_change(client, args.place.scope)?;
    let there = file.server(name)?;
    let action = decide(&entry, there, name, args.force)?;
    let how = match (action, there) {
        (Action::Nothing, Some(there)) => format!("already installed: {}", there.definition.how()),
        _ => entry.definition().how(),
    };
    let step = Step { file: &file, name, action, how, notes: notes::notes(&file, name, action, &entry) };
    let value = entry.value_named(name);
    args.consent.carry_out(&step, Some(&value), || file.with(name, &entry))
}

fn decide(entry: &Entry, there: Option<&Foreign>, name: &str, force: bool) -> Result<Action, Failure> {
    let Some(there) = there else { return Ok(Action::Add) };
    if entry.is(there) {
        return Ok(Action::Nothing);
    }
    if force {
        return Ok(Action::Replace);
    }
    // An entry that runs this program by another name is left as it is.
    if entry.is_in_other_words(there) {
        return Ok(Action::Nothing);
    }
    let message = if let Some(doubt) = there.doubt.filter(|_| there.is_toolyard()) {
        format!("it is already Toolyard, but {doubt}")
    } else if there.is_toolyard() {
        format!("it is already Toolyard, but runs as {}", there.definition.how())
    } else {
        format!("another one is there: it {}", there.definition.what())
    };
    let help = "--force replaces it, --name puts Toolyard under another name";
    let place = Some(there.place.clone());
    Err(Failure::Refused(Problem { place, ..Problem::error(name, message, help) }))
}

impl InstallArgs {
    /// Rejects options that would be ignored.
    fn check_that_it_is_about_no_entry(&self) -> Result<(), Failure> {
        let StdioArgs { profile, upstream, hub, lean, .. } = &self.view;
        let is_given = self.place.name != NAME || self.command.is_some() || *hub || *lean;
        if is_given || profile.is_some() || upstream.is_some() {
            let message = "no client is named, so there is no entry to write";
            return Err(refused(message, "name a client, or print the entry with --print"));
        }
        Ok(())
    }
}

impl Consent {
    /// Whether to write this file: `--yes`, or the user confirms. Fails if there is no terminal to ask on.
    fn agrees(&self, path: &Path) -> Result<bool, Failure> {
        if self.yes || self.dry_run {
            return Ok(self.yes);
        }
        if self.json || !say::can_ask() {
            return Err(needs_yes(path));
        }
        Ok(say::agreed(format_args!("write {}", path.display())))
    }

    /// Shows what would be done, asks, does it, and reports what was done.
    pub(super) fn carry_out(
        &self,
        step: &Step<'_>,
        entry: Option<&Value>,
        after: impl FnOnce() -> Result<String, ClientError>,
    ) -> Result<(), Failure> {
        let after = if step.action == Action::Nothing { None } else { Some(after()?) };
        if !self.json {
            step.print();
        }
        let is_wanted = after.is_some() && self.agrees(&step.file.path)?;
        let after = after.filter(|_| is_wanted);
        let backup = after.as_deref().map(|after| step.file.save(after)).transpose()?.flatten();
        let outcome = Outcome { is_written: after.is_some(), backup: backup.as_deref() };
        if self.json {
            return Ok(say::json(&step.json(entry, &outcome))?);
        }
        step.print_outcome(&outcome);
        Ok(())
    }
}

/// A command that writes was given neither `--yes` nor a terminal to ask on.
pub(super) fn needs_yes(path: &Path) -> Failure {
    let message = format!("{} was not written: there is no terminal to ask on", path.display());
    refused(message, "write it with --yes, or only show what would be done with --dry-run")
}

/// The content of the entry, for `--print` and for writing.
fn print(args: &InstallArgs, entry: &Entry) {
    let client = args.client.unwrap_or(Client::ClaudeDesktop);
    say::raw(entry.file(client, &args.place.name).as_bytes());
}

/// The config file and the profile of the entry must exist.
fn check_files(common: &Common, args: &InstallArgs) -> Result<(), Failure> {
    if let Some(file) = common.config.as_ref().filter(|file| !file.is_file()) {
        let message = format!("there is no file {}", file.display());
        return Err(refused(message, "--config is written into the entry, so name a file that exists"));
    }
    let Some(name) = &args.view.profile else { return Ok(()) };
    let folder = std::env::current_dir().unwrap_or_default();
    let mut sources = config::find(common.config.as_deref(), &folder, &settings::variable).sources;
    // The user's client is started elsewhere, where this project file is not used.
    sources.retain(|source| args.place.scope == Scope::Project || source.role == Role::Own);
    let Some(config) = config::load(&sources, &settings::context(&packs::known())).config else {
        return Ok(());
    };
    let names: Vec<&str> = config.profiles.iter().map(|profile| profile.name.as_str()).collect();
    if names.contains(&name.as_str()) {
        return Ok(());
    }
    let help = match (nearest(name, names.iter().copied()), &names[..]) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => format!("add a section [profiles.{name}] to your config"),
        (None, names) => format!("there are: {}", names.join(", ")),
    };
    Err(refused(format!("there is no profile `{name}`"), help))
}

pub(super) fn client() -> impl TypedValueParser<Value = Client> {
    one_of(CLIENTS.map(|client| (client.id(), client.alias(), client)).to_vec())
}

fn scope() -> impl TypedValueParser<Value = Scope> {
    one_of(vec![("user", None, Scope::User), ("project", None, Scope::Project)])
}

/// Names that all clients accept.
fn name(text: &str) -> Result<String, String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !text.is_empty() && text.chars().all(is_legal) {
        Ok(text.to_owned())
    } else {
        Err("expected letters, digits, `_` and `-`, which every client takes".to_owned())
    }
}
