//! `toolyard serve`: opens the listeners, starts the gateway behind them, and ends both in order on a signal.

mod greeting;
mod reload;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::Notify;
use toolyard_audit::{Audit, AuditOptions, Durability, Payloads};
use toolyard_config::folder_lock::{FolderLock, FolderUse};
use toolyard_config::socket;
use toolyard_config::state_dir::{self, Addresses};
use toolyard_config::{
    AppsConfig, AuditConfig, AuditPayloads, AuditSync, Config, Found, LocalDoor, Problem, Scan, needs_token,
};
use toolyard_core::discovery::{self, Endpoints, Finder, Instances};
use toolyard_core::event::{Sink, Sinks};
use toolyard_core::plan::Connect;
use toolyard_core::{Apps, Controls, Gateway, Plan};
use toolyard_dashboard::Dashboard;
use toolyard_guard::Guards;
use toolyard_metrics::ToolMetrics;
use toolyard_model::{Delegates, Handler, Keys, Principal, Scope};
use toolyard_oauth::Web;
use toolyard_oauth::client::SignIns;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::token::Rules;
use toolyard_serve::admit::{Gate, Signed};
use toolyard_serve::{Endpoint, Options};

use crate::address_file::{Note, OwnAddresses};
use crate::apps::{self, AppDoors};
use crate::cli::{Common, ServeArgs};
use crate::cluster::Node;
use crate::commands::answers;
use crate::connect::{self, ConnectContext};
use crate::doors::Doors;
use crate::failure::Failure;
use crate::known_listeners::KnownListeners;
use crate::logging::{self, Wish};
use crate::pack_events::PackEvents;
use crate::pack_hooks::PackHooks;
use crate::pack_limits::PackLimits;
use crate::plan::plan;
use crate::settings::{self, Settings};
use crate::stop::Stop;
use crate::traces::Tracing;
use crate::{cluster, control, packs, say, system};
use reload::Reload;

/// How long calls in flight may take to finish once the gateway has been asked to stop.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// How long tasks may take to end after that. Links bound their own end; this is a last resort.
const LAST_TASKS: Duration = Duration::from_secs(5);
/// How long threads that read files may take.
const LAST_THREADS: Duration = Duration::from_secs(1);
/// How long a gateway that runs only for its clients waits for the first, and for the next. The latter is
/// enough for a client that restarts its shim, and leaves time to end all children within two seconds.
const FIRST_CLIENT: Duration = Duration::from_secs(10);
const NEXT_CLIENT: Duration = Duration::from_millis(500);

pub(crate) fn serve(common: &Common, args: &ServeArgs) -> Result<(), Failure> {
    if args.while_needed {
        system::leave_session();
    }
    let settings = settings::read(common);
    let config = settings.as_ref().map(|settings| settings.config.log).unwrap_or_default();
    logging::start(&Wish { config, ..common.log(true) }).map_err(Failure::Usage)?;
    let settings = settings?;
    system::allow_many_files();
    settings.remarks.iter().filter(|_| !common.quiet).for_each(say::line);
    if let Some(address) = args.listen
        && let Some(problem) = needs_token("--listen", address, has_credentials(&settings.config))
    {
        return Err(Failure::Config(vec![problem]));
    }
    let state_dir = open_state_dir(common, &settings)?;
    let _folder_lock =
        state_dir.as_deref().map(|folder| take_folder(common, &settings, folder)).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("start the runtime")?;
    let ended = runtime.block_on(run(common, args, settings, state_dir));
    // A file system that hangs must not block the end.
    runtime.shutdown_timeout(LAST_THREADS);
    Ok(ended?)
}

/// Whether clients over HTTP must authenticate.
fn has_credentials(config: &Config) -> bool {
    config.listen.token.is_some() || config.oauth.is_some()
}

/// A state directory that was asked for must be usable; without the default one the gateway only stores less.
fn open_state_dir(common: &Common, settings: &Settings) -> Result<Option<PathBuf>> {
    let files = settings.found.set();
    match state_dir::open(common.state_dir.as_deref(), &files, &settings::variable) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if common.state_dir.is_some() => {
            Err(anyhow::Error::from(error).context("open the state directory"))
        }
        Err(error) => {
            tracing::warn!("nothing is kept between runs: {error:#}");
            Ok(None)
        }
    }
}

