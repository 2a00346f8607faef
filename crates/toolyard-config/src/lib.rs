//! The configuration as written: found, read and checked, with every problem reported at its place.
//! The program builds the gateway's plan from it.

pub mod definition;
mod schema;
pub mod secret;
pub mod own;
pub mod state_dir;
pub mod folder_lock;
pub mod save;
pub mod jsonc;
pub mod socket;
pub mod standby;
pub mod system;
mod fingerprint;
mod find;
mod trust;
mod problem;
mod tree;
mod reader;
mod interpolate;
mod suggest;
mod duration;
mod reach;
mod logins;
mod oauth;
mod resource;
mod upstream;
mod mcp_servers;
mod mcpproxy;
mod packs;
mod profile;
mod listen;
mod apps;
mod auth;
mod audit;
mod cluster;
mod metrics;
mod traces;
mod log;
mod limits;
mod hooks;
mod tools;
mod health;
mod pins;
mod rules;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolyard_core::plan::Pings;
use toolyard_core::settings::Pattern;
use toolyard_core::{CallRules, LimitPlan, ProfilePlan};
use toolyard_policy::pin::PinPolicy;
use toolyard_policy::rules::Policy;
use toolyard_proto::name::{DEFAULT_BUDGET, MIN_BUDGET, NameStyle, UpstreamId};
use toolyard_proto::token::Rules;

pub use apps::{AppsConfig, DEFAULT as DEFAULT_APPS, Scan, TcpDoor};
pub use audit::{AuditConfig, AuditPayloads, AuditSync};
pub use cluster::{ClusterConfig, ClusterCredentials, LONGEST_LEASE};
pub use duration::parse as parse_duration;
pub use find::{Found, PROJECT_FILE, Role, Source, find, of_the_proxy, project, unused_hint};
pub use fingerprint::{fingerprint, fingerprint_of_pack, fingerprint_on_any_machine};
pub use interpolate::source::{run_command, words as command_words};
pub use interpolate::{Commands, Missing, Secrets, Variables, environment};
pub use listen::{DEFAULT as DEFAULT_ADDRESS, ListenConfig, LocalDoor, needs_token, parse_address};
pub use log::{LogConfig, LogFormat, LogLevel};
pub use logins::LoginConfig;
pub use metrics::MetricsConfig;
pub use oauth::OAuthConfig;
pub use packs::{KnownPacks, PackConfig, PackProblem, PackSchema};
pub use pins::lock_path;
pub use problem::{Level, Place, Problem, ProblemKind};
pub use reach::{Program, Reach, Server, SpareConfig};
pub use resource::{IntrospectionConfig, ResourceConfig};
pub use schema::schema;
pub use traces::TracesConfig;
pub use trust::{Agreed, TrustState, Trusted};
pub use upstream::{OffUpstream, StartConfig, UpstreamConfig, Upstreams};

pub use hooks::HookSection;
pub use suggest::nearest;
pub use tools::ToolSection;
pub use tree::{Entry, File, Format, Node, Value};

use auth::AuthSection;
use mcpproxy::McpProxy;
use reader::{Field, Reader, Section};

const LEAST_DEBOUNCE: Duration = Duration::from_millis(1);
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(10);
/// Models accept no longer names than this.
const LONGEST_BUDGET: usize = 64;

#[derive(Debug, Default)]
pub struct Config {
    pub upstreams: Upstreams,
    /// The sections of packs; the program decides which packs are on.
    pub packs: Vec<PackConfig>,
    pub profiles: Vec<ProfilePlan>,
    /// The tools that the lean view lists, by patterns over canonical ids.
    pub lean: Vec<Pattern>,
    pub listen: ListenConfig,
    pub apps: AppsConfig,
    /// How upstreams are pinged.
    pub pings: Pings,
    /// How tokens of apps and agents are checked, where tokens are required.
    pub auth: Option<Rules>,
    /// Whose tokens are accepted from clients.
    pub oauth: Option<ResourceConfig>,
    /// Accounts at providers.
    pub logins: Vec<LoginConfig>,
    pub log: LogConfig,
    /// Whether and how calls are recorded.
    pub audit: Option<AuditConfig>,
    /// Other gateways to work with as one.
    pub cluster: Option<ClusterConfig>,
    pub metrics: MetricsConfig,
    /// Where calls are exported as spans.
    pub traces: Option<TracesConfig>,
    /// Settings of single tools.
    pub tools: Vec<ToolSection>,
    pub limits: Vec<LimitPlan>,
    pub hooks: Vec<HookSection>,
    /// Show the only upstream as if clients spoke to it directly.
    pub transparent: bool,
    pub names: NameStyle,
    /// How long changes are gathered before lists change, if not as usual.
    pub debounce: Option<Duration>,
    /// The action for a changed definition.
    pub pins: PinPolicy,
    /// Who may call what.
    pub rules: Option<Arc<Policy>>,
    /// Where `audit`, `apps.timeout` and each `limits.NAME` are written.
    pub places: BTreeMap<String, Place>,
}

