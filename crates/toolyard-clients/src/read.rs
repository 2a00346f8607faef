//! Reads the servers out of a client's config, whatever the client calls things.

use toolyard_config::definition::{Definition, as_list, as_pairs, as_text};
use toolyard_config::jsonc;
use toolyard_config::own::leads_to_toolyard;
use toolyard_config::save;
use toolyard_config::{Entry, File, Format, Place, Problem, Value};

use super::{Origin, yaml};

/// A server as another client has it.
#[derive(Debug)]
pub struct Foreign {
    pub name: String,
    pub place: Place,
    pub definition: Definition,
    /// Keys that mean something to that client and nothing here.
    pub unused: Vec<String>,
    /// Why it cannot be taken over at all.
    pub obstacle: Option<&'static str>,
    /// Why its client may take it otherwise than it looks.
    pub doubt: Option<&'static str>,
    /// Whether its client keeps it for the working directory alone.
    pub is_of_folder: bool,
    /// Whether it is an app that may also register by itself, under the same name.
    pub is_app: bool,
}

/// A question that VS Code asks instead of keeping a secret.
#[derive(Debug)]
pub struct Input {
    pub id: String,
    pub description: String,
}

impl Foreign {
    /// Whether it leads to a gateway of ours. A pack alone is none.
    pub fn is_toolyard(&self) -> bool {
        leads_to_toolyard(&self.definition)
    }
}

/// All servers of a file, and what its client would ask for.
pub(crate) fn read(origin: &Origin) -> Result<(Vec<Foreign>, Vec<Input>), Vec<Problem>> {
    let path = origin.path.clone();
    let text = save::read_there(&path).map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        vec![Problem::error("", message, "check the path and its permissions; the file must be UTF-8 text")]
    })?;
    let (file, root) = parse(File { path, text })?;
    let mut found: Vec<Foreign> =
        sections(&root).into_iter().flatten().map(|entry| foreign(&file, entry)).collect();
    let of_folder = of_folder(&root, origin).iter().map(|entry| foreign(&file, entry));
    found.extend(of_folder.map(|foreign| Foreign { is_of_folder: true, ..foreign }));
    found.extend(of_opencode(&root).map(|entry| foreign(&file, entry)));
    // Other clients have other things under this key.
    let of_goose = descend(&root, &["extensions"]).filter(|_| is_yaml(&file)).unwrap_or_default();
    found.extend(of_goose.iter().map(|entry| foreign(&file, entry)));
    found.extend(apps(&file, &root));
    Ok((found, inputs(&root)))
}

/// A Toolyard that Claude Code runs in one folder alone.
#[derive(Debug)]
pub struct InFolder {
    pub folder: String,
    pub name: String,
}

/// The entries of Toolyard that Claude Code keeps for single folders.
fn in_folders(root: &[Entry]) -> Vec<InFolder> {
    let mut found = Vec::new();
    for folder in descend(root, &["projects"]).unwrap_or_default() {
        let Value::Table(about) = &folder.node.value else { continue };
        for server in descend(about, &["mcpServers"]).unwrap_or_default() {
            let Value::Table(keys) = &server.node.value else { continue };
            if leads_to_toolyard(&definition(&mut Taken { keys, known: Vec::new() })) {
                found.push(InFolder { folder: folder.key.clone(), name: server.key.clone() });
            }
        }
    }
    found
}

/// The servers of the file that stand under one key, none where the key is not there; and what there is for single
/// folders.
pub(crate) fn section(file: File, key: &str) -> Result<(Vec<Foreign>, Vec<InFolder>), Vec<Problem>> {
    let (file, root) = parse(file)?;
    let servers = servers(&file, &root, key)?;
    Ok((servers, in_folders(&root)))
}

fn servers(file: &File, root: &[Entry], key: &str) -> Result<Vec<Foreign>, Vec<Problem>> {
    let wrong = |entry: &Entry, message: String, help: &str| Problem {
        place: Some(Place::find(&file.path, &file.text, entry.at)),
        ..Problem::error(&entry.key, message, help)
    };
    let mut found = root.iter().filter(|entry| entry.key == key);
    let (Some(section), second) = (found.next(), found.next()) else { return Ok(Vec::new()) };
    if let Some(second) = second {
        return Err(vec![wrong(second, "it is a duplicate".to_owned(), "keep one of the two")]);
    }
    let Value::Table(servers) = &section.node.value else {
        let message = format!("expected a table of servers, found {}", section.node.value.kind());
        return Err(vec![wrong(section, message, "fix it there")]);
    };
    Ok(servers.iter().map(|entry| foreign(file, entry)).collect())
}