/// Takes the state directory for this config, until the lock is dropped. Fails if a gateway of another config has it.
fn take_folder(common: &Common, settings: &Settings, folder: &Path) -> Result<Option<FolderLock>, Failure> {
    let set = state_dir::set(common.state_dir.as_deref(), &settings.found.set(), &settings::variable);
    let announced = || state_dir::announced(folder);
    let other = announced().filter(|other| other.set.as_ref().is_some_and(|other| *other != set));
    let other = other.filter(|other| answers(&other.http)).map(|other| (other.http, other.pid));
    let (http, pid) = match (other, FolderLock::take(folder, &set)) {
        (Some((http, pid)), _) => (http, pid),
        (None, Ok(FolderUse::Own(lock))) => return Ok(Some(lock)),
        // It has just been started, and may not have announced its address yet.
        (None, Ok(FolderUse::Other { pid })) => {
            let http = announced().filter(|other| other.pid == pid).map(|other| other.http);
            (http.unwrap_or_else(|| "an address that is not known yet".to_owned()), pid)
        }
        (None, Err(error)) => {
            tracing::debug!("the state directory cannot be locked: {error}");
            return Ok(None);
        }
    };
    let folder = folder.display();
    let message = format!("{folder} is in use by a gateway with another config, at {http} (process {pid})");
    let help = "choose another folder, or stop that gateway first";
    Err(Failure::Config(vec![Problem::error("--state-dir", message, help)]))
}

/// All listeners.
struct Entrance {
    doors: Doors,
    app_doors: AppDoors,
    apps_config: AppsConfig,
    addresses: Addresses,
}

impl Entrance {
    /// Comes first: nothing has been started yet that a failure would leave behind.
    fn open(common: &Common, args: &ServeArgs, found: &Found, config: &Config) -> Result<Self> {
        let set = state_dir::set(common.state_dir.as_deref(), &found.set(), &settings::variable);
        let local = socket::path(&config.listen.local, &set, &settings::variable);
        let doors = Doors::open(args.listen, &config.listen, local.as_deref())?;
        if args.while_needed && !doors.has_local() {
            anyhow::bail!(
                "a gateway with --while-needed needs its socket: clients could not find it otherwise"
            );
        }
        let apps_config = if args.no_apps { AppsConfig::closed() } else { config.apps.clone() };
        let beside = socket::path(&LocalDoor::Default, &set, &settings::variable);
        let beside = local.as_deref().or(beside.as_deref()).unwrap_or(Path::new(""));
        let apps_socket = apps::path(&apps_config.local, beside);
        let app_doors = AppDoors::open(&apps_config, apps_socket.as_deref())?;
        let mut addresses = doors.addresses();
        (addresses.apps, addresses.apps_socket) = app_doors.addresses();
        Ok(Self { doors, app_doors, apps_config, addresses })
    }
}

