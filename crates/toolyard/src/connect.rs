//! Connects the upstreams of a config: turns each section into a link.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use toolyard_config::{ClusterConfig, Program, Reach, Server, Trusted, UpstreamConfig, state_dir};
use toolyard_core::apps::away_hint;
use toolyard_core::discovery::DiscoveredEndpoint;
use toolyard_core::greet::{gateway_id, gateways_in, loop_reason};
use toolyard_core::plan::AfterLoss;
use toolyard_core::{BegunSignIn, Connect, Connected, NoCounterpart};
use toolyard_guard::sandbox_support;
use toolyard_host::{HostSettings, Hosts};
use toolyard_link::child::{ChildSpec, Guard, StderrLine, StderrLog};
use toolyard_link::http::{Authorize, HttpSpec, Spare};
use toolyard_link::{
    ConnectError, EraPin, Offer, SocketSpec, Target, Timeouts, Trouble, UpstreamTarget, connect,
    connect_counterpart,
};
use toolyard_model::{BoxFuture, Origin, Peer, Scope, Transport, local};
use toolyard_oauth::client::UpstreamAuth;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Pattern, Reason, Revision};

use crate::cluster::Node;
use crate::packs::Sets;
use crate::settings;
use crate::sign_ins::SignInContext;

/// The parts that connecting an upstream needs: our client info, the guard of children, the scope of links, and the
/// tool sets and hosts of packs.
#[derive(Clone, Debug)]
pub(crate) struct ConnectContext {
    offer: Arc<Offer>,
    guard: Option<Guard>,
    scope: Scope,
    packs: Sets,
    hosts: Hosts,
    sign_ins: SignInContext,
    cluster: Option<Node>,
    /// Upstreams whose sign-ins the node of this machine shares, where this is another process.
    shared_by_node: Arc<[Pattern]>,
}

impl ConnectContext {
    pub(crate) fn new(guard: Option<Guard>, scope: Scope) -> Self {
        // Every kind of question that can be passed on to a client. A question to a client that cannot answer it is
        // declined when it arrives.
        let capabilities = json!({
            "roots": { "listChanged": true },
            "sampling": { "context": {}, "tools": {} },
            "elicitation": { "form": {}, "url": {} },
        });
        let client_info =
            json!({ "name": "toolyard", "title": "Toolyard", "version": env!("CARGO_PKG_VERSION") });
        let offer = Offer { capabilities: capabilities.into(), client_info: client_info.into() };
        let hosts = Hosts::new(HostSettings { guard: guard.clone(), ..HostSettings::default() });
        Self {
            offer: Arc::new(offer),
            guard,
            scope,
            packs: Sets::default(),
            hosts,
            sign_ins: SignInContext::of_user(),
            cluster: None,
            shared_by_node: Arc::default(),
        }
    }

    /// Sets the folders of packs: their state below `state_dir`, and the user's cache.
    pub(crate) fn with_folders(self, state_dir: Option<PathBuf>) -> Self {
        self.with_trust(state_dir, Box::new(trusts))
    }

    /// The same, where packs may run programs of this project, too.
    pub(crate) fn with_folders_trusting(self, state_dir: Option<PathBuf>, project: PathBuf) -> Self {
        self.with_trust(state_dir, Box::new(move |folder| folder == project || trusts(folder)))
    }

    fn with_trust(
        mut self,
        state_dir: Option<PathBuf>,
        trusts: Box<dyn Fn(&Path) -> bool + Send + Sync>,
    ) -> Self {
        let (state, guard) = (state_dir, self.guard.clone());
        let cache = state_dir::cache(&settings::variable);
        self.hosts = Hosts::new(HostSettings { state, cache, guard, trusts });
        self
    }

    /// Sets the node of a cluster.
    pub(crate) fn with_cluster(self, cluster: Option<Node>) -> Self {
        Self { cluster, ..self }
    }

    /// For a program beside the node of a cluster that this config describes: sign-ins at exported upstreams belong to
    /// the node.
    pub(crate) fn beside_node(self, cluster: Option<&ClusterConfig>) -> Self {
        let patterns = cluster.into_iter().flat_map(|cluster| &cluster.export);
        let shared_by_node = patterns.map(|pattern| Pattern::new(pattern)).collect();
        Self { shared_by_node, ..self }
    }

    pub(crate) fn cluster(&self) -> Option<&Node> {
        self.cluster.as_ref()
    }

