//! `toolyard service`: the gateway as a service of this user, which systemd or launchd starts at login and again after
//! a failure.
//!
//! Service managers start programs with a short PATH, on which `npx`, `uvx` and the like are often missing. The
//! service therefore keeps the PATH of the shell that installs it.

mod definition;
mod manager;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::manage;
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::{say, settings};
use definition::{MARK, Service};
use manager::Manager;

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install the service and start it. It keeps the PATH of this shell.
    Install(InstallArgs),
    /// Show whether the service is installed and runs.
    Status(StatusArgs),
    /// Stop the service and remove it.
    Uninstall(PlaceArgs),
}

/// Which service is meant.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The name of the service, to have one for each of several configs.
    #[arg(long, default_value = "toolyard", value_parser = name)]
    name: String,
    /// Which service manager [default: the one of this system].
    #[arg(long = "for", value_enum, value_name = "MANAGER")]
    manager: Option<Kind>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The service runs `toolyard serve` with the config that is used in this folder. Variables that the config refers to are
not copied into the service: store secrets with `toolyard secret set`, or name an env_file in the config.")]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Only print the file that would be written.
    #[arg(long)]
    print: bool,
    /// Write the file, but do not start the service.
    #[arg(long, conflicts_with = "print")]
    no_start: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print the status as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Systemd,
    Launchd,
}

pub(super) fn service(common: &Common, command: &ServiceCommand) -> Result<(), Failure> {
    match command {
        ServiceCommand::Install(args) => install(common, args),
        ServiceCommand::Status(args) => status(common, args),
        ServiceCommand::Uninstall(args) => uninstall(args),
    }
}

fn install(common: &Common, args: &InstallArgs) -> Result<(), Failure> {
    let manager = manager(&args.place)?;
    let service = Service::here(common, &args.place.name)?;
    let text = manager.text(&service);
    if args.print {
        say::raw(text.as_bytes());
        return Ok(());
    }
    // What would keep the service from starting is reported here, where the user can read it.
    settings::read(common)?;
    let (path, before) = own_file(&manager)?;
    manager.check(&text)?;
    if before.as_deref() != Some(text.as_str()) {
        write(&path, &text)?;
    }
    say::result(format_args!("installed {}", path.display()));
    if args.no_start {
        say::line(format_args!("start it with: {}", manager.start_line()));
        return Ok(());
    }
    manager.start(before.is_some())?;
    say::result(format_args!("{} is started, and starts at login", args.place.name));
    Ok(())
}

fn status(common: &Common, args: &StatusArgs) -> Result<(), Failure> {
    let manager = manager(&args.place)?;
    let path = manager.file()?;
    let text = std::fs::read_to_string(&path).ok();
    let state = if text.is_some() { manager.state() } else { "not installed".to_owned() };
    let missing = text.as_deref().map(missing_folders).unwrap_or_default();
    let address = manage::running(common).ok().map(|running| running.http);
    if args.json {
        let json = json!({
            "name": args.place.name, "file": path, "installed": text.is_some(), "state": state,
            "gateway": address, "missingFromPath": missing,
        });
        say::json(&json)?;
    } else {
        say::result(format_args!("{}: {state}", args.place.name));
        if text.is_some() {
            say::result(format_args!("  file: {}", path.display()));
        }
        if let Some(address) = address {
            say::result(format_args!("  gateway with this config: {address}"));
        }
        if !missing.is_empty() {
            say::line(format_args!(
                "warning: folders of your PATH that the service does not have: {}\n  help: `toolyard service install` updates it",
                missing.join(":")
            ));
        }
    }
    if text.is_some() { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
}

fn uninstall(args: &PlaceArgs) -> Result<(), Failure> {
    let manager = manager(args)?;
    let (path, before) = own_file(&manager)?;
    if before.is_none() {
        return Err(refused(
            format!("{} is not installed", args.name),
            format!("no file {}", path.display()),
        ));
    }
    manager.stop();
    std::fs::remove_file(&path).map_err(|error| anyhow::anyhow!("remove {}: {error}", path.display()))?;
    manager.forget();
    say::result(format_args!("removed {}", path.display()));
    Ok(())
}

fn manager(place: &PlaceArgs) -> Result<Manager, Failure> {
    let here = if cfg!(target_os = "macos") { Kind::Launchd } else { Kind::Systemd };
    let kind = place.manager.unwrap_or(here);
    if cfg!(windows) && place.manager.is_none() {
        let help = "create a task with the Task Scheduler that runs `toolyard serve` at log on";
        return Err(refused("services of Windows are not supported", help));
    }
    Ok(Manager { kind, name: place.name.clone() })
}

/// The path of the service's definition and its content. A file that is not ours is not touched.
fn own_file(manager: &Manager) -> Result<(PathBuf, Option<String>), Failure> {
    let path = manager.file()?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((path, None)),
        Err(error) => return Err(anyhow::anyhow!("read {}: {error}", path.display()).into()),
    };
    if !text.contains(MARK) {
        let message = format!("{} was not written by `toolyard service install`", path.display());
        return Err(refused(message, "choose another name with --name, or move the file"));
    }
    Ok((path, Some(text)))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| toolyard_config::state_dir::replace(path, text.as_bytes()));
    written.map_err(|error| anyhow::anyhow!("write {}: {error}", path.display()).into())
}

/// Folders of this shell's PATH that the service was installed without.
fn missing_folders(text: &str) -> Vec<String> {
    let path = settings::variable("PATH").unwrap_or_default();
    let is_missing = |folder: &&str| !folder.is_empty() && !text.contains(*folder);
    path.split(':').filter(is_missing).map(str::to_owned).collect()
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain);
    is_name.then(|| text.to_owned()).ok_or_else(|| "use letters, digits, `-` and `_`".to_owned())
}