async fn run(
    common: &Common,
    args: &ServeArgs,
    settings: Settings,
    state_dir: Option<PathBuf>,
) -> Result<()> {
    let mut stop = Stop::new()?;
    let Settings { found, config, .. } = settings;
    let Entrance { doors, app_doors, apps_config, addresses } =
        Entrance::open(common, args, &found, &config)?;
    let guards = Guards::begin(state_dir.as_deref());
    // From here on clients can connect. Nothing has been started yet that would be left over by a failure.
    let (scope, noting, own_addresses) = (Scope::new(), Scope::new(), OwnAddresses::new(addresses.clone()));
    let set = state_dir::set(common.state_dir.as_deref(), &found.set(), &settings::variable);
    let file = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let files = found.sources.iter().map(|source| file(&source.path)).collect();
    noting.spawn(Note::begin(common, state_dir.as_deref(), (set, files), &own_addresses)?.keep());
    let log_folder = state_dir.clone().filter(|_| args.while_needed);
    noting.spawn(async move { keep_log_bounded(log_folder).await });
    let keys = keys(state_dir.as_deref())?;
    let context = ConnectContext::new(guards.guard(), scope.child()).with_folders(state_dir.clone());
    let context = context.with_cluster(Node::open(&config, &keys)?);
    let node = context.cluster().cloned();
    let packs = context.packs().clone();
    let base = config.listen.public_url.as_deref().unwrap_or(&addresses.http);
    let sign_ins = sign_in_pages(&context, base, node.is_some().then(|| keys.gateway()));
    let resource = config.oauth.as_ref().map(|oauth| context.sign_ins().resource(oauth, base));
    let audit = open_audit(&config, state_dir.as_deref())?;
    let traces = Tracing::start(&config)?;
    let sinks = sinks(audit.as_ref(), &traces, &config);
    let plan = Plan { sinks, ..plan(&config, state_dir.clone(), &context) };
    let gateway = Gateway::start(plan, &scope);
    gateway.add_routes(audit.iter().flat_map(|(_, path)| toolyard_audit::routes(path)));
    control::config_routes(&gateway, common);
    let hosts = context.hosts().clone();
    gateway.report_on("packs", move || hosts.to_json());
    let orders = Orders::of(&gateway);
    let signed = config.auth.clone().map(|rules| signed(rules, state_dir.as_deref())).transpose()?;
    let apps = apps::apps(&gateway, &apps_config, signed.clone(), &scope);
    let endpoints = Discovery { gateway: &gateway, apps: &apps, context: &context, scope: &scope };
    let known = KnownListeners::new(&config, &apps_config, &own_addresses);
    let endpoints = endpoints.begin(args, &known, &apps_config);
    let (taken, apps_taken) = (doors.taken(), app_doors.taken());
    app_doors.serve(&gateway, &apps, &own_addresses, &scope);
    let mut options = options(&config, signed, keys, state_dir.as_deref());
    options.nodes = cluster::nodes(node.as_ref(), &scope);
    if let Some(resource) = &resource {
        options.gate = options.gate.with_issued(Arc::new(resource.clone()));
    }
    options.gate = admit_runs(options.gate, &context, common);
    options.public_pages = Some(Arc::new(Web::new(sign_ins, resource)));
    let handler = Arc::new(gateway.clone());
    serve_packs(&context, &handler, &config);
    let pages = args.ui_dir.clone().map_or(Dashboard::Embedded, Dashboard::Folder);
    let endpoint = Endpoint::new(handler.clone(), options, &scope).with_control(handler);
    let endpoint = Arc::new(endpoint.with_pages(Arc::new(pages)));
    doors.serve(&endpoint, &own_addresses, &scope);
    cluster::start(&gateway, &endpoint, &context, audit.as_ref(), &scope).await?;
    greeting::print(&greeting::Greeting {
        addresses: &addresses,
        taken,
        apps_taken,
        found: &found,
        config: &config,
        quiet: common.quiet,
    });
    system::report_to_service_manager("READY=1");
    let reload = Reload {
        common: common.clone(),
        gateway: gateway.clone(),
        context,
        state_dir,
        listen: config.listen,
        apps: apps_config,
        endpoints,
        known,
        no_apps: args.no_apps,
        pings: config.pings,
        auth: config.auth,
        oauth: config.oauth,
        orders: orders.clone(),
    };
    let why = tokio::select! {
        signal = stop.signal() => signal,
        () = orders.stop.notified() => "an operator asked for it",
        () = reload.watch(found) => "the config cannot be watched any more",
        () = deserted(&endpoint), if args.while_needed => "no client is left",
    };
    tracing::info!("{why}: stopping");
    system::report_to_service_manager("STOPPING=1");
    end(&endpoint, &gateway, &packs, &mut stop).await;
    cluster::end(node.as_ref()).await;
    end_audit(audit).await;
    traces.end().await;
    let _ = tokio::time::timeout(LAST_TASKS, noting.end()).await;
    let _ = tokio::time::timeout(LAST_TASKS, scope.end()).await;
    drop(guards);
    Ok(())
}

/// The pages of sign-ins at `base`. In a cluster their addresses name the gateway that knows them.
fn sign_in_pages(context: &ConnectContext, base: &str, gateway: Option<&str>) -> Arc<SignIns> {
    let pages = context.sign_ins().pages().clone();
    pages.set_base(base);
    if let Some(gateway) = gateway {
        pages.set_gateway(gateway);
    }
    pages
}

