//! The plan that the gateway is built from: the configuration after every check.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolyard_hooks::{HookPlan, Runtime};
pub use toolyard_link::child::StderrLine;
pub use toolyard_model::Connected;
use toolyard_model::{BoxFuture, Origin, Peer, Transport};
use toolyard_policy::rules::Policy;
use toolyard_proto::name::{DEFAULT_BUDGET, NameStyle, UpstreamId};
use toolyard_proto::{CallError, Reason, Revision};

use crate::event::Sinks;
use crate::pipeline::ExtraSteps;
pub use crate::pipeline::limit::{LimitPlan, PackWork, Per};
pub use crate::pipeline::retry::RetryPlan;
pub use crate::pipeline::validate::Validate;
use crate::settings::Pattern;
use crate::sleep_watch::WallClock;
use crate::upstream::policy::UpstreamPolicy;
use crate::upstream::state::Phase;

#[derive(Debug)]
pub struct Plan {
    pub upstreams: Vec<UpstreamPlan>,
    /// Upstreams that the config has and that cannot be started, which are reported with their reason.
    pub disabled: Vec<DisabledUpstream>,
    pub profiles: Vec<ProfilePlan>,
    /// Patterns over the canonical ids of the tools that the lean view lists beside search and call.
    pub lean: Vec<Pattern>,
    /// Show the only upstream as if clients were connected to it directly.
    pub transparent: bool,
    pub names: NameStyle,
    /// The steps of calls, by profile, upstream and tool.
    pub calls: CallRules,
    /// Steps of the embedding program that every call passes, innermost. Fixed when the gateway starts.
    pub steps: ExtraSteps,
    /// The runtime of hooks. Fixed when the gateway starts.
    pub hook_runtime: Runtime,
    /// Receivers of every event, in line. Fixed when the gateway starts.
    pub sinks: Sinks,
    /// The folder in which definitions are kept between runs. Without it they are not kept.
    pub state_dir: Option<PathBuf>,
    pub pace: Pace,
    /// The clock by which sleep of the machine is noticed.
    pub wall: WallClock,
}

/// The waits of the catalog and its upstreams.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long changes are gathered before lists change.
    pub debounce: Duration,
    /// How long the tools of a lost upstream stay.
    pub grace: Duration,
    /// How long the first list after boot waits for upstreams never seen before.
    pub first_list: Duration,
    pub connect: Duration,
    pub backoff_first: Duration,
    pub backoff_most: Duration,
    /// After this many failures in a row an upstream is not tried for a while.
    pub breaker: u32,
    /// How long that is; then it is tried once.
    pub half_open: Duration,
    pub pings: Pings,
    /// How many processes start at the same time.
    pub starts_at_once: usize,
}

/// How upstreams are pinged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pings {
    /// Whether upstreams are pinged regularly. On suspicion they are pinged in any case.
    pub regular: bool,
    pub every: Duration,
    /// How long an answer may take.
    pub wait: Duration,
    /// The number of missed pings in a row after which an upstream counts as not responding.
    pub misses: u32,
}

impl Default for Pings {
    fn default() -> Self {
        Self { regular: true, every: Duration::from_secs(10), wait: Duration::from_secs(5), misses: 3 }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            debounce: Duration::from_millis(500),
            grace: Duration::from_secs(10),
            // Five seconds are promised; the rest is for making and sending the list.
            first_list: Duration::from_millis(4_800),
            connect: Duration::from_secs(10),
            backoff_first: Duration::from_secs(1),
            backoff_most: Duration::from_secs(30),
            breaker: 5,
            half_open: Duration::from_mins(1),
            pings: Pings::default(),
            starts_at_once: 2 * std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            disabled: Vec::new(),
            profiles: Vec::new(),
            lean: Vec::new(),
            calls: CallRules::default(),
            steps: ExtraSteps::default(),
            hook_runtime: Runtime::default(),
            sinks: Sinks::default(),
            transparent: false,
            names: NameStyle::Shown { budget: DEFAULT_BUDGET },
            state_dir: None,
            pace: Pace::default(),
            wall: WallClock::default(),
        }
    }
}

