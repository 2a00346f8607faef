//! `toolyard pack NAME`: serves one pack alone, on stdio or at the given addresses. Every key of `[packs.NAME]` is
//! also a flag, which overrides the file. Without a name it lists the packs.

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::{Map, Value};
use toolyard_config::{nearest, state_dir};
use toolyard_guard::Guards;
use toolyard_model::Scope;
use toolyard_tool::{Door, Key, Pack};

use crate::cli::Common;
use crate::connect::ConnectContext;
use crate::failure::Failure;
use crate::{packs, say, settings};

const DOORS: [(&str, &str, &str); 3] = [
    (
        "http",
        "ADDR",
        "Serve Streamable HTTP at http://ADDR/mcp instead of stdio; port 0 lets the system choose",
    ),
    ("tcp", "ADDR", "Serve newline-delimited messages over TCP"),
    ("unix", "PATH", "Serve the same over a Unix socket"),
];

/// Not derived, since the flags are those of the packs.
#[derive(Clone, Debug)]
pub(crate) enum PackArgs {
    List,
    Serve(Served),
}

/// Which pack, where, and with which keys.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pack: &'static Pack,
    doors: Vec<Door>,
    keys: Map<String, Value>,
}

pub(crate) fn pack(common: &Common, args: PackArgs) -> Result<(), Failure> {
    match args {
        PackArgs::List => {
            let row = |pack: &Pack| [pack.name().to_owned(), pack.summary().to_owned()];
            say::table(&packs::all().iter().map(row).collect::<Vec<_>>());
            Ok(())
        }
        PackArgs::Serve(served) => serve(common, served),
    }
}

fn serve(common: &Common, served: Served) -> Result<(), Failure> {
    let Served { pack, doors, keys } = served;
    let settings = settings::read(common)?;
    let written = settings.config.packs.into_iter().find(|written| written.name == pack.name());
    let (mut config, missing) = written.map(|written| (written.keys, written.missing)).unwrap_or_default();
    // A relative path on the command line starts from the current folder.
    let here = std::env::current_dir().context("find the current folder")?;
    config.extend(keys.into_iter().map(|(name, value)| {
        let key = pack.keys().iter().find(|key| key.name() == name);
        let value = key.map_or(Value::Null, |key| key.within(&here, value));
        (name, value)
    }));
    let config = Value::Object(config);
    let wrong: Vec<String> = pack.check(&config).iter().map(ToString::to_string).collect();
    if !wrong.is_empty() {
        let (wrong, name) = (wrong.join("\n  "), pack.name());
        if let Some(missing) = missing {
            let why = missing.reason();
            return Err(Failure::Usage(format!("{wrong}: {why}\n  help: set it, or give the key as a flag")));
        }
        return Err(Failure::Usage(format!(
            "{wrong}\n  help: give it as a flag (`toolyard pack {name} --help`) or in [packs.{name}]"
        )));
    }
    let guards = Guards::begin(None);
    let state =
        state_dir::locate(common.state_dir.as_deref(), &settings.found.set(), &settings::variable).ok();
    let context = ConnectContext::new(guards.guard(), Scope::new()).with_folders(state);
    let tools = pack.tools_in(config, context.hosts().host(pack.name()));
    let tools = tools.map_err(|error| anyhow::anyhow!("{error}"))?;
    toolyard_tool::run_on(tools, &doors).map_err(|error| Failure::Other(error.into()))
}