    /// Our client info for upstreams, and the scope of links.
    #[cfg(feature = "cluster")]
    pub(crate) fn links(&self) -> (Arc<Offer>, Scope) {
        (self.offer.clone(), self.scope.clone())
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The environment of hooks: their programs run under the same guard as servers.
    pub(crate) fn hook_runtime(&self) -> toolyard_hooks::Runtime {
        toolyard_hooks::Runtime::new(self.guard.clone())
    }

    pub(crate) fn sign_ins(&self) -> &SignInContext {
        &self.sign_ins
    }

    pub(crate) fn packs(&self) -> &Sets {
        &self.packs
    }
}

/// The list is read each time, since the user may change it while the gateway runs.
fn trusts(project: &Path) -> bool {
    Trusted::read(&settings::variable).covers(project)
}

/// One upstream, ready to be connected to as often as needed.
pub(crate) struct Upstream {
    target: Arc<UpstreamTarget>,
    context: ConnectContext,
    away_hint: Option<String>,
    /// Why it must not be started.
    refused: Option<Reason>,
    auth: Option<Arc<UpstreamAuth>>,
    /// Whether the last attempt failed for a reason other than a missing sign-in.
    is_out_of_reach: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn new(upstream: &UpstreamConfig, context: &ConnectContext) -> Self {
        let usual = Timeouts::default();
        let timeouts = Timeouts {
            connect: upstream.connect_timeout.unwrap_or(usual.connect),
            start: upstream.start.timeout.or(upstream.connect_timeout).unwrap_or(usual.start),
            ..usual
        };
        let shared = context.cluster.as_ref().and_then(|node| node.credentials(&upstream.id));
        let mut sign_ins = context.sign_ins.clone();
        if context.shared_by_node.iter().any(|pattern| pattern.matches(upstream.id.as_str())) {
            sign_ins = sign_ins.beside_node();
        }
        let auth = sign_ins.upstream(upstream, shared);
        let target = UpstreamTarget {
            name: upstream.id.as_str().into(),
            target: target(&upstream.reach, context, auth.clone()),
            era: upstream.era,
            timeouts,
        };
        Self {
            target: Arc::new(target),
            context: context.clone(),
            away_hint: None,
            refused: refused(&upstream.reach, context),
            auth,
            is_out_of_reach: Arc::default(),
        }
    }
}

impl Upstream {
    /// An MCP server at an endpoint, without further settings.
    pub(crate) fn at(id: &UpstreamId, endpoint: &DiscoveredEndpoint, context: &ConnectContext) -> Self {
        let target = match endpoint.socket() {
            Some(socket) => Target::Socket(socket),
            None => Target::Http(HttpSpec::new(endpoint.url().unwrap_or_default(), HeaderMap::new())),
        };
        let target = UpstreamTarget {
            name: id.as_str().into(),
            target,
            era: EraPin::Auto,
            timeouts: Timeouts::default(),
        };
        let away_hint = Some(away_hint(endpoint));
        let is_out_of_reach = Arc::default();
        Self {
            target: Arc::new(target),
            context: context.clone(),
            away_hint,
            refused: None,
            auth: None,
            is_out_of_reach,
        }
    }
}

impl fmt::Debug for Upstream {
    /// The target is left out, since it may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream").field(&self.target.name).finish()
    }
}

impl Upstream {
    fn connect_as(&self, known: Option<Revision>, offer: Arc<Offer>) -> BoxFuture<Result<Connected, Reason>> {
        if let Some(refused) = self.refused.clone() {
            return Box::pin(async { Err(refused) });
        }
        let (target, scope) = (self.target.clone(), self.context.scope.clone());
        let (away_hint, auth) = (self.away_hint.clone(), self.auth.clone());
        let is_out_of_reach = self.is_out_of_reach.clone();
        Box::pin(async move {
            if let Some(auth) = &auth
                && let Err(error) = auth.keeper(None).reload().await
            {
                tracing::warn!(target: "oauth", upstream = %target.name, %error, "cannot read the sign-in");
            }
            let connecting = connect(&target, known.map(Revision::era), &offer, &scope).await;
            let is_other = |error: &ConnectError| error.trouble != Trouble::Credentials;
            is_out_of_reach.store(connecting.as_ref().is_err_and(is_other), Ordering::Relaxed);
            let connected = connecting.map_err(|error| {
                let is_away =
                    matches!(error.trouble, Trouble::Unreachable | Trouble::Gone | Trouble::NoAnswer);
                match away_hint.filter(|_| is_away) {
                    Some(hint) => Reason::from(error).with_hint(hint),
                    None => Reason::from(error),
                }
            })?;
            if gateways_in(connected.link.greeting()).iter().any(|id| id == gateway_id()) {
                connected.link.close().await;
                return Err(loop_reason(&target.name));
            }
            Ok(connected)
        })
    }
}

impl Upstream {
    /// The capabilities of one client, as they are declared to the upstream.
    fn offer_of(&self, client: &Origin) -> Arc<Offer> {
        let client_info = client.client_info.clone();
        Arc::new(Offer {
            capabilities: client.capabilities.clone(),
            client_info: client_info.unwrap_or_else(|| self.context.offer.client_info.clone()),
        })
    }
}

