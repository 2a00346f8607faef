//! `toolyard add`: puts a server into the config.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use toolyard_config::definition::{Definition, Shown};
use toolyard_config::{Problem, command_words};
use toolyard_proto::name::UpstreamId;

use super::described::{self, Described};
use super::edit::{Draft, Where};
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard add files -- npx -y @modelcontextprotocol/server-filesystem /srv
  toolyard add github -e GITHUB_TOKEN='${GITHUB_TOKEN}' -- docker run -i --rm ghcr.io/github/github-mcp-server
  toolyard add --transport http wiki https://wiki.example/mcp --header 'Authorization: Bearer ${WIKI_TOKEN}'
  toolyard add weather ./server.json
  toolyard add shop ./openapi.yaml --header 'Authorization: Bearer ${SHOP_TOKEN}'

Put ${VAR} in single quotes: the gateway expands it when it starts, and no secret is written to the file.")]
pub(crate) struct AddArgs {
    /// The name of the server: letters, digits, `_` and `-`, starting with a letter.
    name: String,
    /// The address of a server; or a file: a `server.json` of the MCP registry, or an OpenAPI description, whose
    /// operations become tools.
    #[arg(value_name = "URL|FILE")]
    url: Option<String>,
    /// The transport [default: stdio for a program, http for a URL].
    #[arg(short, long, value_enum)]
    transport: Option<Transport>,
    /// A variable for the program; NAME alone takes its value from the environment of the gateway.
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header for the server.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The working directory of the program [default: the folder of the config].
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// The address of the service that an OpenAPI description is about [default: its first server].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    Stdio,
    Http,
    Sse,
}

/// The output of `--json`.
#[derive(Serialize)]
struct AddReport<'a> {
    id: &'a str,
    file: String,
    /// False if the same server was there already.
    changed: bool,
    #[serde(flatten)]
    definition: Shown,
    problems: &'a [Problem],
}

pub(super) fn add(common: &Common, args: &AddArgs) -> Result<(), Failure> {
    let Added { id, definition, draft, is_same, remarks, notes } = draft(common, args)?;
    if !is_same {
        draft.save()?;
    }
    if args.json {
        let (file, changed) = (draft.path.display().to_string(), !is_same);
        let definition = definition.shown();
        return Ok(say::json(&AddReport { id: id.as_str(), file, changed, definition, problems: &remarks })?);
    }
    let (verb, file) = (if is_same { "is already in" } else { "added to" }, draft.path.display());
    let end = if is_same { ", unchanged" } else { "" };
    say::result(format_args!("{id} {verb} {file}{end}: {}", definition.how()));
    remarks.iter().for_each(say::line);
    for note in &notes {
        say::line(format_args!("note: {note}"));
    }
    if draft.needs_trust(&args.place) {
        say::line(
            "note: toolyard.toml is not used until you trust it\n  help: look at it, then run `toolyard trust`",
        );
    }
    Ok(())
}

/// A server that is in a draft of the config, and not yet in the file.
struct Added {
    id: UpstreamId,
    definition: Definition,
    draft: Draft,
    /// The same server is there already.
    is_same: bool,
    remarks: Vec<Problem>,
    /// Notes about a server that a file describes.
    notes: Vec<String>,
}

fn draft(common: &Common, args: &AddArgs) -> Result<Added, Failure> {
    let id = id(&args.name)?;
    let Described { definition, notes } = described(args)?;
    let mut draft = Draft::open(common, &args.place)?;
    let there = draft.upstreams().into_iter().find(|there| there.id.eq_ignore_ascii_case(id.as_str()));
    let is_same = there.as_ref().is_some_and(|there| there.definition == definition);
    if let Some(there) = there.filter(|_| !is_same) {
        let message =
            format!("`{}` already exists, in {}: {}", there.id, there.place, there.definition.how());
        let help = format!("choose another name, or remove it first: toolyard remove {}", there.id);
        return Err(refused(message, help));
    }
    let mut remarks = Vec::new();
    if !is_same {
        draft.insert(id.as_str(), &definition);
        remarks = accept(draft.new_problems())?;
    }
    Ok(Added { id, definition, draft, is_same, remarks, notes })
}

/// The change that adding a server would make, for the dashboard.
pub(crate) struct Drafted {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) remarks: Vec<Problem>,
}

/// Adds a server that is written as a command line or a URL; the file is only changed if `is_final`.
pub(crate) fn draft_server(
    common: &Common,
    name: &str,
    target: &str,
    variables: Vec<String>,
    is_final: bool,
) -> Result<Drafted, Failure> {
    let is_url = target.contains("://") && !target.contains(char::is_whitespace);
    let (env, header) = if is_url { (Vec::new(), variables) } else { (variables, Vec::new()) };
    let args = AddArgs {
        name: name.to_owned(),
        url: is_url.then(|| target.to_owned()),
        transport: None,
        env,
        header,
        cwd: None,
        base_url: None,
        place: Where { project: false },
        json: false,
        command: if is_url { Vec::new() } else { command_words(target).map_err(Failure::Usage)? },
    };
    let Added { id, draft, is_same, remarks, .. } = draft(common, &args)?;
    if is_final && !is_same {
        draft.save()?;
    }
    let file = draft.path.display().to_string();
    let before = draft.before().to_owned();
    let after = draft.text();
    Ok(Drafted { id: id.to_string(), file, before, after, remarks })
}

