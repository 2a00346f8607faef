//! The services of a program for the packs that it hosts: folders, background work, child processes, limits, hooks,
//! tasks and credentials. Each part is a trait with an inert default, so that a pack that is served alone, and a
//! test, need nothing else.

mod child;
mod folders;
mod git;
mod lock;
mod services;

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;

use crate::Context;
use crate::run::reason;

pub use crate::tasks::store::{MemoryTasks, TaskQuestion, TaskRecord, TaskState, TaskStore, TaskStoreError};
pub use child::{Child, ChildCommand, ChildControl, Children};
pub use folders::{Folders, FoldersIn};
pub use git::Git;
pub use lock::CacheLock;
pub use services::{
    Credentials, Delegation, Delegations, Events, Gateway, Hooks, Limited, LimitedWork, Limits, NotSignedIn,
    Permit, SignInStatus, Verdict,
};
pub use toolyard_model::{BoxFuture, Origin, Scope};

/// A handle to what the hosting program offers. Cloning is cheap.
///
/// ```
/// use serde_json::json;
/// use toolyard_tool::Host;
/// use toolyard_tool::host::Verdict;
///
/// # #[tokio::main]
/// # async fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let host = Host::for_tests(folder.path());
/// assert!(host.state()?.is_dir());
/// assert_eq!(host.hooks("pre_model_invoke", json!({ "model": "a" })).await, Verdict::Continue(json!({ "model": "a"
/// }))); assert!(host.credentials("github").await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host(Arc<HostParts>);

struct HostParts {
    pack: Arc<str>,
    folders: Option<Arc<dyn Folders>>,
    children: Option<Arc<dyn Children>>,
    limits: Option<Arc<dyn Limits>>,
    hooks: Option<Arc<dyn Hooks>>,
    credentials: Option<Arc<dyn Credentials>>,
    gateway: Option<Arc<dyn Gateway>>,
    delegations: Option<Arc<dyn Delegations>>,
    events: Option<Arc<dyn Events>>,
    tasks: Arc<dyn TaskStore>,
    /// Background work; ends with the pack's tool set.
    scope: Scope,
    running: Mutex<Vec<Arc<str>>>,
}

/// A handle to a host that does not keep it alive.
#[derive(Clone, Debug)]
pub struct WeakHost(Weak<HostParts>);

impl WeakHost {
    /// The host, if it is still in use.
    pub fn upgrade(&self) -> Option<Host> {
        self.0.upgrade().map(Host)
    }
}

/// Builds a host. Parts that are not given are inert.
///
/// ```
/// use std::sync::Arc;
/// use toolyard_tool::Host;
/// use toolyard_tool::host::FoldersIn;
///
/// let host = Host::builder("code").folders(Arc::new(FoldersIn::new("/var/lib/toolyard",
/// "/var/cache/toolyard"))).build(); assert_eq!(host.pack(), "code");
/// ```
#[must_use]
pub struct HostBuilder(HostParts);

impl Host {
    /// A host for the pack of this name.
    pub fn builder(pack: &str) -> HostBuilder {
        HostBuilder(HostParts {
            pack: pack.into(),
            folders: None,
            children: None,
            limits: None,
            hooks: None,
            credentials: None,
            gateway: None,
            delegations: None,
            events: None,
            tasks: Arc::new(MemoryTasks::default()),
            scope: Scope::new(),
            running: Mutex::default(),
        })
    }

    /// A host that offers nothing but background work and tasks in memory: for a pack that is served alone.
    pub fn inert(pack: &str) -> Self {
        Self::builder(pack).build()
    }

    /// An inert host with folders below `folder`.
    pub fn for_tests(folder: &Path) -> Self {
        let folders = FoldersIn::new(folder.join("state"), folder.join("cache"));
        Self::builder("test").folders(Arc::new(folders)).build()
    }

    /// The name of the pack.
    pub fn pack(&self) -> &str {
        &self.0.pack
    }

    /// The pack's folder for data that must last, made on first use. One for each config.
    pub fn state(&self) -> io::Result<PathBuf> {
        self.folders()?.state(&self.0.pack)
    }

    /// The pack's folder for data that can be made again, made on first use. All gateways of the user share it: take
    /// [`cache_lock`](Self::cache_lock) for data that only one of them may write at a time.
    pub fn cache(&self) -> io::Result<PathBuf> {
        self.folders()?.cache(&self.0.pack)
    }