fn parse(mut file: File) -> Result<(File, Vec<Entry>), Vec<Problem>> {
    if is_yaml(&file) {
        let root = yaml::keys(&file.text).map_err(|error| {
            let message = format!("{} cannot be read: {error}", file.path.display());
            vec![Problem::error("", message, "fix it there")]
        })?;
        return Ok((file, root));
    }
    if file.format() == Format::Json {
        file.text = jsonc::plain(&file.text);
    }
    let help = match file.format() {
        Format::Json => "fix it there; comments and trailing commas are allowed",
        Format::Toml => "fix it there",
    };
    let with_help =
        |problem: Problem| beyond_us(&problem).unwrap_or(Problem { help: help.to_owned(), ..problem });
    let root = file.entries().map_err(|problems| problems.into_iter().map(with_help).collect::<Vec<_>>())?;
    Ok((file, root))
}

fn is_yaml(file: &File) -> bool {
    file.path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The problem of a file that is valid, but exceeds what is supported here.
fn beyond_us(problem: &Problem) -> Option<Problem> {
    let limits =
        [("number out of range", "a number that is too large"), ("recursion limit", "too many levels")];
    let (_, what) = limits.iter().find(|(part, _)| problem.message.contains(part))?;
    let message = format!("it has {what} to be read here");
    Some(Problem { message, help: "change it by hand".to_owned(), ..problem.clone() })
}

/// The tables that hold servers, as the various clients call them.
fn sections(root: &[Entry]) -> Vec<&[Entry]> {
    let paths: [&[&str]; 7] = [
        &["mcpServers"],
        &["amp.mcpServers"],
        &["servers"],
        &["mcp", "servers"],
        &["context_servers"],
        &["mcp_servers"],
        &["upstreams"],
    ];
    paths.iter().filter_map(|path| descend(root, path)).collect()
}

/// The servers of opencode, which has them right under `mcp`. Other clients have other things there.
fn of_opencode(root: &[Entry]) -> impl Iterator<Item = &Entry> {
    let is_server = |entry: &&Entry| match &entry.node.value {
        Value::Table(keys) => keys.iter().any(|key| {
            key.key == "type" && matches!(as_text(&key.node.value).as_deref(), Some("local" | "remote"))
        }),
        _ => false,
    };
    descend(root, &["mcp"]).unwrap_or_default().iter().filter(is_server)
}

/// The entries that Claude Code keeps for this folder only.
fn of_folder<'a>(root: &'a [Entry], origin: &Origin) -> &'a [Entry] {
    if origin.client != "Claude Code" {
        return &[];
    }
    let folder = std::env::current_dir().unwrap_or_default().display().to_string();
    descend(root, &["projects", &folder, "mcpServers"]).unwrap_or_default()
}

fn descend<'a>(mut entries: &'a [Entry], path: &[&str]) -> Option<&'a [Entry]> {
    for key in path {
        let Value::Table(inner) = &entries.iter().find(|entry| entry.key == *key)?.node.value else {
            return None;
        };
        entries = inner;
    }
    Some(entries)
}

fn foreign(file: &File, entry: &Entry) -> Foreign {
    let place = Place::find(&file.path, &file.text, entry.at);
    let Value::Table(keys) = &entry.node.value else {
        let obstacle = Some("is not an object");
        return Foreign {
            name: entry.key.clone(),
            place,
            definition: Definition::default(),
            unused: Vec::new(),
            obstacle,
            doubt: None,
            is_of_folder: false,
            is_app: false,
        };
    };
    let mut taken = Taken { keys, known: Vec::new() };
    let definition = definition(&mut taken);
    let unused =
        keys.iter().map(|key| key.key.clone()).filter(|key| !taken.known.contains(&key.as_str())).collect();
    let obstacle = match (&definition.command, &definition.url) {
        (None, None) if is_built_in(taken.keys) => {
            Some("is an extension of its client, and cannot run outside of it")
        }
        (None, None) => Some("has neither a command nor a URL"),
        (Some(_), Some(_)) => Some("has both a command and a URL"),
        _ => None,
    };
    let (is_of_folder, is_app) = (false, false);
    let doubt = doubt(keys, &definition);
    Foreign { name: entry.key.clone(), place, definition, unused, obstacle, doubt, is_of_folder, is_app }
}

/// Whether it is a part of its client.
fn is_built_in(keys: &[Entry]) -> bool {
    keys.iter().any(|key| {
        let kind = if key.key == "type" { as_text(&key.node.value) } else { None };
        key.key == "source"
            || key.key == "settings"
            || matches!(kind.as_deref(), Some("builtin" | "platform"))
    })
}