/// A config, if it is valid, and its problems.
#[derive(Debug)]
pub struct Loaded {
    pub config: Option<Config>,
    /// The secret and the rules for tokens. Read even if the rest of the config is invalid.
    pub auth: Option<Rules>,
    pub problems: Vec<Problem>,
}

/// The inputs for reading a config.
#[derive(Clone, Copy)]
pub struct ReadContext<'a> {
    pub variables: &'a Variables<'a>,
    pub secrets: &'a Secrets<'a>,
    /// Runs the commands of `${cmd:…}`; without it, nothing is run and their values are not known.
    pub commands: Option<&'a Commands<'a>>,
    pub packs: &'a KnownPacks,
    /// Whether it is read to talk to a gateway that runs already, and that has its own environment: then it does not
    /// matter which variables are set here.
    pub is_for_running: bool,
}

impl std::fmt::Debug for ReadContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadContext").field("packs", &self.packs).finish_non_exhaustive()
    }
}

/// Reads the files in force and checks all of them. A later one wins, upstream by upstream.
pub fn load(sources: &[Source], context: &ReadContext<'_>) -> Loaded {
    let (mut config, mut problems) = (Config::default(), Vec::new());
    for source in sources {
        let read = read_file(&source.path).map(|file| read(&file, source.role, &config, context));
        let (layer, more) = read.unwrap_or_else(|problem| (None, vec![problem]));
        let is_good = layer.is_some() && !more.iter().any(Problem::is_error);
        problems.extend(more);
        let mut layer = layer.unwrap_or_default();
        pins::apply_lock(&source.path, &mut layer.upstreams);
        config.lay_over(layer);
        if !is_good {
            // A later file cannot be checked against an earlier one that is broken.
            return Loaded { config: None, auth: config.auth, problems };
        }
    }
    Loaded { auth: config.auth.clone(), config: Some(config), problems }
}

/// The config of a text that is in no file. Relative paths in it start from `folder`.
pub fn load_text(text: String, folder: &Path, context: &ReadContext<'_>) -> Loaded {
    let file = File { path: folder.join("config.toml"), text };
    let (layer, problems) = read(&file, Role::Own, &Config::default(), context);
    let layer = layer.filter(|_| !problems.iter().any(Problem::is_error));
    let config = layer.map(|layer| {
        let mut config = Config::default();
        config.lay_over(layer);
        config
    });
    Loaded { auth: None, config, problems }
}

/// The problems that a file would have with this text. `below` are the files that come before it.
pub fn check(source: &Source, text: String, below: &[Source], context: &ReadContext<'_>) -> Vec<Problem> {
    let below = load(below, context).config.unwrap_or_default();
    read(&File { path: source.path.clone(), text }, source.role, &below, context).1
}

pub fn read_file(path: &Path) -> Result<File, Problem> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        Problem::error("", message, "check the path and its permissions; the file must be UTF-8 text")
    })?;
    Ok(File { path: path.to_owned(), text })
}

/// The settings of one file; those that it does not have come from the files below it.
#[derive(Default)]
struct Layer {
    upstreams: Upstreams,
    packs: Vec<PackConfig>,
    profiles: Vec<ProfilePlan>,
    lean: Option<Vec<Pattern>>,
    listen: Option<ListenConfig>,
    apps: Option<AppsConfig>,
    pings: Option<Pings>,
    auth: Option<Rules>,
    oauth: Option<ResourceConfig>,
    logins: Vec<LoginConfig>,
    log: Option<LogConfig>,
    audit: Option<AuditConfig>,
    cluster: Option<ClusterConfig>,
    metrics: Option<MetricsConfig>,
    traces: Option<TracesConfig>,
    tools: Vec<ToolSection>,
    limits: Vec<LimitPlan>,
    hooks: Vec<HookSection>,
    transparent: Option<bool>,
    names: Option<NameStyle>,
    debounce: Option<Duration>,
    pins: Option<PinPolicy>,
    rules: Option<Arc<Policy>>,
    places: BTreeMap<String, Place>,
}