impl Connect for Upstream {
    fn stderr(&self) -> Vec<StderrLine> {
        match &self.target.target {
            Target::Child(spec) => spec.stderr.lines(),
            _ => Vec::new(),
        }
    }

    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        self.connect_as(known, self.context.offer.clone())
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        self.connect_as(known, self.offer_of(client))
    }

    fn sign_in(&self, origin: &Arc<Origin>, peer: &Peer) -> Option<BoxFuture<Result<(), CallError>>> {
        self.auth.as_ref().map(|auth| auth.sign_in(origin, peer))
    }

    fn begin_sign_in(&self) -> Option<BoxFuture<Result<BegunSignIn, Reason>>> {
        let beginning = self.auth.as_ref()?.begin_sign_in();
        Some(Box::pin(async move {
            let mut waiting = beginning.await.map_err(|error| error.reason)?;
            let url = waiting.url.clone();
            let outcome = Box::pin(async move { waiting.finished().await.map_err(|error| error.reason) });
            Ok(BegunSignIn { url, outcome })
        }))
    }

    fn may_need_sign_in(&self) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.is_in_use())
    }

    fn transport(&self) -> Option<Transport> {
        Some(match &self.target.target {
            Target::Child(_) => Transport::Pipe,
            Target::Socket(SocketSpec::Local(_)) => local::TRANSPORT,
            Target::Http(_) | Target::Sse(_) | Target::Socket(SocketSpec::Tcp(_)) => Transport::Tcp,
        })
    }

    fn after_loss(&self) -> AfterLoss {
        let needs_user = self.auth.as_ref().is_some_and(|auth| auth.sign_in_reason().is_some());
        let is_out_of_reach = self.is_out_of_reach.load(Ordering::Relaxed);
        if needs_user && !is_out_of_reach { AfterLoss::SignIn } else { AfterLoss::TryAgain }
    }

    fn starts_process(&self) -> bool {
        matches!(self.target.target, Target::Child(_))
    }

    fn longest_attempt(&self) -> Duration {
        // A program that ends when it is probed is started a second time, without the probe.
        let Timeouts { connect, start, .. } = self.target.timeouts;
        let each = if self.starts_process() { start } else { connect };
        2 * each + Duration::from_mins(1)
    }

    fn connect_counterpart(&self, client: Option<&Origin>) -> BoxFuture<Result<Connected, NoCounterpart>> {
        let offer = client.map_or_else(|| self.context.offer.clone(), |client| self.offer_of(client));
        let (target, scope) = (self.target.clone(), self.context.scope.clone());
        Box::pin(async move {
            connect_counterpart(&target, &offer, &scope).await.map_err(|error| {
                if error.means_one_era() {
                    NoCounterpart::OneEra(error.into())
                } else {
                    NoCounterpart::Failed(error.into())
                }
            })
        })
    }
}

/// Why a program cannot run in its sandbox; it is not started then.
fn refused(reach: &Reach, context: &ConnectContext) -> Option<Reason> {
    let Reach::Program(Program { sandbox: Some(_), .. }) = reach else { return None };
    let why = match (sandbox_support(), &context.guard) {
        (Err(why), _) => why,
        (Ok(()), None) => "`sandbox` needs the process guard, which needs /proc".to_owned(),
        (Ok(()), Some(_)) => return None,
    };
    Some(Reason::new(why).with_hint("run it elsewhere, or remove `sandbox` to run it without one"))
}

fn target(reach: &Reach, context: &ConnectContext, auth: Option<Arc<UpstreamAuth>>) -> Target {
    match reach {
        Reach::Program(Program { command, args, env, cwd, sandbox }) => Target::Child(ChildSpec {
            program: command.into(),
            args: args.iter().map(Into::into).collect(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            inherits_env: true,
            cwd: Some(cwd.clone()),
            guard: context.guard.clone().map(|guard| match sandbox {
                Some(sandbox) => guard.sandboxed(sandbox),
                None => guard,
            }),
            stderr: StderrLog::default(),
            ..ChildSpec::new("")
        }),
        Reach::Server(Server { url, headers, sse, spare, identity }) => {
            let mut spec = HttpSpec::new(url.clone(), headers.clone());
            spec.identity.clone_from(identity);
            spec.authorize = auth.map(|auth| auth as Arc<dyn Authorize>);
            let spare = spare.as_ref().map(|spare| Spare::new(spare.headers.clone(), spare.cool_down));
            spec.spare = spare.map(Arc::new);
            if *sse { Target::Sse(spec) } else { Target::Http(spec) }
        }
        Reach::Socket(socket) => Target::Socket(socket.clone()),
    }
}