fn id(name: &str) -> Result<UpstreamId, Failure> {
    UpstreamId::parse(name)
        .map_err(|error| Failure::Config(vec![Problem::error("NAME", error.to_string(), error.hint())]))
}

/// A config that would not start is not written.
fn accept(problems: Vec<Problem>) -> Result<Vec<Problem>, Failure> {
    if problems.iter().any(Problem::is_error) {
        // Nothing is written, so the problem has no line in the file.
        let problems = problems.into_iter().map(|problem| Problem { place: None, ..problem });
        return Err(Failure::Config(problems.collect()));
    }
    Ok(problems)
}

/// The server to add, from a file or from the command line.
fn described(args: &AddArgs) -> Result<Described, Failure> {
    let file = args.url.as_deref().filter(|target| !target.contains("://") && Path::new(target).is_file());
    let Some(file) = file.filter(|_| args.command.is_empty()) else {
        if args.base_url.is_some() {
            return Err(Failure::Usage("--base-url goes with an OpenAPI description".to_owned()));
        }
        return Ok(Described { definition: definition(args)?, notes: Vec::new() });
    };
    let env = args.env.iter().map(|text| variable(text)).collect();
    let headers = args.header.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
    described::read(Path::new(file), args.base_url.as_deref(), env, headers)
}

fn definition(args: &AddArgs) -> Result<Definition, Failure> {
    let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
    match (&args.url, args.command.split_first()) {
        (Some(_), Some(_)) => usage("give a URL or, after `--`, a command, but not both"),
        (None, None) => {
            usage("give a command after `--`, or a URL: toolyard add NAME -- COMMAND… | NAME URL")
        }
        (None, Some(_)) if !args.header.is_empty() => {
            usage("--header goes with a URL; a program takes --env")
        }
        (None, Some(_)) if args.transport.is_some_and(|transport| transport != Transport::Stdio) => {
            usage("--transport http and sse go with a URL, not with a command")
        }
        (Some(_), None) if !args.env.is_empty() || args.cwd.is_some() => {
            usage("--env and --cwd go with a command; a URL takes --header")
        }
        (Some(url), None) if args.transport == Some(Transport::Stdio) || !url.contains("://") => {
            Err(Failure::Usage(no_url(&args.name, url)))
        }
        (None, Some((command, rest))) => Ok(Definition {
            command: Some(if command.contains('/') { from_here(command, args) } else { command.clone() }),
            args: rest.to_vec(),
            env: args.env.iter().map(|text| variable(text)).collect(),
            cwd: args.cwd.as_deref().map(|cwd| from_here(cwd, args)),
            ..Definition::default()
        }),
        (Some(url), None) => Ok(Definition {
            url: Some(url.clone()),
            headers: args.header.iter().map(|text| header(text)).collect::<Result<_, _>>()?,
            transport: (args.transport == Some(Transport::Sse)).then(|| "sse".to_owned()),
            ..Definition::default()
        }),
    }
}

/// A server that is only named on the command line, by its address or its command.
pub(super) fn direct(
    url: Option<&str>,
    headers: &[String],
    env: &[String],
    command: &[String],
) -> Result<Definition, Failure> {
    if let Some(url) = url.filter(|url| !url.contains("://")) {
        return Err(Failure::Usage(format!("`{url}` is not a URL; a program goes after `--`")));
    }
    Ok(Definition {
        url: url.map(str::to_owned),
        headers: headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?,
        env: env.iter().map(|text| variable(text)).collect(),
        command: command.first().cloned(),
        args: command.iter().skip(1).cloned().collect(),
        ..Definition::default()
    })
}

/// Relative paths in a config start from its folder. The user's config is elsewhere, so paths are made absolute.
fn from_here(path: &str, args: &AddArgs) -> String {
    if args.place.project || path.contains("${") {
        return path.to_owned();
    }
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

fn variable(text: &str) -> (String, String) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text.to_owned(), format!("${{{text}}}")),
    }
}

fn header(text: &str) -> Result<(String, String), Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "--header requires `Name: value`, such as 'Authorization: Bearer ${{TOKEN}}', not `{}`",
            text.split(' ').next().unwrap_or_default()
        ))
    };
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// An argument that is neither an address nor after `--`: a host with a path was meant as an address, else a program.
fn no_url(name: &str, text: &str) -> String {
    let host = text.split(['/', ':']).next().unwrap_or_default();
    if host.contains('.') && !host.starts_with('.') && text.contains('/') {
        return format!("`{text}` is not a URL; did you mean https://{text}?");
    }
    format!("`{text}` is not a URL; a program goes after `--`: toolyard add {name} -- {text} …")
}