/// An upstream that the config has and that is not started.
#[derive(Clone, Debug)]
pub struct DisabledUpstream {
    pub id: UpstreamId,
    pub kind: UpstreamKind,
    pub reason: Reason,
}

/// One upstream to connect to.
#[derive(Debug)]
pub struct UpstreamPlan {
    pub id: UpstreamId,
    pub kind: UpstreamKind,
    pub connect: Arc<dyn Connect>,
    pub sharing: Sharing,
    /// Identifies the definition: it changes with every setting that needs a new process or connection, so that
    /// stored tools of another server are not shown.
    pub fingerprint: String,
    /// The settings that may change while the upstream runs.
    pub policy: UpstreamPolicy,
}

impl UpstreamPlan {
    /// A plan with the defaults for this kind of upstream.
    pub fn new(id: UpstreamId, kind: UpstreamKind, connect: Arc<dyn Connect>) -> Self {
        let policy = UpstreamPolicy::of(kind);
        Self { id, kind, connect, sharing: Sharing::default(), fingerprint: String::new(), policy }
    }
}

/// The model that answers `sampling/createMessage` of an upstream for clients that cannot sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SamplingPlan {
    /// As the pack `models` knows it.
    pub model: String,
    /// The most tokens of one answer.
    pub max_tokens: u32,
    /// How many answers one call may have.
    pub per_call: u32,
}

/// The kind of an upstream: where it came from, and which others may take its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpstreamKind {
    /// Named in the config.
    #[default]
    Server,
    /// Part of the program, as packs are.
    BuiltIn,
    /// Registered by itself.
    App,
    /// Discovered.
    Instance,
    /// Offered by another gateway of the cluster.
    Node,
}

impl UpstreamKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::BuiltIn => "built-in",
            Self::App => "app",
            Self::Instance => "instance",
            Self::Node => "node",
        }
    }

    /// Whether it comes and goes at run time rather than with the config.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::App | Self::Instance | Self::Node)
    }
}

/// Whether clients share one connection to an upstream, where it is one that can be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One connection for all clients. An upstream that asks questions gets one for each client.
    #[default]
    Shared,
    /// Each client has its own from the start.
    Client,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// Without any sign of progress.
    pub idle: Duration,
    /// In all.
    pub hard: Duration,
}

impl Timeouts {
    pub const MCP_SERVER: Self = Self { idle: Duration::from_mins(5), hard: Duration::from_hours(1) };
    pub const LOCAL: Self = Self { idle: Duration::from_secs(30), hard: Duration::from_hours(1) };

    /// The same with a shorter idle time, for a call that requests it.
    #[must_use]
    pub fn shortened(self, wanted: Duration) -> Self {
        Self { idle: self.idle.min(wanted), ..self }
    }
}

/// The settings of the config for the steps of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallRules {
    /// Settings of single tools, whichever upstream offers them.
    pub tools: Vec<ToolRule>,
    /// The limits that tools can be given, by name.
    pub limits: Vec<LimitPlan>,
    /// Hooks, in no order.
    pub hooks: Vec<HookPlan>,
    /// Which principal may call what; everything is allowed if not given.
    pub rules: Option<Arc<Policy>>,
}

/// Settings of the tools whose canonical id fits a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRule {
    /// In this profile only.
    pub profile: Option<String>,
    /// `files:read_*`
    pub pattern: String,
    pub settings: ToolSettings,
}

/// The settings of one rule. The most specific rule that sets a value decides about that value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    /// How long a call may take without any sign of progress.
    pub timeout: Option<Duration>,
    /// The names of the limits that calls are under. They are acquired in the order of [`CallRules::limits`].
    pub limits: Option<Vec<String>>,
    /// Whether hooks run.
    pub hooks: Option<bool>,
    /// Whether arguments are checked against the tool's schema.
    pub validate: Option<Validate>,
    /// How often a call is sent if it fails.
    pub retry: Option<RetryPlan>,
    /// Whether carrying a call out twice does no harm.
    pub idempotent: Option<bool>,
    /// Whether the tool's own annotations decide that, where the config does not.
    pub trust_annotations: Option<bool>,
    /// The canonical id of the tool that is called instead if this one fails; `other:*` is the one of the same name.
    pub fallback: Option<String>,
    /// How long only the fallback is called after the upstream refused a call because of too many calls.
    pub cool_down: Option<Duration>,
}