impl Args for PackArgs {
    fn augment_args(command: Command) -> Command {
        command
            .subcommand_required(false)
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Packs")
            .disable_help_subcommand(true)
            // So that an unknown name can be answered with the list of packs.
            .allow_external_subcommands(true)
            .subcommands(packs::all().iter().map(command_of))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn command_of(pack: &'static Pack) -> Command {
    let doors = DOORS.map(|(name, value, help)| Arg::new(name).long(name).value_name(value).help(help));
    Command::new(pack.name())
        .about(pack.summary())
        .args(doors)
        .args(pack.keys().iter().map(|key| flag(key).help_heading("Keys of the pack")))
}

fn flag(key: &'static Key) -> Arg {
    let action = if key.is_list() { ArgAction::Append } else { ArgAction::Set };
    let arg = Arg::new(key.name()).long(key.flag_name()).value_name("VALUE");
    // The name of the key in the config file works, too.
    let arg = if key.flag_name() == key.name() { arg } else { arg.alias(key.name()) };
    if key.is_flag() {
        return arg
            .value_parser(["true", "false"])
            .num_args(0..=1)
            .default_missing_value("true")
            .help(key.about())
            .action(ArgAction::Set);
    }
    arg.value_parser(value_parser!(String)).allow_hyphen_values(true).help(key.about()).action(action)
}

impl FromArgMatches for PackArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, inner)| Some((packs::find(name)?, inner)));
        let Some((pack, matches)) = chosen else {
            let Some(name) = matches.subcommand_name() else { return Ok(Self::List) };
            return Err(clap::Error::raw(ErrorKind::InvalidSubcommand, no_pack(name)));
        };
        let texts = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
        };
        let door = |(name, ..): &(&str, &str, &str)| {
            let place = texts(name).pop()?;
            Some(match *name {
                "http" => Door::Http(place),
                "tcp" => Door::Tcp(place),
                _ => Door::Unix(place.into()),
            })
        };
        let mut doors: Vec<Door> = DOORS.iter().filter_map(door).collect();
        if doors.is_empty() {
            doors.push(Door::Stdio);
        }
        let given =
            pack.keys().iter().map(|key| (key, texts(key.name()))).filter(|(_, texts)| !texts.is_empty());
        let keys = given.map(|(key, texts)| (key.name().to_owned(), key.read(&texts))).collect();
        Ok(Self::Serve(Served { pack, doors, keys }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn no_pack(name: &str) -> String {
    let names: Vec<&str> = packs::all().iter().map(Pack::name).collect();
    let near = nearest(name, names.iter().copied());
    let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    if let Some(why) = packs::not_here(name) {
        return format!("{why}\n\nPacks: {}\n", names.join(", "));
    }
    format!("there is no pack '{name}'{near}\n\nPacks: {}\n", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(words: &[&str]) -> Result<Served, clap::Error> {
        let command = PackArgs::augment_args(Command::new("pack"));
        let matches = command.try_get_matches_from([&["pack"], words].concat());
        match matches.and_then(|matches| PackArgs::from_arg_matches(&matches))? {
            PackArgs::Serve(served) => Ok(served),
            PackArgs::List => panic!("no pack"),
        }
    }

    #[cfg(unix)]
    #[test]
    fn flags_are_written_with_dashes_or_underscores_and_booleans_without_a_value() {
        for words in [
            &["music", "--allow-symlinks"][..],
            &["music", "--allow_symlinks"],
            &["music", "--allow-symlinks", "true"],
            &["music", "--allow-symlinks=true", "--acoustid-key", "x"],
        ] {
            assert_eq!(served(words).unwrap().keys["allow_symlinks"], true, "{words:?}");
        }
        assert_eq!(served(&["music", "--allow-symlinks=false"]).unwrap().keys["allow_symlinks"], false);
        assert!(served(&["music", "--allow-symlinks=perhaps"]).is_err());
    }

    #[test]
    fn doors_are_flags_and_stdio_is_the_default() {
        let parse = |words: &[&str]| served(words).map(|served| served.doors);
        assert_eq!(parse(&["dev"]).unwrap(), [Door::Stdio]);
        let both = [Door::Http("127.0.0.1:0".into()), Door::Unix("a.sock".into())];
        assert_eq!(parse(&["dev", "--unix", "a.sock", "--http", "127.0.0.1:0"]).unwrap(), both);
        assert!(parse(&["dve"]).unwrap_err().to_string().contains("'dve'"));
        assert!(parse(&["dev", "--rooot", "x"]).is_err());
        let matches = PackArgs::augment_args(Command::new("pack")).try_get_matches_from(["pack"]);
        assert!(matches!(PackArgs::from_arg_matches(&matches.unwrap()), Ok(PackArgs::List)));
    }
}
