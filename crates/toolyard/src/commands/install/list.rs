//! `toolyard install` without a client: which clients are here, and whether they have Toolyard.

use serde_json::json;
use toolyard_clients::{Client, ClientError, ClientFile, Foreign, InFolder, Scope, System};
use toolyard_config::{Level, Problem};

use super::{CLIENTS, report};
use crate::failure::Failure;
use crate::{say, settings};

/// The config of one client.
struct Row {
    client: Client,
    scope: Scope,
    /// `None` if unknown.
    file: Option<ClientFile>,
    /// The problem of the file.
    problems: Vec<Problem>,
}

pub(super) fn list(json: bool) -> Result<(), Failure> {
    let rows: Vec<Row> = CLIENTS.into_iter().flat_map(rows).collect();
    if json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        return Ok(say::json(&rows)?);
    }
    if !rows.is_empty() {
        let head = ["CLIENT", "TOOLYARD", "FILE"].map(str::to_owned);
        say::table(&std::iter::once(head).chain(rows.iter().map(Row::cells)).collect::<Vec<_>>());
    }
    rows.iter().flat_map(|row| &row.problems).for_each(say::line);
    let absent: Vec<&str> = CLIENTS
        .into_iter()
        .filter(|client| rows.iter().all(|row| row.client != *client))
        .map(Client::id)
        .collect();
    if !absent.is_empty() {
        say::result(format_args!("not found here: {}", absent.join(", ")));
    }
    say::result("`toolyard install CLIENT` adds Toolyard, `toolyard uninstall CLIENT` removes it");
    say::result("for any other client: `toolyard install --print`");
    Ok(())
}

fn rows(client: Client) -> Vec<Row> {
    let mut found = Vec::new();
    if client.is_here(&settings::variable) {
        found.push(Row::new(client, Scope::User));
    }
    let folder = std::env::current_dir().unwrap_or_default();
    let own = client.files_here(&settings::variable, System::here());
    // In the home folder both can be one file.
    if client.project_file(&folder).is_some_and(|path| path.is_file() && !own.contains(&path)) {
        found.push(Row::new(client, Scope::Project));
    }
    found
}

impl Row {
    fn new(client: Client, scope: Scope) -> Self {
        let (file, mut problems) = match ClientFile::open(client, scope) {
            Ok(file) => (Some(file), Vec::new()),
            Err(ClientError::Config(problems)) => (None, problems),
            Err(ClientError::Refused(problem)) => (None, vec![problem]),
            Err(_) => (None, Vec::new()),
        };
        for problem in &mut problems {
            problem.level = Level::Warning;
        }
        Self { client, scope, file, problems }
    }

    fn cells(&self) -> [String; 3] {
        let client = match self.scope {
            Scope::User => self.client.id().to_owned(),
            Scope::Project => format!("{} --scope project", self.client.id()),
        };
        let Some(file) = &self.file else { return [client, "unknown".to_owned(), String::new()] };
        [client, state(file), file.path.display().to_string()]
    }

    fn json(&self) -> serde_json::Value {
        let names =
            |file: &ClientFile| file.toolyards().map(|server| server.name.clone()).collect::<Vec<_>>();
        json!({
            "client": self.client.id(), "scope": report::scope(self.scope),
            "file": self.file.as_ref().map(|file| report::shown(&file.path)), "installed": self.file.as_ref().map(names),
            "problems": self.problems,
        })
    }
}

/// The names of its entries for Toolyard.
fn state(file: &ClientFile) -> String {
    let name = |server: &Foreign| {
        format!("{}{}", server.name, if server.definition.is_off { " (switched off)" } else { "" })
    };
    let in_folder = |own: &InFolder| format!("in {} as {}", own.folder, own.name);
    let names: Vec<String> = file.toolyards().map(name).collect();
    let folders = file.in_folders.iter().map(in_folder).collect::<Vec<_>>().join(", ");
    match (names.is_empty(), folders.is_empty()) {
        (true, true) => "not installed".to_owned(),
        (true, false) => format!("only {folders}"),
        (false, true) => format!("installed, as {}", names.join(", ")),
        (false, false) => format!("installed, as {}, and {folders}", names.join(", ")),
    }
}
