//! The configuration as written: found, read and checked, with every problem reported at its place.
//! What the gateway is built from is made of it in [`crate::plan`].

mod find;
mod problem;
mod tree;
mod reader;
mod interpolate;
mod suggest;
mod duration;
mod reach;
mod upstream;
mod mcp_servers;
mod packs;
mod profile;
mod listen;

use std::path::Path;

use toolyard_core::ProfilePlan;
use toolyard_proto::name::{DEFAULT_BUDGET, MIN_BUDGET, NameStyle};

pub(crate) use find::{Found, find, unused_hint};
pub(crate) use interpolate::Variables;
pub(crate) use listen::{DEFAULT as DEFAULT_ADDRESS, ListenConfig, needs_token, parse_address};
pub(crate) use packs::PackConfig;
pub(crate) use problem::Problem;
pub(crate) use reach::{Program, Reach, Server};
pub(crate) use upstream::{UpstreamConfig, Upstreams};

use reader::{Reader, Section};
use tree::{File, Format};

/// Models accept no longer names than this.
const LONGEST_BUDGET: usize = 64;

#[derive(Default)]
pub(crate) struct Config {
    pub(crate) upstreams: Upstreams,
    /// What is written of packs; which of them are on is decided in [`crate::packs`].
    pub(crate) packs: Vec<PackConfig>,
    pub(crate) profiles: Vec<ProfilePlan>,
    pub(crate) listen: ListenConfig,
    /// Show the only upstream as if clients spoke to it directly.
    pub(crate) transparent: bool,
    pub(crate) names: NameStyle,
}

/// A config, if there is nothing wrong with it, and what there is to say about it.
pub(crate) struct Loaded {
    pub(crate) config: Option<Config>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file and checks all of it.
pub(crate) fn load(path: &Path, variables: &Variables<'_>) -> Loaded {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            let help = "check the path and its permissions; the file must be UTF-8 text";
            return Loaded { config: None, problems: vec![Problem::error("", message, help)] };
        }
    };
    read(&File { path: path.to_owned(), text }, variables)
}

fn read(file: &File, variables: &Variables<'_>) -> Loaded {
    let entries = match file.entries() {
        Ok(entries) => entries,
        Err(problems) => return Loaded { config: None, problems },
    };
    let mut reader = Reader::new(file, variables);
    let root = Section::root(entries);
    let config = match file.format() {
        Format::Toml => read_toml(root, &mut reader),
        Format::Json => Config { upstreams: mcp_servers::read(root, &mut reader), ..Config::default() },
    };
    let problems = reader.finish();
    let is_good = !problems.iter().any(Problem::is_error);
    Loaded { config: is_good.then_some(config), problems }
}

fn read_toml(mut root: Section, reader: &mut Reader<'_>) -> Config {
    let upstreams = upstream::read(&mut root, reader);
    let ids: Vec<String> = upstreams.ids().map(|id| id.as_str().to_owned()).collect();
    let packs = packs::read(&mut root, reader);
    let profiles = profile::read(&mut root, reader, &ids);
    let listen = listen::read(&mut root, reader);
    let transparent = read_transparent(&mut root, reader, upstreams.on.len());
    let names = read_names(&mut root, reader);
    check_apps(&mut root, reader);
    root.finish(reader);
    Config { upstreams, packs, profiles, listen, transparent, names }
}

fn read_transparent(root: &mut Section, reader: &mut Reader<'_>, upstreams: usize) -> bool {
    let Some(field) = root.take("transparent") else { return false };
    let transparent = field.flag(reader).unwrap_or(false);
    if transparent {
        profile::warn_unless_alone(reader, &field, upstreams);
    }
    transparent
}

fn read_names(root: &mut Section, reader: &mut Reader<'_>) -> NameStyle {
    let budget = root.take("name_budget").and_then(|field| {
        let number = field.integer(reader)?;
        let budget = usize::try_from(number).ok().filter(|n| (MIN_BUDGET..=LONGEST_BUDGET).contains(n));
        if budget.is_none() {
            let message = format!("expected a number from {MIN_BUDGET} to {LONGEST_BUDGET}, found {number}");
            field.error(reader, message, format!("{DEFAULT_BUDGET} leaves room for the prefix of a client"));
        }
        budget
    });
    let shown = NameStyle::Shown { budget: budget.unwrap_or(DEFAULT_BUDGET) };
    let field = root.take("names");
    let chosen =
        field.and_then(|field| field.choice(reader, &[("shown", shown), ("colon", NameStyle::Colon)]));
    chosen.unwrap_or(shown)
}

/// `[apps]` is understood and checked, and has no effect yet.
fn check_apps(root: &mut Section, reader: &mut Reader<'_>) {
    if let Some(field) = root.take("apps") {
        listen::warn_not_yet(reader, &field);
        if let Some(mut apps) = field.section(reader) {
            if let Some(field) = apps.take("listen") {
                listen::read_address(reader, &field);
            }
            apps.finish(reader);
        }
    }
}