/// Admits the runs that packs start on behalf of a client.
fn admit_runs(gate: Gate, context: &ConnectContext, common: &Common) -> Gate {
    let delegates = Delegates::default();
    context.hosts().set_delegates(delegates.clone(), own_command(common));
    gate.with_delegates(delegates)
}

/// The command that serves this gateway on stdio.
fn own_command(common: &Common) -> Vec<String> {
    let program = std::env::current_exe().unwrap_or_else(|_| "toolyard".into());
    let mut command = vec![program.display().to_string(), "stdio".into()];
    for (flag, path) in [("--config", &common.config), ("--state-dir", &common.state_dir)] {
        let path = path.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        command.extend(path.into_iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]));
    }
    command
}

/// A gateway that was started for its clients writes its log into the state directory.
async fn keep_log_bounded(folder: Option<PathBuf>) {
    if let Some(folder) = folder {
        toolyard_shim::keep_log_bounded(&folder).await;
    }
}

/// Lets the audit write its remaining records.
async fn end_audit(audit: Option<(Arc<Audit>, PathBuf)>) {
    if let Some((audit, _)) = audit {
        let _ = tokio::time::timeout(LAST_TASKS, tokio::task::spawn_blocking(move || audit.end())).await;
    }
}

/// Gives packs the services of the gateway.
fn serve_packs(context: &ConnectContext, gateway: &Arc<Gateway>, config: &Config) {
    let handler: Arc<dyn Handler> = gateway.clone();
    context.hosts().set_gateway(&handler);
    context.hosts().set_hooks(PackHooks::of(gateway));
    context.hosts().set_events(PackEvents::of(gateway));
    context.hosts().set_limits(PackLimits::of(gateway));
    context.hosts().set_credentials(context.sign_ins().accounts(&config.logins));
}

/// The audit, if the config has one, and where it is.
fn open_audit(config: &Config, state_dir: Option<&Path>) -> Result<Option<(Arc<Audit>, PathBuf)>> {
    let Some(AuditConfig { sync, payloads, keep, max_megabytes }) = config.audit else { return Ok(None) };
    let folder = state_dir.context("the audit needs a state directory; name one with --state-dir")?;
    let options = AuditOptions {
        durability: match sync {
            AuditSync::Normal => Durability::Normal,
            AuditSync::Full => Durability::Full,
        },
        payloads: match payloads {
            AuditPayloads::Digest => Payloads::Digest,
            AuditPayloads::Redacted => Payloads::Redacted,
        },
        keep,
        max_bytes: max_megabytes * 1024 * 1024,
    };
    let path = toolyard_audit::path(folder);
    Ok(Some((Audit::open(&path, options)?, path)))
}

/// The receivers of the gateway's events.
fn sinks(audit: Option<&(Arc<Audit>, PathBuf)>, traces: &Tracing, config: &Config) -> Sinks {
    let audit = audit.map(|(audit, _)| -> Arc<dyn Sink> { audit.clone() });
    let by_tool = config.metrics.tools.then(|| Arc::new(ToolMetrics::default()) as Arc<dyn Sink>);
    // Traces first: the audit may make a call wait, and its span begins before.
    Sinks(traces.sink().into_iter().chain(audit).chain(by_tool).collect())
}

/// Requests of operators through the control API.
#[derive(Default)]
struct Orders {
    reload: Notify,
    stop: Notify,
}

impl Orders {
    fn of(gateway: &Gateway) -> Arc<Self> {
        let orders = Arc::new(Self::default());
        let (reload, stop) = (orders.clone(), orders.clone());
        gateway.set_controls(Controls {
            reload: Box::new(move || reload.reload.notify_one()),
            stop: Box::new(move || stop.stop.notify_one()),
        });
        orders
    }
}

/// The discovery of upstreams that are not in the config.
struct Discovery<'a> {
    gateway: &'a Gateway,
    apps: &'a Apps,
    context: &'a ConnectContext,
    scope: &'a Scope,
}