/// Connects to an upstream: a real one, a built-in one, or a double in a test.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    /// `known` is the revision it spoke the last time, to spare a probe.
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>>;

    /// The same for one client alone: the upstream may be sent its name and capabilities.
    fn connect_for(&self, known: Option<Revision>, _: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        self.connect(known)
    }

    /// Opens a link in the other era than the one that [`connect`](Self::connect) has found, for clients of that
    /// era: for one client alone, or for all of them.
    fn connect_counterpart(&self, _: Option<&Origin>) -> BoxFuture<Result<Connected, NoCounterpart>> {
        Box::pin(async { Err(NoCounterpart::OneEra("it is reached in one era only".into())) })
    }

    /// Looks, without connecting, whether there is anything to connect to; if not, returns why. While there is
    /// nothing, an upstream stays discovered.
    fn look(&self) -> BoxFuture<Result<(), Reason>> {
        Box::pin(async { Ok(()) })
    }

    /// Whether connecting starts a process. The number of processes that start at the same time is limited.
    fn starts_process(&self) -> bool {
        false
    }

    /// The longest that one attempt to connect may take, whatever its own timeouts are.
    fn longest_attempt(&self) -> Duration {
        Duration::from_secs(90)
    }

    /// The facts known about the upstream before it is connected.
    fn about(&self) -> Option<Value> {
        None
    }

    /// The phase of the upstream at the gateway that owns it, if that is another one and it is not active there.
    fn condition_elsewhere(&self) -> Option<Condition> {
        None
    }

    /// The latest lines of the process's stderr, the newest last.
    fn stderr(&self) -> Vec<StderrLine> {
        Vec::new()
    }

    /// Signs the client's user in, in the middle of a call: asks the client to open a page, and waits until the user
    /// is done. `None` if the upstream has no sign-in.
    fn sign_in(&self, _: &Arc<Origin>, _: &Peer) -> Option<BoxFuture<Result<(), CallError>>> {
        None
    }

    /// Begins a sign-in of the user of the gateway, outside of a call. `None` if the upstream has no sign-in.
    fn begin_sign_in(&self) -> Option<BoxFuture<Result<BegunSignIn, Reason>>> {
        None
    }

    /// Whether calls may be refused because the user has not signed in.
    fn may_need_sign_in(&self) -> bool {
        false
    }

    /// What carries messages to the upstream, if that is known and always the same.
    fn transport(&self) -> Option<Transport> {
        None
    }

    /// The action after the connection is lost.
    fn after_loss(&self) -> AfterLoss {
        AfterLoss::TryAgain
    }
}

/// A sign-in that waits for a browser.
pub struct BegunSignIn {
    /// The page where the user begins.
    pub url: String,
    /// The outcome: once the user is done, or when the page is not valid any more.
    pub outcome: BoxFuture<Result<(), Reason>>,
}

impl fmt::Debug for BegunSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BegunSignIn")
    }
}

/// Where an upstream is in its life, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub phase: Phase,
    pub reason: Option<Reason>,
}

/// Why there is no link in the other era.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCounterpart {
    /// The upstream speaks one era only, or only one at a time, or the config allows only one.
    OneEra(Reason),
    /// The upstream could not be reached this time.
    Failed(Reason),
}