impl Config {
    /// The settings of the steps of calls.
    pub fn calls(&self) -> CallRules {
        let tools = self.tools.iter().map(|section| section.rule.clone()).collect();
        let hooks = self.hooks.iter().filter(|hook| hook.is_on).map(|hook| hook.plan.clone()).collect();
        CallRules { tools, limits: self.limits.clone(), hooks, rules: self.rules.clone() }
    }

    fn lay_over(&mut self, layer: Layer) {
        self.upstreams.lay_over(layer.upstreams);
        self.packs.retain(|old| layer.packs.iter().all(|new| new.name != old.name));
        self.packs.extend(layer.packs);
        self.profiles.retain(|old| layer.profiles.iter().all(|new| new.name != old.name));
        self.profiles.extend(layer.profiles);
        self.lean = layer.lean.unwrap_or(std::mem::take(&mut self.lean));
        self.listen = layer.listen.unwrap_or(std::mem::take(&mut self.listen));
        self.apps = layer.apps.unwrap_or(std::mem::take(&mut self.apps));
        self.pings = layer.pings.unwrap_or(self.pings);
        self.auth = layer.auth.or(self.auth.take());
        self.oauth = layer.oauth.or(self.oauth.take());
        self.logins.retain(|old| layer.logins.iter().all(|new| new.name != old.name));
        self.logins.extend(layer.logins);
        self.log = layer.log.unwrap_or(self.log);
        self.audit = layer.audit.or(self.audit);
        self.cluster = layer.cluster.or(self.cluster.take());
        self.metrics = layer.metrics.unwrap_or(self.metrics);
        self.traces = layer.traces.or(self.traces.take());
        let id = |section: &ToolSection| (section.rule.profile.clone(), section.rule.pattern.clone());
        self.tools.retain(|old| layer.tools.iter().all(|new| id(new) != id(old)));
        self.tools.extend(layer.tools);
        self.limits.retain(|old| layer.limits.iter().all(|new| new.name != old.name));
        self.limits.extend(layer.limits);
        self.hooks.retain(|old| layer.hooks.iter().all(|new| new.plan.name != old.plan.name));
        self.hooks.extend(layer.hooks);
        self.transparent = layer.transparent.unwrap_or(self.transparent);
        self.names = layer.names.unwrap_or(self.names);
        self.debounce = layer.debounce.or(self.debounce);
        self.rules = layer.rules.or(self.rules.take());
        self.pins = layer.pins.unwrap_or(std::mem::take(&mut self.pins));
        self.places.extend(layer.places);
    }
}

/// The settings of a file and its problems. `below` is the config of the files before this one.
fn read(file: &File, role: Role, below: &Config, context: &ReadContext<'_>) -> (Option<Layer>, Vec<Problem>) {
    let entries = match file.entries() {
        Ok(entries) => entries,
        Err(problems) => return (None, problems),
    };
    let mut reader = Reader::new(file, context);
    let root = Section::root(entries);
    let layer = match file.format() {
        Format::Toml => read_toml(root, role, below, &mut reader),
        Format::Json if mcpproxy::SECTIONS.iter().any(|section| root.has(section)) => {
            let McpProxy { apps, auth, log, debounce } = mcpproxy::read(root, &mut reader);
            Layer { apps: Some(apps), auth, log, debounce, ..Layer::default() }
        }
        Format::Json => Layer { upstreams: mcp_servers::read(root, &mut reader), ..Layer::default() },
    };
    let places = reader.take_places();
    (Some(Layer { places, ..layer }), reader.finish())
}