fn doubt(keys: &[Entry], definition: &Definition) -> Option<&'static str> {
    let value = |name: &str| keys.iter().find(|entry| entry.key == name).map(|entry| &entry.node.value);
    let kind = value("type").and_then(as_text);
    if definition.command.is_some() && kind.is_some_and(|kind| kind != "stdio" && kind != "local") {
        return Some("its `type` is not that of a program");
    }
    match value("args") {
        Some(Value::List(items)) if items.len() == definition.args.len() => None,
        Some(_) => Some("not all of its `args` are texts"),
        None => None,
    }
}

/// The keys of a server, and which of them mean something here.
struct Taken<'a> {
    keys: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Taken<'a> {
    fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.keys.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value)
    }

    fn text(&mut self, keys: &[&'static str]) -> Option<String> {
        keys.iter().filter_map(|key| self.take(key).and_then(as_text)).next_back()
    }

    fn pairs(&mut self, keys: &[&'static str]) -> Vec<(String, String)> {
        keys.iter().filter_map(|key| self.take(key)).flat_map(as_pairs).collect()
    }

    fn flag(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }
}

fn definition(keys: &mut Taken<'_>) -> Definition {
    let mut command = keys.text(&["command"]);
    let mut args = keys.take("args").map(as_list).unwrap_or_default();
    let mut env = keys.pairs(&["env"]);
    // Older versions of Zed put the program into a table of its own.
    if let Some(Value::Table(inner)) = keys.take("command") {
        let mut inner = Taken { keys: inner, known: Vec::new() };
        command = inner.text(&["path"]);
        args = inner.take("args").map(as_list).unwrap_or_default();
        env = inner.pairs(&["env"]);
    }
    // opencode has the program and its arguments in one list.
    if let Some(list @ Value::List(_)) = keys.take("command") {
        let mut words = as_list(list).into_iter();
        command = words.next();
        args = words.collect();
    }
    env.extend(keys.pairs(&["environment"]));
    // Goose has its own words, and keeps secrets in the keyring of the system under the names of variables.
    command = command.or_else(|| keys.text(&["cmd"]));
    env.extend(keys.pairs(&["envs"]));
    let secrets = keys.take("env_keys").map(as_list).unwrap_or_default();
    env.extend(secrets.into_iter().map(|name| (name.clone(), format!("${{{name}}}"))));
    let mut headers = keys.pairs(&["headers", "http_headers"]);
    // Codex names variables instead of values.
    let by_variable = keys.pairs(&["env_http_headers"]);
    headers.extend(by_variable.into_iter().map(|(name, variable)| (name, format!("${{{variable}}}"))));
    if let Some(variable) = keys.text(&["bearer_token_env_var"]) {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
    }
    let kinds = [keys.text(&["type"]), keys.text(&["transport"])];
    keys.take("source");
    let is_off = keys.flag("enabled") == Some(false) || keys.flag("disabled") == Some(true);
    Definition {
        command,
        args,
        env,
        env_file: keys.text(&["envFile", "env_file"]),
        cwd: keys.text(&["cwd"]),
        url: keys.text(&["url", "serverUrl", "httpUrl", "uri"]),
        headers,
        transport: kinds.into_iter().flatten().find(|kind| kind == "sse"),
        is_off,
    }
}

fn inputs(root: &[Entry]) -> Vec<Input> {
    let Some(Value::List(items)) =
        root.iter().find(|entry| entry.key == "inputs").map(|entry| &entry.node.value)
    else {
        return Vec::new();
    };
    let input = |value: &Value| {
        let Value::Table(keys) = value else { return None };
        let mut keys = Taken { keys, known: Vec::new() };
        Some(Input { id: keys.text(&["id"])?, description: keys.text(&["description"]).unwrap_or_default() })
    };
    items.iter().filter_map(|item| input(&item.value)).collect()
}

/// `.mcpproxy.json` names running apps by their address.
fn apps(file: &File, root: &[Entry]) -> Vec<Foreign> {
    let apps = descend(root, &["Proxy"]).and_then(|proxy| proxy.iter().find(|entry| entry.key == "Apps"));
    let Some(Value::List(items)) = apps.map(|entry| &entry.node.value) else { return Vec::new() };
    let app = |value: &Value, at: usize| {
        let Value::Table(keys) = value else { return None };
        let mut keys = Taken { keys, known: vec!["Description"] };
        let name = keys.text(&["Name"])?;
        let url = keys.text(&["Endpoint"]);
        let obstacle = url.is_none().then_some("has no endpoint: it registers by itself when it runs");
        let place = Place::find(&file.path, &file.text, at);
        let definition = Definition { url, ..Definition::default() };
        let unused = Vec::new();
        let is_of_folder = false;
        let is_app = true;
        Some(Foreign { name, place, definition, unused, obstacle, doubt: None, is_of_folder, is_app })
    };
    items.iter().filter_map(|item| app(&item.value, item.at)).collect()
}
