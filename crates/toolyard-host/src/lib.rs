//! The services of the gateway for its packs: folders, child processes under a guard, and a list of what each pack
//! runs. The parts are the traits of `toolyard_tool::host`; this crate implements them.

mod folders;
mod children;
mod gateway;
mod services;
mod program;
mod tasks;
mod system;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use toolyard_guard::Guard;
use toolyard_model::{Delegates, Handler};
use toolyard_tool::Host;
use toolyard_tool::host::{Credentials, Events, Hooks, Limits, WeakHost};

use children::GuardedChildren;
use folders::PackFolders;
use gateway::TheGateway;
use services::{LateCredentials, LateDelegations, LateEvents, LateHooks, LateLimits};
use tasks::SqliteTasks;

/// Whether the user lets packs run programs and code of a project.
pub type Trusts = dyn Fn(&Path) -> bool + Send + Sync;

/// The settings that all hosts share.
pub struct HostSettings {
    /// The folder of the gateway's state, if it has one.
    pub state: Option<PathBuf>,
    /// The folder for data that can be made again, shared by all gateways of the user.
    pub cache: Option<PathBuf>,
    /// The guard for child processes.
    pub guard: Option<Guard>,
    pub trusts: Box<Trusts>,
}

impl Default for HostSettings {
    /// A host without folders that trusts no project.
    fn default() -> Self {
        Self { state: None, cache: None, guard: None, trusts: Box::new(|_| false) }
    }
}

/// Makes the hosts of packs and knows what they run. Cheap to clone.
#[derive(Clone)]
pub struct Hosts(Arc<Shared>);

struct Shared {
    settings: Arc<HostSettings>,
    made: Mutex<Vec<Made>>,
    gateway: Arc<TheGateway>,
    hooks: Arc<LateHooks>,
    limits: Arc<LateLimits>,
    credentials: Arc<LateCredentials>,
    delegations: Arc<LateDelegations>,
    events: Arc<LateEvents>,
    /// By pack: a set that replaces another one continues its tasks.
    tasks: Mutex<HashMap<String, SqliteTasks>>,
}

/// A host that was made. It is listed while its pack is in use.
struct Made {
    host: WeakHost,
    children: Arc<GuardedChildren>,
}

impl Hosts {
    pub fn new(settings: HostSettings) -> Self {
        Self(Arc::new(Shared {
            settings: Arc::new(settings),
            made: Mutex::default(),
            gateway: Arc::default(),
            hooks: Arc::default(),
            limits: Arc::default(),
            credentials: Arc::default(),
            delegations: Arc::default(),
            events: Arc::default(),
            tasks: Mutex::default(),
        }))
    }

    /// The gateway that tools of packs call other tools in. It is started with the packs, so it is set later.
    pub fn set_gateway(&self, gateway: &Arc<dyn Handler>) {
        self.0.gateway.set(gateway);
    }

    /// Sets the runner of the user's hooks, which exists only after the gateway has been built.
    pub fn set_hooks(&self, hooks: Arc<dyn Hooks>) {
        self.0.hooks.set(hooks);
    }

    /// The limits of the config. They come with the gateway, so they are set later.
    pub fn set_limits(&self, limits: Arc<dyn Limits>) {
        self.0.limits.set(limits);
    }

    /// The accounts of the user; before they are set, the user is signed in nowhere.
    pub fn set_credentials(&self, credentials: Arc<dyn Credentials>) {
        self.0.credentials.set(credentials);
    }

    /// The event stream. It comes with the gateway, so it is set later.
    pub fn set_events(&self, events: Arc<dyn Events>) {
        self.0.events.set(events);
    }

    /// The tokens of runs that packs start, and the command that serves the gateway to one of them.
    pub fn set_delegates(&self, delegates: Delegates, command: Vec<String>) {
        self.0.delegations.set(delegates, command);
    }

    /// A host for one tool set of a pack. Nothing is made before the pack asks for it.
    pub fn host(&self, pack: &str) -> Host {
        let settings = &self.0.settings;
        let children = Arc::new(GuardedChildren::new(settings.clone()));
        let folders = PackFolders::new(settings.state.as_deref(), settings.cache.as_deref());
        let host = Host::builder(pack)
            .children(children.clone())
            .folders(Arc::new(folders.clone()))
            .gateway(self.0.gateway.clone())
            .hooks(self.0.hooks.clone())
            .limits(self.0.limits.clone())
            .credentials(self.0.credentials.clone())
            .delegations(self.0.delegations.clone())
            .events(self.0.events.clone())
            .tasks(Arc::new(self.tasks(pack, &folders)))
            .build();
        let mut made = self.made();
        made.retain(|made| made.host.upgrade().is_some());
        made.push(Made { host: host.downgrade(), children });
        host
    }

    /// The background work and the child processes of each pack that has any.
    pub fn to_json(&self) -> Value {
        let entry = |made: &Made| {
            let host = made.host.upgrade()?;
            let (work, children) = (host.running(), made.children.to_json());
            let is_idle = work.is_empty() && children.is_empty();
            (!is_idle).then(|| json!({ "pack": host.pack(), "work": work, "children": children }))
        };
        self.made().iter().filter_map(entry).collect()
    }

    fn tasks(&self, pack: &str, folders: &PackFolders) -> SqliteTasks {
        let mut tasks = self.0.tasks.lock();
        tasks.entry(pack.to_owned()).or_insert_with(|| SqliteTasks::new(folders.of_state(pack))).clone()
    }

    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.0.made.lock()
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("made", &self.made().len()).finish()
    }
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, cache, guard, .. } = self;
        f.debug_struct("HostSettings")
            .field("state", state)
            .field("cache", cache)
            .field("guard", guard)
            .finish_non_exhaustive()
    }
}
