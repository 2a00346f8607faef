//! A server that a file describes: a `server.json` of the MCP registry, or an OpenAPI description.

use std::path::Path;

use toolyard_clients::registry;
use toolyard_config::definition::Definition;
use toolyard_openapi::Description;

use super::install::own_program;
use super::openapi;
use crate::failure::{Failure, refused};

/// How a described server is started or reached, and notes for the user.
pub(super) struct Described {
    pub(super) definition: Definition,
    pub(super) notes: Vec<String>,
}

/// Reads the server that the file describes. `env` and `headers` override its values.
pub(super) fn read(
    file: &Path,
    base_url: Option<&str>,
    env: Vec<(String, String)>,
    headers: Vec<(String, String)>,
) -> Result<Described, Failure> {
    let cannot = |error| refused(format!("cannot read {}: {error}", file.display()), "check the path");
    let text = std::fs::read_to_string(file).map_err(cannot)?;
    if Description::is_one(&text) {
        return of_openapi(file, base_url, env, &headers);
    }
    let json = serde_json::from_str(&text).unwrap_or_default();
    if !registry::is_registry(&json) {
        let message = format!("{} describes no server", file.display());
        return Err(refused(message, "give a server.json of the MCP registry or an OpenAPI description"));
    }
    let definition = registry::read(&json);
    let mut definition = definition.map_err(|why| refused(why, "add it by its command or its URL"))?;
    merge(&mut definition.env, env);
    merge(&mut definition.headers, headers);
    Ok(Described { definition, notes: Vec::new() })
}

fn merge(there: &mut Vec<(String, String)>, more: Vec<(String, String)>) {
    for (name, value) in more {
        there.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        there.push((name, value));
    }
}

/// This program serves it, as a child of the gateway.
fn of_openapi(
    file: &Path,
    base_url: Option<&str>,
    mut env: Vec<(String, String)>,
    headers: &[(String, String)],
) -> Result<Described, Failure> {
    let description = openapi::read(file)?;
    openapi::base(&description, base_url, file)?;
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut args = vec!["openapi".to_owned(), path.display().to_string()];
    args.extend(base_url.into_iter().flat_map(|url| ["--base-url".to_owned(), url.to_owned()]));
    if !headers.is_empty() {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        env.push((openapi::HEADERS.to_owned(), lines.join("\n")));
    }
    let mut notes = vec![match description.operations.len() {
        1 => "1 operation is a tool".to_owned(),
        count => format!("{count} operations are tools"),
    }];
    let skipped = description.skipped.iter();
    notes.extend(skipped.map(|skipped| format!("{} is not a tool: {}", skipped.operation, skipped.why)));
    let command = Some(own_program()?);
    Ok(Described { definition: Definition { command, args, env, ..Definition::default() }, notes })
}