impl NoCounterpart {
    pub fn into_reason(self) -> Reason {
        match self {
            Self::OneEra(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// How an upstream comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLoss {
    /// The gateway has to connect again.
    TryAgain,
    /// It comes back by itself, if it does.
    Await,
    /// The upstream has announced that it leaves: its entries are removed at once.
    Gone,
    /// The same, but another one may take its place, so it is tried.
    Left,
    /// The user must sign in first. What it offered stays listed.
    SignIn,
}

/// A named slice of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePlan {
    pub name: String,
    /// Ids of the configured upstreams, and packs, in it. All where neither these nor apps nor instances are named.
    pub upstreams: Option<Vec<String>>,
    /// Ids of apps, which come and go.
    pub apps: Option<Vec<String>>,
    /// Ids or names of instances, which come and go, too.
    pub instances: Option<Vec<String>>,
    /// Patterns over canonical ids (`files:read_*`); all where none are given.
    pub allow: Option<Vec<Pattern>>,
    pub deny: Vec<Pattern>,
    pub transparent: bool,
    /// Whether tools and prompts have their own names; of several with the same name the first upstream's has it.
    pub bare: bool,
    pub exposure: Exposure,
    /// Patterns over the canonical ids of the tools that it lists where it is exposed by search.
    pub listed: Vec<Pattern>,
}

/// How clients get to know the tools of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Every definition is listed.
    #[default]
    Full,
    /// A search and a tool that calls what was found.
    Search,
}

impl ProfilePlan {
    /// Whether it lists its upstreams.
    pub fn lists_upstreams(&self) -> bool {
        self.upstreams.is_some() || self.apps.is_some() || self.instances.is_some()
    }

    /// Whether an upstream of this kind is in it, by its id or by another of its names.
    pub fn includes_upstream(&self, kind: UpstreamKind, id: &str, names: &[String]) -> bool {
        let is_it = |own: &String| own.eq_ignore_ascii_case(id) || names.contains(own);
        !self.lists_upstreams() || self.chosen(kind).any(is_it)
    }

    fn chosen(&self, kind: UpstreamKind) -> impl Iterator<Item = &String> {
        let is_in = |listed: UpstreamKind| kind == listed || kind == UpstreamKind::Node;
        let upstreams = is_in(UpstreamKind::Server) || kind == UpstreamKind::BuiltIn;
        let chosen = [
            self.upstreams.as_ref().filter(|_| upstreams),
            self.apps.as_ref().filter(|_| is_in(UpstreamKind::App)),
            self.instances.as_ref().filter(|_| is_in(UpstreamKind::Instance)),
        ];
        chosen.into_iter().flatten().flatten()
    }

    /// The names by which `allow` and `deny` may refer to a tool or prompt: its canonical id; and if the profile lists
    /// the app or instance, also with the id as it is spelled there (case does not count) and with the instance's name.
    /// For others a name proves nothing: any app can choose the id of a server as its name.
    pub fn ids_of(&self, kind: UpstreamKind, id: &str, names: &[String], own: &str) -> Vec<String> {
        let spelled = self.chosen(kind).filter(|_| kind.is_dynamic());
        let spelled = spelled.filter(|spelled| spelled.eq_ignore_ascii_case(id));
        let names = names.iter().filter(|_| self.instances.is_some());
        let all = names.chain(spelled).map(String::as_str).chain([id]);
        all.map(|name| format!("{name}:{own}")).collect()
    }

    /// Whether something is in it, by any of its ids.
    pub fn includes(&self, ids: &[String]) -> bool {
        let fits = |pattern: &Pattern| ids.iter().any(|id| pattern.matches(id));
        let allowed = self.allow.as_ref().is_none_or(|patterns| patterns.iter().any(fits));
        allowed && !self.deny.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::{ProfilePlan, UpstreamKind};

    #[test]
    fn an_instance_is_known_by_its_name_only_where_the_profile_has_instances() {
        let ids = |instances: Option<&str>| {
            let instances = instances.map(|named| vec![named.to_owned()]);
            let profile = ProfilePlan { instances, ..ProfilePlan::default() };
            profile.ids_of(UpstreamKind::Instance, "dev-1", &["files".to_owned()], "t")
        };
        assert_eq!(ids(None), ["dev-1:t"]);
        assert_eq!(ids(Some("files")), ["files:t", "dev-1:t"]);
        assert_eq!(ids(Some("DEV-1")), ["files:t", "DEV-1:t", "dev-1:t"]);
    }
}
