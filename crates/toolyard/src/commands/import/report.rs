//! The report of an import: what it would do with each server, and what it has done.

use std::path::Path;

use serde_json::{Value, json};
use toolyard_clients::{ImportAction as Action, ImportStep as Step, Origin, VALUE_STAYS};
use toolyard_config::Problem;

use crate::say;

pub(super) fn print(origins: &[Origin], steps: &[Step]) {
    for (number, origin) in origins.iter().enumerate() {
        let own: Vec<&Step> = steps.iter().filter(|step| step.origin == number).collect();
        if own.is_empty() {
            continue;
        }
        say::result(origin.label());
        let rows: Vec<[String; 2]> = own.iter().map(|step| row(step)).collect();
        say::table(&rows);
        own.into_iter().for_each(print_notes);
    }
}

fn row(step: &Step) -> [String; 2] {
    let name = &step.name;
    match &step.action {
        Action::Add { id, definition, .. } if id == name => [format!("  + {id}"), definition.how()],
        Action::Add { id, definition, .. } => [format!("  + {id} (\"{name}\")"), definition.how()],
        Action::Same { id } => [format!("  = {name}"), format!("already in your config, as {id}")],
        Action::Kept { id } => [
            format!("  ! {name}"),
            format!("a different server named {id} is already in your config; it was not changed"),
        ],
        Action::Skip { why } => [format!("  - {name}"), why.clone()],
    }
}

fn print_notes(step: &Step) {
    let Action::Add { id, definition, missing, secrets } = &step.action else { return };
    if definition.is_off {
        say::result(format_args!("    {id} stays switched off"));
    }
    for (variable, why) in missing {
        say::result(format_args!("    {id} is off until {variable} is set: {why}"));
    }
    for secret in secrets {
        say::result(format_args!("    {id}: a secret goes into the store as {}", secret.name));
    }
    if !step.unused.is_empty() {
        say::result(format_args!("    {id}: not used here: {}", step.unused.join(", ")));
    }
}

pub(super) fn servers(count: usize) -> String {
    if count == 1 { "1 server".to_owned() } else { format!("{count} servers") }
}

/// How many secrets would stay where they are.
pub(super) fn left_secrets(steps: &[Step]) -> usize {
    let left = |step: &Step| match &step.action {
        Action::Add { missing, .. } => missing.values().filter(|why| why.starts_with(VALUE_STAYS)).count(),
        _ => 0,
    };
    steps.iter().map(left).sum()
}

pub(super) fn print_outcome(
    origins: &[Origin],
    steps: &[Step],
    file: &Path,
    written: bool,
    backup: Option<&Path>,
) {
    let file = file.display();
    let count = steps.iter().filter(|step| step.is_new()).count();
    let lacks = |step: &Step| matches!(&step.action, Action::Add { missing, .. } if !missing.is_empty());
    match (count, written) {
        (0, _) => say::result("nothing to do"),
        (count, false) => {
            say::result(format_args!("nothing was written; --yes writes {} to {file}", servers(count)));
            if left_secrets(steps) > 0 {
                say::result(
                    "--store-secrets moves secrets into the store of `toolyard secret`; --copy-secrets copies them into \
                     the config",
                );
            }
        }
        (count, true) => {
            let before = backup.map(|path| format!(" (backup: {})", path.display())).unwrap_or_default();
            say::result(format_args!("wrote {} to {file}{before}", servers(count)));
            if steps.iter().any(lacks) {
                say::result("set the missing variables where the gateway is started");
            }
            if left_secrets(steps) > 0 {
                say::result(
                    "or remove these servers and import them with --store-secrets (into the store of `toolyard secret`) \
                     or --copy-secrets (into the config)",
                );
            }
            print_old_entries(origins, steps);
        }
    }
}

/// A client that is connected to the gateway and keeps its own entries gets every tool twice.
fn print_old_entries(origins: &[Origin], steps: &[Step]) {
    for (number, origin) in origins.iter().enumerate() {
        let own = steps.iter().filter(|step| step.origin == number);
        let taken = own.filter(|step| step.is_new() || matches!(step.action, Action::Same { .. }));
        let names: Vec<&str> = taken.map(|step| step.name.as_str()).collect();
        if !names.is_empty() {
            say::result(format_args!(
                "still in {}: {}; remove them there once that client uses the gateway, or it gets their tools twice",
                origin.label(),
                names.join(", ")
            ));
        }
    }
}

pub(super) fn json(
    steps: &[Step],
    file: &Path,
    written: bool,
    backup: Option<&Path>,
    remarks: &[Problem],
) -> Value {
    let step = |step: &Step| match &step.action {
        Action::Add { id, definition, missing, secrets } => json!({
            "name": step.name, "action": "add", "id": id, "definition": definition.shown(),
            "enabled": !definition.is_off, "missing": missing, "unused": step.unused,
            "secrets": secrets.iter().map(|secret| &secret.name).collect::<Vec<_>>(),
        }),
        Action::Same { id } => json!({ "name": step.name, "action": "same", "id": id }),
        Action::Kept { id } => json!({ "name": step.name, "action": "kept", "id": id }),
        Action::Skip { why } => json!({ "name": step.name, "action": "skip", "why": why }),
    };
    json!({
        "file": file.display().to_string(), "written": written,
        "backup": backup.map(|path| path.display().to_string()),
        "servers": steps.iter().map(step).collect::<Vec<_>>(), "problems": remarks,
    })
}
