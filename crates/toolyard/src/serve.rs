//! `toolyard serve`: opens the door, starts the gateway behind it, and ends both in order when told to.

mod greeting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use toolyard_core::Gateway;
use toolyard_transport::admit::Gate;
use toolyard_transport::serve::{Endpoint, Options, serve_http};
use toolyard_transport::{Principal, Scope};

use crate::bind::{Bound, bind};
use crate::cli::{Common, ServeArgs};
use crate::config::{ListenConfig, needs_token};
use crate::connect::Approach;
use crate::failure::Failure;
use crate::guard::Guards;
use crate::plan::plan;
use crate::say;
use crate::settings::{self, Settings};
use crate::state_dir::{self, Announcement};
use crate::stop::Stop;

/// How long calls in flight may take to finish once the gateway is told to stop.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// How long tasks may take to end after that. Links bound their own end; this is for what nobody foresaw.
const LAST_TASKS: Duration = Duration::from_secs(5);

pub(crate) fn serve(common: &Common, args: &ServeArgs) -> Result<(), Failure> {
    let settings = settings::read(common)?;
    settings.remarks.iter().filter(|_| !common.quiet).for_each(say::line);
    if let Some(address) = args.listen
        && let Some(problem) = needs_token("--listen", address, settings.config.listen.token.is_some())
    {
        return Err(Failure::Config(vec![problem]));
    }
    let state_dir = open_state_dir(common, &settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("start the runtime")?;
    runtime.block_on(run(common, args, settings, state_dir))?;
    Ok(())
}

/// A folder that was asked for must be there; without the usual one the gateway only remembers less.
fn open_state_dir(common: &Common, settings: &Settings) -> Result<Option<PathBuf>> {
    let files = settings.found.file.as_slice();
    match state_dir::open(common.state_dir.as_deref(), files, &settings::variable) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if common.state_dir.is_some() => Err(error.context("open the state directory")),
        Err(error) => {
            tracing::warn!("nothing is kept between runs: {error:#}");
            Ok(None)
        }
    }
}

/// The same: other programs find the gateway by this only if they know the folder.
fn announce(common: &Common, state_dir: Option<&Path>, url: &str) -> Result<Option<Announcement>> {
    match state_dir.map(|folder| Announcement::write(folder, url)).transpose() {
        Err(error) if common.state_dir.is_none() => {
            tracing::warn!("other programs cannot find this gateway: {error:#}");
            Ok(None)
        }
        announced => announced,
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
    let Bound { listener, address, taken } = bind(args.listen.or(config.listen.http)).await?;
    let guards = Guards::begin(state_dir.as_deref());
    let url = format!("http://{address}");
    // Whoever reads it can connect from here on, and nothing has been started yet that a failure would leave.
    let announcement = announce(common, state_dir.as_deref(), &url)?;
    let scope = Scope::new();
    let plan = plan(&config, state_dir, &Approach::new(guards.guard(), scope.child()));
    let gateway = Gateway::start(plan, &scope);
    let options = options(&config.listen);
    let endpoint = Arc::new(Endpoint::new(Arc::new(gateway.clone()), options, &scope));
    scope.spawn(serve_http(listener, endpoint.clone(), scope.clone()));
    greeting::print(&greeting::Greeting { url, taken, found: &found, config: &config, quiet: common.quiet });
    let signal = stop.told().await;
    tracing::info!("{signal}: stopping");
    end(&endpoint, &gateway, &mut stop).await;
    drop(announcement);
    let _ = tokio::time::timeout(LAST_TASKS, scope.end()).await;
    drop(guards);
    Ok(())
}

fn options(listen: &ListenConfig) -> Options {
    let gate = match &listen.token {
        Some(token) => Gate::open().with_token(Principal::named("token"), token),
        None => Gate::open(),
    };
    Options { gate, hosts: listen.hosts.clone(), origins: listen.origins.clone(), ..Options::default() }
}

/// Clients first, so that calls can finish while their upstreams still live. Whoever says it twice means now.
async fn end(endpoint: &Endpoint, gateway: &Gateway, stop: &mut Stop) {
    tokio::select! {
        () = endpoint.end(LAST_CALLS) => {}
        signal = stop.told() => tracing::info!("{signal} again: stopping now"),
    }
    gateway.end().await;
}
