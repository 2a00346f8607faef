//! `toolyard validate`: checks the config and reports its problems.

use serde::Serialize;
use toolyard_config::{Config, Found, Loaded, Problem, Reach};

use crate::cli::{Common, ValidateArgs};
use crate::failure::Failure;
use crate::packs::{self, PackState, states};
use crate::{say, settings};

pub(crate) fn validate(common: &Common, args: &ValidateArgs) -> Result<(), Failure> {
    let (found, loaded) = settings::look(common);
    if args.json {
        return print_json(&found, loaded);
    }
    let Some(config) = loaded.config else { return Err(Failure::Config(loaded.problems)) };
    loaded.problems.iter().filter(|_| !common.quiet).for_each(say::line);
    say::result(summary(&found, &config));
    Ok(())
}

fn summary(found: &Found, config: &Config) -> String {
    let Some(files) = found.names() else {
        return "no config file: only the built-in tools are served".into();
    };
    let on: Vec<&str> = config.upstreams.on.iter().map(|upstream| upstream.id.as_str()).collect();
    let off: Vec<&str> = config.upstreams.off.iter().map(|off| off.id.as_str()).collect();
    let profiles: Vec<&str> = config.profiles.iter().map(|profile| profile.name.as_str()).collect();
    let part = |what: &str, names: &[&str]| format!("{what}: {}", names.join(", "));
    let packs: Vec<&str> = packs_on(config).collect();
    let mut parts = Vec::new();
    parts.extend((!on.is_empty()).then(|| part("upstreams", &on)));
    parts.extend((!packs.is_empty()).then(|| part("packs", &packs)));
    parts.extend((!off.is_empty()).then(|| part("switched off", &off)));
    let apps: Vec<&str> = config.apps.endpoints.iter().map(|app| app.id.as_str()).collect();
    parts.extend((!apps.is_empty()).then(|| part("apps to dial", &apps)));
    parts.extend((!profiles.is_empty()).then(|| part("profiles", &profiles)));
    parts.extend(packs::off(config));
    if parts.is_empty() {
        parts.push("no upstreams, only the built-in tools".to_owned());
    }
    let are = if found.sources.len() == 1 { "is" } else { "are" };
    format!("{files} {are} valid; {}", parts.join("; "))
}

/// Packs that the config sets up.
fn packs_on(config: &Config) -> impl Iterator<Item = &'static str> {
    let is_set_up = |name: &str| config.packs.iter().any(|written| written.name == name);
    let on = states(config).into_iter().filter(|state| state.config.is_ok());
    on.map(|state| state.pack.name()).filter(move |name| is_set_up(name))
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    files: Vec<String>,
    upstreams: Vec<UpstreamReport<'a>>,
    packs: Vec<PackReport>,
    profiles: Vec<&'a str>,
    problems: &'a [Problem],
}

#[derive(Serialize)]
struct UpstreamReport<'a> {
    id: &'a str,
    /// Its name in the file, if that is not a valid id.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached_by: Option<&'static str>,
    /// Why it is off, if the config does not switch it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct PackReport {
    name: &'static str,
    enabled: bool,
    /// Why it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<PackState> for PackReport {
    fn from(PackState { pack, config }: PackState) -> Self {
        Self { name: pack.name(), enabled: config.is_ok(), reason: config.err() }
    }
}

fn print_json(found: &Found, loaded: Loaded) -> Result<(), Failure> {
    let ok = loaded.config.is_some();
    let config = loaded.config.unwrap_or_default();
    let on = config.upstreams.on.iter().map(|upstream| UpstreamReport {
        id: upstream.id.as_str(),
        name: upstream.renamed_from.as_deref(),
        enabled: true,
        reason: None,
        reached_by: Some(match upstream.reach {
            Reach::Program(_) => "command",
            Reach::Server(_) | Reach::Socket(_) => "url",
        }),
    });
    let off = config.upstreams.off.iter();
    let off = off.map(|off| UpstreamReport {
        id: off.id.as_str(),
        name: None,
        enabled: false,
        reached_by: None,
        reason: off.reason(),
    });
    let report = Report {
        ok,
        files: found.files().iter().map(|file| file.display().to_string()).collect(),
        upstreams: on.chain(off).collect(),
        packs: states(&config).into_iter().map(PackReport::from).collect(),
        profiles: config.profiles.iter().map(|profile| profile.name.as_str()).collect(),
        problems: &loaded.problems,
    };
    say::result(serde_json::to_string_pretty(&report).map_err(anyhow::Error::from)?);
    if ok { Ok(()) } else { Err(Failure::AlreadyReported(2)) }
}