    fn folders(&self) -> io::Result<&Arc<dyn Folders>> {
        self.0.folders.as_ref().ok_or_else(|| self.missing("folders"))
    }

    /// Runs background work until it ends or the pack's tool set does. A panic is logged.
    ///
    /// ```
    /// # use toolyard_tool::Host;
    /// # #[tokio::main]
    /// # async fn main() {
    /// let host = Host::inert("code");
    /// host.spawn("index", std::future::pending());
    /// assert_eq!(host.running(), ["index"]);
    /// # }
    /// ```
    pub fn spawn(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) {
        let (host, name): (_, Arc<str>) = (self.clone(), name.into());
        self.work().push(name.clone());
        let guard = Done { host: self.clone(), name: name.clone() };
        self.0.scope.spawn(async move {
            let _guard = guard;
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                let panic = reason(panic.as_ref());
                tracing::error!(pack = %host.0.pack, work = %name, panic, "background work of a pack panicked");
            }
        });
    }

    /// The names of the background work that runs.
    pub fn running(&self) -> Vec<String> {
        self.work().iter().map(ToString::to_string).collect()
    }

    fn work(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<str>>> {
        self.0.running.lock()
    }

    /// Starts a program that ends with the pack, however the pack ends. The program comes from the config or from
    /// `PATH`, never from a request. One that is inside the project that it works on, or that runs code of a project,
    /// is started only if the user trusts that project.
    pub async fn child(&self, command: ChildCommand) -> io::Result<Child> {
        let children = self.0.children.as_ref().ok_or_else(|| self.missing("child processes"))?;
        children.start(&self.0.pack, command, &self.0.scope).await
    }

    /// Whether the user lets packs run programs and code of this project (`toolyard trust PATH`).
    pub fn trusts(&self, project: &Path) -> bool {
        self.0.children.as_ref().is_some_and(|children| children.trusts(project))
    }

    /// A handle that does not keep the host alive, to look at it from outside.
    pub fn downgrade(&self) -> WeakHost {
        WeakHost(Arc::downgrade(&self.0))
    }

    /// Waits for a permit under a limit of the config (`[limits.NAME]`) for work that no call waits for, in turn with
    /// the calls that the limit applies to; without such a limit the permit is there at once. `model` is what the limit
    /// counts separately if it is `per = "model"`. Dropping the permit returns it.
    ///
    /// ```
    /// # use toolyard_tool::Host;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), toolyard_tool::host::Limited> {
    /// let host = Host::inert("models");
    /// let permit = host.limits("gentle", "gpt-5.2").await?;
    /// // Send the request.
    /// drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn limits(&self, name: &str, model: &str) -> Result<Permit, Limited> {
        self.acquire(name, model, None, |_| {}).await
    }

    /// Like [`limits`](Self::limits), for work that this call waits for: its client takes turns with the others, and the
    /// limit counts it for its principal and tool. `report` is called with the number of those ahead when the work
    /// begins to wait, and once a second from then on; report it as progress, which also restarts the client's timeout.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use toolyard_tool::{Context, Host};
    /// # use toolyard_tool::host::Limited;
    /// async fn ask(host: &Host, context: &Context) -> Result<(), Limited> {
    ///     let (caller, steps) = (context.clone(), AtomicU32::new(0));
    ///     let report = move |ahead| {
    ///         caller.progress_with(steps.fetch_add(1, Ordering::Relaxed), None, format!("waiting: {ahead} ahead"));
    ///     };
    ///     let permit = host.limits_for(context, "gentle", "gpt-5.2", report).await?;
    ///     // Send the request.
    ///     drop(permit);
    ///     Ok(())
    /// }
    /// ```
    pub async fn limits_for(
        &self,
        context: &Context,
        name: &str,
        model: &str,
        report: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Permit, Limited> {
        self.acquire(name, model, Some(context.origin_and_tool()), report).await
    }

    async fn acquire(
        &self,
        name: &str,
        model: &str,
        call: Option<(Arc<Origin>, Arc<str>)>,
        report: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Permit, Limited> {
        let Some(limits) = &self.0.limits else { return Ok(Permit::unlimited()) };
        let (pack, report) = (self.0.pack.clone(), Box::new(report));
        limits.acquire(name, LimitedWork { pack, model: model.into(), call, report }).await
    }

    /// Runs the hooks of a point with this input.
    pub async fn hooks(&self, point: &str, input: Value) -> Verdict {
        match &self.0.hooks {
            Some(hooks) => hooks.run(point, input).await,
            None => Verdict::Continue(input),
        }
    }

    /// Whether any hook runs at a point for this subject, such as the name of a model. What a hook may still change
    /// should not be shown before it has run.
    pub fn has_hooks(&self, point: &str, subject: &str) -> bool {
        self.0.hooks.as_ref().is_some_and(|hooks| hooks.has_any(point, subject))
    }

    /// Publishes what happened on the gateway's event stream, for operators and for the principal that it belongs to.
    /// Nothing happens where no one reads the stream.
    pub fn publish(&self, principal: &str, event: Value) {
        if let Some(events) = &self.0.events {
            events.publish(&self.0.pack, principal, event);
        }
    }

    /// The store for tasks that last.
    pub fn tasks(&self) -> &Arc<dyn TaskStore> {
        &self.0.tasks
    }

    /// A fresh access token of a provider that the user has signed in to.
    pub async fn credentials(&self, provider: &str) -> Result<String, NotSignedIn> {
        match &self.0.credentials {
            Some(credentials) => credentials.token(provider).await,
            None => Err(NotSignedIn::new(provider)),
        }
    }

    /// The accounts that are configured, and whether the user has signed in to each.
    pub async fn sign_ins(&self) -> Vec<SignInStatus> {
        match &self.0.credentials {
            Some(credentials) => credentials.sign_ins().await,
            None => Vec::new(),
        }
    }

    pub(crate) fn gateway(&self) -> Option<&Arc<dyn Gateway>> {
        self.0.gateway.as_ref()
    }

    pub(crate) fn delegations(&self) -> Option<&Arc<dyn Delegations>> {
        self.0.delegations.as_ref()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.0.scope
    }

    fn missing(&self, what: &str) -> io::Error {
        let why =
            format!("this program offers no {what} to the pack `{}`: run it in the gateway", self.0.pack);
        io::Error::new(io::ErrorKind::Unsupported, why)
    }
}

/// Removes the name of background work from the list, however the work ends.
struct Done {
    host: Host,
    name: Arc<str>,
}

impl Drop for Done {
    fn drop(&mut self) {
        let mut running = self.host.work();
        if let Some(at) = running.iter().position(|name| *name == self.name) {
            running.remove(at);
        }
    }
}

impl HostBuilder {
    /// Sets the folders in which the pack keeps its files.
    pub fn folders(mut self, folders: Arc<dyn Folders>) -> Self {
        self.0.folders = Some(folders);
        self
    }

    /// Sets the service that starts the pack's child processes.
    pub fn children(mut self, children: Arc<dyn Children>) -> Self {
        self.0.children = Some(children);
        self
    }

    /// Sets the service that limits the pack's calls to other programs.
    pub fn limits(mut self, limits: Arc<dyn Limits>) -> Self {
        self.0.limits = Some(limits);
        self
    }

    /// Sets the service that runs the user's hooks.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.0.hooks = Some(hooks);
        self
    }

    /// Sets the service that signs the user in.
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.0.credentials = Some(credentials);
        self
    }

    /// The gateway whose tools it may call for its callers.
    pub fn gateway(mut self, gateway: Arc<dyn Gateway>) -> Self {
        self.0.gateway = Some(gateway);
        self
    }

    /// Sets the service that lets runs of the pack use the gateway.
    pub fn delegations(mut self, delegations: Arc<dyn Delegations>) -> Self {
        self.0.delegations = Some(delegations);
        self
    }

    /// Sets the sink of the pack's events.
    pub fn events(mut self, events: Arc<dyn Events>) -> Self {
        self.0.events = Some(events);
        self
    }

    /// Sets the store of the pack's tasks; in memory by default.
    pub fn tasks(mut self, tasks: Arc<dyn TaskStore>) -> Self {
        self.0.tasks = tasks;
        self
    }

    /// The host.
    pub fn build(self) -> Host {
        Host(Arc::new(self.0))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.0.pack)
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuilder({})", self.0.pack)
    }
}