impl Discovery<'_> {
    /// Looks for files and processes, and dials the endpoints of the config.
    fn begin(&self, args: &ServeArgs, known: &KnownListeners, config: &AppsConfig) -> Endpoints {
        let Self { gateway, apps, context, scope } = self;
        let sightings = gateway.sightings().clone();
        gateway.report_on("discovery", move || sightings.to_json());
        let context = (*context).clone();
        let connect_to =
            move |id: &UpstreamId, endpoint: &discovery::DiscoveredEndpoint| -> Arc<dyn Connect> {
                Arc::new(connect::Upstream::at(id, endpoint, &context))
            };
        let finder = Finder::new(gateway, apps, Arc::new(connect_to));
        let folders = if args.no_instances { Vec::new() } else { instance_folders() };
        scope.spawn(Instances::new(&finder, folders).watch());
        let mut endpoints = Endpoints::new(&finder);
        endpoints.set(&config.endpoints);
        if let Scan::Every(pause) = config.scan {
            let known = known.clone();
            let scan = discovery::Scan::new(
                &finder,
                toolyard_config::system::user(),
                Arc::new(move |endpoint| known.why(endpoint)),
            );
            scope.spawn(scan.watch(pause));
        }
        endpoints
    }
}

/// The folders in which instances write their files.
fn instance_folders() -> Vec<PathBuf> {
    let base = toolyard_config::system::instances_base(&settings::variable);
    ["toolyard", "brummer"].map(|program| base.join(program).join("instances")).to_vec()
}

async fn deserted(endpoint: &Endpoint) {
    if tokio::time::timeout(FIRST_CLIENT, endpoint.visited()).await.is_ok() {
        endpoint.deserted(NEXT_CLIENT).await;
    }
}

/// The tokens that were used are recorded, so that none is accepted again after a restart.
fn signed(rules: Rules, state_dir: Option<&Path>) -> Result<Signed> {
    let Some(folder) = state_dir else { return Ok(Signed::new(rules)) };
    let path = folder.join("used-tokens");
    Signed::recorded(rules, &path).with_context(|| format!("cannot record used tokens in {}", path.display()))
}

fn keys(state_dir: Option<&Path>) -> Result<Arc<Keys>> {
    let Some(folder) = state_dir else { return Ok(Arc::default()) };
    let path = folder.join("keys.json");
    let keys =
        Keys::load(&path).with_context(|| format!("cannot read or write the keys in {}", path.display()))?;
    Ok(Arc::new(keys))
}

fn options(config: &Config, signed: Option<Signed>, keys: Arc<Keys>, state_dir: Option<&Path>) -> Options {
    let listen = &config.listen;
    let mut gate = match &listen.token {
        Some(token) => Gate::open().with_token(Principal::token("token"), token),
        None => Gate::open(),
    };
    if let Some(signed) = signed {
        // Our own programs that know the secret share one bearer token for all their connections.
        for secret in config.auth.iter().flat_map(|rules| &rules.secrets) {
            gate = gate.with_token(Principal::token("secret"), &secret.bearer());
        }
        gate = gate.with_signed(signed);
    }
    if let Some(token) = &listen.operator_token {
        gate = gate.with_operator_token(token);
    }
    let usual = Options::default();
    let (mut hosts, mut origins) = (listen.hosts.clone(), listen.origins.clone());
    if let Some(url) = &listen.public_url {
        let public = url.parse::<http::Uri>().ok();
        hosts.extend(public.as_ref().and_then(http::Uri::host).map(str::to_owned));
        origins.push(url.clone());
    }
    Options {
        gate,
        keys,
        hosts,
        origins,
        session_folder: state_dir.map(|folder| folder.join("sessions")),
        keep_alive: listen.keep_alive.unwrap_or(usual.keep_alive),
        ..usual
    }
}

/// Clients first, so that calls can finish while their upstreams still live. A second signal skips the wait.
async fn end(endpoint: &Endpoint, gateway: &Gateway, packs: &packs::Sets, stop: &mut Stop) {
    let sets = packs.in_use();
    tokio::select! {
        () = endpoint.end(LAST_CALLS) => {}
        signal = stop.signal() => tracing::info!("{signal} again: stopping now"),
    }
    gateway.end().await;
    packs::end(sets).await;
}
