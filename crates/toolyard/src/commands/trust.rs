//! `toolyard trust`: trusts a project's `toolyard.toml` in its current form, or lets packs run programs of a project.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolyard_config::definition::{in_file, packs_in_file};
use toolyard_config::{PROJECT_FILE, Problem, ProblemKind, TrustState, Trusted, check, project, read_file};

use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::{packs, say, settings};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The file, or the folder of a project whose programs packs may run [default: toolyard.toml in this folder].
    #[arg(value_name = "PATH")]
    file: Option<PathBuf>,
    /// Remove the trust.
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// Show which files and projects are trusted.
    #[arg(long, conflicts_with = "file")]
    list: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn trust(_: &Common, args: &TrustArgs) -> Result<(), Failure> {
    let trusted = Trusted::read(&settings::variable);
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from(PROJECT_FILE));
    match (args.list, args.revoke) {
        (true, _) => print_list(&trusted, args.json),
        (_, true) => revoke(trusted, &file, args.json),
        _ if file.is_dir() => agree_to_project(trusted, &file, args.json),
        _ => agree(trusted, &file, args.json),
    }
}

fn agree(mut trusted: Trusted, path: &Path, json: bool) -> Result<(), Failure> {
    let file = read_file(path).map_err(Failure::Refused)?;
    if path.file_name().is_none_or(|name| name != PROJECT_FILE) {
        let message =
            format!("{} is not a {PROJECT_FILE}, and only such files are looked for", path.display());
        return Err(refused(message, format!("use it with --config {}", path.display())));
    }
    let (source, below) = project(path, &settings::variable);
    let problems: Vec<Problem> =
        check(&source, file.text.clone(), &below, &settings::context(&packs::known()));
    if problems.iter().any(|problem| problem.is_error() && !problem.is(&ProblemKind::UnsetVariable)) {
        return Err(Failure::Config(problems));
    }
    let (upstreams, packs) = (in_file(&file), packs_in_file(&file));
    trusted.add(path)?;
    if json {
        let upstreams: Vec<_> = upstreams
            .iter()
            .map(|upstream| json!({ "id": upstream.id, "definition": upstream.definition.shown() }))
            .collect();
        let packs: Vec<&String> = packs.iter().map(|(name, _)| name).collect();
        let outcome = json!({ "file": path, "trusted": true, "upstreams": upstreams, "packs": packs });
        return Ok(say::json(&outcome)?);
    }
    say::result(format_args!(
        "{} is trusted in its current form; Toolyard now uses it in this folder:",
        path.display()
    ));
    let mut rows: Vec<[String; 2]> = Vec::new();
    for upstream in &upstreams {
        rows.push([format!("  {}", upstream.id), upstream.definition.how()]);
        rows.extend(upstream.definition.surroundings().into_iter().map(|more| [String::new(), more]));
    }
    rows.extend(packs.into_iter().map(|(name, keys)| [format!("  pack {name}"), keys]));
    say::table(&rows);
    problems.iter().for_each(say::line);
    Ok(())
}

/// A folder may be any project, with or without a `toolyard.toml`.
fn agree_to_project(mut trusted: Trusted, folder: &Path, json: bool) -> Result<(), Failure> {
    trusted.add_folder(folder)?;
    if json {
        return Ok(say::json(&json!({ "project": folder, "trusted": true }))?);
    }
    say::result(format_args!(
        "{} is trusted: packs may run programs and code of projects in this folder",
        folder.display()
    ));
    if folder.join(PROJECT_FILE).is_file() {
        say::line(format_args!(
            "its {PROJECT_FILE} is not part of that: `toolyard trust {}` trusts that file",
            folder.join(PROJECT_FILE).display()
        ));
    }
    Ok(())
}

fn revoke(mut trusted: Trusted, file: &Path, json: bool) -> Result<(), Failure> {
    let was_trusted = trusted.remove(file)?;
    if json {
        return Ok(say::json(&json!({ "file": file, "trusted": false, "changed": was_trusted }))?);
    }
    let outcome = if was_trusted { "is no longer trusted" } else { "was not trusted" };
    say::result(format_args!("{} {outcome}", file.display()));
    Ok(())
}

fn print_list(trusted: &Trusted, json: bool) -> Result<(), Failure> {
    let state = |file: &Path| match trusted.state(file) {
        _ if file.is_dir() => "project",
        _ if !file.is_file() => "gone",
        TrustState::Trusted => "trusted",
        TrustState::Changed(_) => "changed since",
        TrustState::Unknown => "unknown",
    };
    if json {
        let files = trusted.files().iter();
        let files: Vec<_> = files
            .map(|(file, agreed)| {
                let upstreams: Vec<&String> = agreed.upstreams.keys().collect();
                json!({ "file": file, "state": state(file), "since": agreed.since, "upstreams": upstreams })
            })
            .collect();
        return Ok(say::json(&files)?);
    }
    if trusted.files().is_empty() {
        say::result("no project is trusted");
    }
    let rows: Vec<[String; 2]> =
        trusted.files().keys().map(|file| [state(file).to_owned(), file.display().to_string()]).collect();
    say::table(&rows);
    Ok(())
}