fn read_toml(mut root: Section, role: Role, below: &Config, reader: &mut Reader<'_>) -> Layer {
    let own = own_address(&root, below);
    let upstreams = upstream::read(&mut root, reader, own);
    let mut ids: Vec<String> = upstreams.ids().map(|id| id.as_str().to_owned()).collect();
    let is_inherited = |id: &&UpstreamId| upstreams.ids().all(|own| own.fold() != id.fold());
    let on = upstreams.on.len() + below.upstreams.on.iter().filter(|below| is_inherited(&&below.id)).count();
    ids.extend(below.upstreams.ids().filter(is_inherited).map(|id| id.as_str().to_owned()));
    let packs = packs::read(&mut root, reader);
    let limits = limits::read(&mut root, reader);
    let limit_names: Vec<String> =
        limits.iter().chain(&below.limits).map(|limit| limit.name.to_string()).collect();
    let hooks = match role {
        Role::Own => hooks::read(&mut root, reader),
        Role::Project => hooks::refuse(&mut root, reader),
    };
    let known = tools::Known { limits: &limit_names };
    let mut tools = tools::read(&mut root, reader, None, known);
    let profiles = profile::read(&mut root, reader, &ids, |section, reader, profile| {
        tools.extend(tools::read(section, reader, Some(profile), known));
    });
    let AuthSection { rules: auth, oauth } = match role {
        Role::Own => root.take("auth").map(|field| auth::read(field, reader)).unwrap_or_default(),
        Role::Project => auth::refuse(&mut root, reader),
    };
    let has_issuers = oauth.is_some() || below.oauth.is_some();
    let lean = root.take("lean").map(|field| profile::read_lean(reader, field, &ids));
    let listen = match role {
        Role::Own => root.take("listen").map(|field| listen::read(field, reader, has_issuers)),
        Role::Project => listen::refuse(&mut root, reader),
    };
    let transparent = read_transparent(&mut root, reader, on);
    let names = read_names(&mut root, reader);
    let apps = match role {
        Role::Own => root.take("apps").map(|field| read_apps(field, &ids, reader)),
        Role::Project => apps::refuse(&mut root, reader),
    };
    let logins = match role {
        Role::Own => logins::read(&mut root, reader),
        Role::Project => logins::refuse(&mut root, reader),
    };
    let log = match role {
        Role::Own => root.take("log").map(|field| log::read(field, reader)),
        Role::Project => log::refuse(&mut root, reader),
    };
    let audit = match role {
        Role::Own => root.take("audit").and_then(|field| audit::read(field, reader)),
        Role::Project => audit::refuse(&mut root, reader),
    };
    let cluster = match role {
        Role::Own => root.take("cluster").and_then(|field| cluster::read(field, reader)),
        Role::Project => cluster::refuse(&mut root, reader),
    };
    let metrics = root.take("metrics").and_then(|field| metrics::read(field, reader));
    let traces = match role {
        Role::Own => root.take("traces").and_then(|field| traces::read(field, reader)),
        Role::Project => traces::refuse(&mut root, reader),
    };
    let debounce = root.take("catalog_debounce");
    let debounce = debounce.and_then(|field| field.duration_within(reader, LEAST_DEBOUNCE, LONGEST_DEBOUNCE));
    let pings = root.take("health").map(|field| health::read(field, reader));
    let rules = match role {
        Role::Own => rules::read(&mut root, reader, own),
        Role::Project => rules::refuse(&mut root, reader),
    };
    let pin_policy = match role {
        Role::Own => root.take("pins").map(|field| pins::read(field, reader)),
        Role::Project => pins::refuse(&mut root, reader),
    };
    root.finish(reader);
    Layer {
        upstreams,
        packs,
        profiles,
        lean,
        listen,
        apps,
        pings,
        auth,
        oauth,
        logins,
        log,
        audit,
        cluster,
        metrics,
        traces,
        tools,
        limits,
        hooks,
        transparent,
        names,
        debounce,
        pins: pin_policy,
        rules,
        places: BTreeMap::new(),
    }
}

fn read_apps(field: Field, ids: &[String], reader: &mut Reader<'_>) -> AppsConfig {
    let at = field.at;
    let apps = apps::read(field, reader);
    apps::check_ids(reader, at, &apps.endpoints, ids);
    apps
}

/// The address at which the gateway of this config listens.
fn own_address(root: &Section, below: &Config) -> SocketAddr {
    let written = root.peek("listen", "http").and_then(|text| parse_address(&text));
    written.or(below.listen.http).unwrap_or(DEFAULT_ADDRESS)
}

fn read_transparent(root: &mut Section, reader: &mut Reader<'_>, upstreams: usize) -> Option<bool> {
    let field = root.take("transparent")?;
    let transparent = field.flag(reader)?;
    if transparent {
        profile::warn_unless_alone(reader, &field, upstreams);
    }
    Some(transparent)
}

fn read_names(root: &mut Section, reader: &mut Reader<'_>) -> Option<NameStyle> {
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
    chosen.or(budget.map(|_| shown))
}
