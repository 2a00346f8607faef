//! Knows Toolyard among the servers of a client.

use crate::definition::Definition;

/// Whether it leads to a gateway of ours. A pack alone is none.
pub fn leads_to_toolyard(definition: &Definition) -> bool {
    let Definition { command, args, url, .. } = definition;
    let does = args.iter().find(|word| ["pack", "serve", "stdio"].contains(&word.as_str()));
    let runs = command.as_deref().is_some_and(|command| match does.map(String::as_str) {
        Some("pack") => false,
        // Under whatever name the program was put there.
        Some("stdio") => program_name(command).starts_with("toolyard") || is_this_program(command),
        _ => program_name(command) == "toolyard" || is_this_program(command),
    });
    runs || url.as_deref().is_some_and(is_own_url)
}

/// Without its folder, and as Windows would have it.
fn program_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name).to_owned()
}

fn is_this_program(command: &str) -> bool {
    let real = std::fs::canonicalize(command).ok();
    let here = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    real.is_some() && real == here
}

fn is_own_url(url: &str) -> bool {
    ["http://127.0.0.1:7777/mcp", "http://localhost:7777/mcp"]
        .iter()
        .any(|own| url.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])))
}
