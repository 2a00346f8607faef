//! A client of a gateway: of the one that runs with this config, or of one that is started inside this process for a
//! single command, without listeners.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use toolyard_config::state_dir::{self, Running};
use toolyard_config::{Config, Found, UpstreamConfig};
use toolyard_core::Gateway;
use toolyard_guard::Guards;
use toolyard_link::http::HttpSpec;
use toolyard_link::{EraPin, Offer, Target, Timeouts, Trouble, UpstreamTarget, connect};
use toolyard_model::{
    AnswerBody, ClientKey, Control as _, ControlRequest, ControlResponse, Handler, Link, LinkRequest, Origin,
    Peer, Principal, Request, Scope, View,
};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::token::{Rules, Secret};
use toolyard_proto::{CallError, Id, Kind, Method, Raw, Reason, Retry, Revision};

use super::manage::{self, Address};
use crate::cli::Common;
use crate::connect::ConnectContext;
use crate::failure::{Failure, refused};
use crate::packs::{self, Sets};
use crate::plan::plan;
use crate::say;
use crate::settings::{self, Settings};

/// How long a gateway on this machine may take to accept a connection.
const A_MOMENT: Duration = Duration::from_secs(1);
/// How long upstreams may take to connect: their own timeouts, one after the other, and a little more.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How long a running gateway may take to apply a changed config; it checks every second.
const CATCH_UP: Duration = Duration::from_secs(3);
/// How long children may take to end.
const LAST_TASKS: Duration = Duration::from_secs(5);
const LAST_THREADS: Duration = Duration::from_secs(1);

const UNREADABLE: &str = "the status of the gateway cannot be read";

/// A client of the gateway.
pub(super) struct Client {
    way: Way,
    scope: Scope,
    info: Raw,
    /// The guard of the programs of our own gateway.
    _guards: Option<Guards>,
    /// Packs of our own gateway hold it weakly and call other tools through it.
    _handler: Option<Arc<dyn Handler>>,
}

type Links = Mutex<HashMap<View, Arc<dyn Link>>>;

enum Way {
    /// A running gateway at this address, with a link for each view that was used.
    Running { http: String, headers: HeaderMap, links: Box<Links>, socket: Option<PathBuf> },
    /// Our own gateway, with the tool sets of its packs.
    Own(Gateway, Sets),
}

/// The gateway's report on an upstream.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct UpstreamState {
    pub(super) id: String,
    #[serde(rename = "state")]
    pub(super) phase: String,
    #[serde(default, skip_serializing)]
    pub(super) kind: Option<String>,
    /// Further details of an instance.
    #[serde(default, skip_serializing)]
    pub(super) about: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The advice about the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// How long its process has been starting.
    #[serde(default, rename = "startingForSeconds", skip_serializing_if = "Option::is_none")]
    pub(super) starting_for: Option<u64>,
    #[serde(default)]
    pub(super) failures: u32,
    #[serde(default)]
    pub(super) tools: usize,
    #[serde(default)]
    pub(super) resources: usize,
    #[serde(default)]
    pub(super) prompts: usize,
    /// Its entries that clients do not get, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<String>,
    /// Why lists of an active server could not be read.
    #[serde(default, rename = "failedLists", skip_serializing_if = "Vec::is_empty")]
    pub(super) failed_lists: Vec<String>,
    /// Tools that are not offered until their definitions are approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<HeldTool>,
    /// Why its definitions could not be recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unrecorded: Option<String>,
    /// The ids of tools that an operator has switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) off: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<Value>,
    /// The connection for clients of the other era, while there is one.
    #[serde(default, rename = "secondLink", skip_serializing_if = "Option::is_none")]
    pub(super) second_link: Option<Value>,
}

/// One difference between two definitions.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Difference {
    place: String,
    change: String,
}

/// A tool that is not offered until its definition is approved.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct HeldTool {
    pub(super) id: String,
    why: String,
    locked: bool,
    differences: Vec<Difference>,
}

impl HeldTool {
    /// Why it is held, and what to do.
    pub(super) fn why(&self) -> (String, String) {
        let help = if self.locked {
            "`toolyard lock` accepts what is offered now".to_owned()
        } else {
            format!("`toolyard approve {}` accepts it", self.id)
        };
        (format!("tool `{}` is held: {}", self.id, self.why), help)
    }

    /// The differences between the definitions, one line each.
    pub(super) fn differences(&self) -> impl Iterator<Item = String> {
        self.differences.iter().map(|one| format!("{}: {}", one.place, one.change))
    }
}

/// Why a tool that is switched off is not there, and what to do.
pub(super) fn why_off(id: &str) -> String {
    format!("tool `{id}` is switched off; `toolyard tools enable {id}` switches it on")
}

impl UpstreamState {
    /// Why it is not active and what to do about it, on one line.
    pub(super) fn why(&self) -> Option<String> {
        if let Some(seconds) = self.starting_for {
            return Some(format!("it has been starting for {seconds} s"));
        }
        let reason = self.reason.as_deref()?;
        let reason = Reason::from(reason);
        Some(match &self.hint {
            Some(hint) => reason.with_hint(hint).to_string(),
            None => reason.to_string(),
        })
    }

    /// Whether it is known what it offers, from now or from the last time, or that it does not answer.
    pub(super) fn is_known(&self) -> bool {
        !self.is_under_way() || self.revision.is_some()
    }

    /// Whether a connection is being made. An instance that is only discovered is not being connected to.
    pub(super) fn is_under_way(&self) -> bool {
        ["connecting", "starting"].contains(&self.phase.as_str())
            || (self.phase == "discovered" && self.reason.is_none())
    }
}

/// The gateway was started with a token, and a variable in which it is kept is not set for this command.
const NO_TOKEN: &str = "the gateway requires a token, and this command has none";

/// Why no request to the gateway can work, and what to do, if `error` is of that kind.
pub(super) fn without_token(error: &CallError) -> Option<Failure> {
    let help = "set the variable of `listen.token` where this command runs, too";
    (error.kind == Kind::TurnedAway && error.message() == NO_TOKEN).then(|| refused(NO_TOKEN, help))
}

/// Runs what waits for answers.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let done = runtime.block_on(future);
    // A function that has not ended by now is abandoned.
    runtime.shutdown_timeout(LAST_THREADS);
    Ok(done)
}

/// The state directory of the config set of these files.
pub(super) fn folder(common: &Common, found: &Found) -> Option<PathBuf> {
    state_dir::locate(common.state_dir.as_deref(), &found.set(), &settings::variable).ok()
}

/// The gateway that runs with these files, if any.
pub(crate) fn running(common: &Common, found: &Found) -> Option<Running> {
    state_dir::announced(&folder(common, found)?).filter(|running| answers(&running.http))
}

/// Whether the gateway accepts connections.
pub(crate) fn answers(http: &str) -> bool {
    let address = reachable(http).trim_start_matches("http://").to_owned();
    let addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, A_MOMENT).is_ok())
}

/// A listener on all addresses is reached at the loopback address.
pub(super) fn reachable(http: &str) -> String {
    http.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:")
}

impl Client {
    /// A client of a running gateway, with the token rules of the config that the gateway was probably started with.
    pub(super) fn of_running(running: &Running, config: Option<&Config>, auth: Option<&Rules>) -> Self {
        let mut headers = HeaderMap::new();
        let signed = || auth?.secrets.first().map(Secret::bearer);
        let token = config.and_then(|config| config.listen.token.clone()).or_else(signed);
        let token = token.map(|token| format!("Bearer {token}"));
        if let Some(Ok(mut token)) = token.map(HeaderValue::try_from) {
            token.set_sensitive(true);
            headers.insert(AUTHORIZATION, token);
        }
        Self::new(
            Way::Running {
                http: reachable(&running.http),
                headers,
                links: Box::default(),
                socket: running.socket.clone(),
            },
            Scope::new(),
        )
    }

    /// A client of a gateway of our own. Must be called in a runtime.
    pub(super) fn of_own(common: &Common, settings: &Settings) -> Self {
        Self::own_with(opened(common, settings), settings, ConnectContext::with_folders)
    }

    /// To a gateway of our own that keeps nothing, for a server that is in no config.
    pub(super) fn of_direct(settings: &Settings) -> Self {
        Self::own_with(None, settings, ConnectContext::with_folders)
    }

    /// Like `of_own`, but packs may run programs of this project, because the user asks for it.
    pub(super) fn of_own_trusting(common: &Common, settings: &Settings, project: PathBuf) -> Self {
        let with_folders = |context: ConnectContext, folder| context.with_folders_trusting(folder, project);
        Self::own_with(opened(common, settings), settings, with_folders)
    }

    fn own_with(
        state_dir: Option<PathBuf>,
        settings: &Settings,
        with_folders: impl FnOnce(ConnectContext, Option<PathBuf>) -> ConnectContext,
    ) -> Self {
        let scope = Scope::new();
        // Without a record of its processes: another gateway may use this folder.
        let guards = Guards::begin(None);
        let context = ConnectContext::new(guards.guard(), scope.child());
        let context = with_folders(context, state_dir.clone()).beside_node(settings.config.cluster.as_ref());
        let gateway = Gateway::start(plan(&settings.config, state_dir, &context), &scope);
        let handler: Arc<dyn Handler> = Arc::new(gateway.clone());
        context.hosts().set_gateway(&handler);
        Self {
            _guards: Some(guards),
            _handler: Some(handler),
            ..Self::new(Way::Own(gateway, context.packs().clone()), scope)
        }
    }

    fn new(way: Way, scope: Scope) -> Self {
        let info = json!({ "name": "toolyard-cli", "version": env!("CARGO_PKG_VERSION") });
        Self { way, scope, info: info.into(), _guards: None, _handler: None }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self.way, Way::Own(..))
    }

    /// Sends a request and waits for its result. Dropping the future cancels the request.
    pub(super) async fn request(
        &self,
        view: &View,
        method: Method,
        params: &Raw,
        headers: Option<Box<HeaderMap>>,
        peer: Peer,
    ) -> Result<Raw, CallError> {
        self.request_with(Raw::empty_object(), view, method, params, headers, peer).await
    }

    /// Sends a request as a client that declares these capabilities.
    pub(super) async fn request_with(
        &self,
        capabilities: Raw,
        view: &View,
        method: Method,
        params: &Raw,
        headers: Option<Box<HeaderMap>>,
        peer: Peer,
    ) -> Result<Raw, CallError> {
        let meta = RequestMeta {
            revision: Revision::NEWEST,
            capabilities: capabilities.clone(),
            client_info: Some(self.info.clone()),
            log_level: None,
        };
        let params = stamp_request(Some(params), &meta);
        let (origin, id) = (self.origin(view, capabilities), Id::number(1));
        let answer = match &self.way {
            Way::Own(gateway, _) => {
                let request = Request::new(origin, id, method, params).with_headers(headers);
                gateway.handle(request, peer).await?
            }
            Way::Running { http, headers: own, links, .. } => {
                let link = self.link(view, http, own, links).await?;
                link.call(LinkRequest::new(origin, id, method, params).with_headers(headers), peer).await?
            }
        };
        match answer {
            AnswerBody::Whole(result, _) => Ok(result),
            AnswerBody::Stream(_) => {
                Err(CallError::bad_answer("the gateway sent a stream that was not requested"))
            }
        }
    }

    fn origin(&self, view: &View, capabilities: Raw) -> Arc<Origin> {
        Arc::new(
            Origin::new(view.clone(), Principal::local(), ClientKey::Connection(1), Revision::NEWEST)
                .with_client_info(Some(self.info.clone()))
                .with_capabilities(capabilities)
                // A gateway of our own serves the user who runs this command.
                .with_place(self.is_own(), std::env::current_dir().ok().map(Into::into)),
        )
    }

    /// The link to a running gateway, for one view.
    async fn link(
        &self,
        view: &View,
        http: &str,
        headers: &HeaderMap,
        links: &Links,
    ) -> Result<Arc<dyn Link>, CallError> {
        let mut links = links.lock().await;
        if let Some(link) = links.get(view) {
            return Ok(link.clone());
        }
        let broken = |error: http::uri::InvalidUri| CallError::unavailable(format!("{http}: {error}"));
        let url = format!("{http}/mcp{}", path(view)).parse().map_err(broken)?;
        let target = UpstreamTarget {
            name: "gateway".into(),
            target: Target::Http(HttpSpec::new(url, headers.clone())),
            era: EraPin::Auto,
            timeouts: Timeouts::default(),
        };
        let offer = Offer { capabilities: Raw::empty_object(), client_info: self.info.clone() };
        let connected = connect(&target, None, &offer, &self.scope.child()).await;
        let link = connected
            .map_err(|error| match error.trouble {
                Trouble::Credentials if !headers.contains_key(AUTHORIZATION) => {
                    CallError::turned_away(Retry::Never, NO_TOKEN)
                }
                _ => CallError::unavailable(error.to_string()),
            })?
            .link;
        links.insert(view.clone(), link.clone());
        Ok(link)
    }

    /// The state of every upstream.
    pub(super) async fn states(&self) -> Result<Vec<UpstreamState>> {
        let mut answer = self.read("/upstreams").await?;
        let mut states: Vec<UpstreamState> =
            serde_json::from_value(answer["upstreams"].take()).context(UNREADABLE)?;
        states.retain(|state| state.id != "yard");
        Ok(states)
    }

    async fn read(&self, path: &str) -> Result<Value> {
        self.ask(path, None).await.context(UNREADABLE)
    }

    /// Uses the control API as an operator: a GET without a body, a POST with one.
    pub(super) async fn control(&self, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        if body.is_some() && matches!(&self.way, Way::Running { socket: None, .. }) {
            return Err(manage::no_socket());
        }
        Ok(self.ask(path, body).await?)
    }

    async fn ask(&self, path: &str, body: Option<&Value>) -> Result<Value> {
        match &self.way {
            Way::Own(gateway, _) => {
                let (path, query) =
                    path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
                let request = ControlRequest {
                    method: if body.is_some() { http::Method::POST } else { http::Method::GET },
                    path: path.to_owned(),
                    query: query.map(str::to_owned),
                    body: body.map(Value::to_string).unwrap_or_default().into(),
                    last_event_id: None,
                    principal: Principal::local(),
                    is_operator: true,
                };
                let ControlResponse::Whole { status, json } = gateway.control(request).await else {
                    return Err(anyhow!("the control API answered with events"));
                };
                manage::read(status.as_u16(), serde_json::from_slice(&json).unwrap_or_default())
            }
            Way::Running { socket: Some(socket), .. } => {
                manage::control(&Address::Socket(socket), path, body).await
            }
            Way::Running { http, headers, .. } => {
                manage::control(&Address::Http(http, headers), path, body).await
            }
        }
    }

    /// Waits until a running gateway knows every upstream of the config, which may just have been changed.
    pub(super) async fn caught_up(&self, config: &Config) -> Result<()> {
        let deadline = Instant::now() + CATCH_UP;
        loop {
            let states = self.states().await?;
            let is_known =
                |upstream: &UpstreamConfig| states.iter().any(|state| state.id == upstream.id.as_str());
            if config.upstreams.on.iter().all(is_known) || Instant::now() >= deadline {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    /// The report of the gateway.
    pub(super) async fn report(&self) -> Result<Value> {
        self.read("/report").await
    }

    /// The states of all upstreams, once none of them is connecting any more.
    pub(super) async fn settled(&self) -> Result<Vec<UpstreamState>> {
        self.states_once(|state| !state.is_under_way()).await
    }

    /// The states of all upstreams, once the definitions of each are known, stored ones included.
    pub(super) async fn known(&self) -> Result<Vec<UpstreamState>> {
        self.states_once(UpstreamState::is_known).await
    }

    /// The states once `is_done` holds for all of them, or those at the end of the patience.
    async fn states_once(&self, is_done: impl Fn(&UpstreamState) -> bool) -> Result<Vec<UpstreamState>> {
        let started = Instant::now();
        loop {
            let states = self.states().await?;
            let waiting: Vec<&str> =
                states.iter().filter(|state| !is_done(state)).map(|state| state.id.as_str()).collect();
            let is_over = waiting.is_empty() || started.elapsed() >= PATIENCE;
            if started.elapsed() >= A_MOMENT && std::io::stderr().is_terminal() {
                let text =
                    if is_over { String::new() } else { format!("waiting for {}", waiting.join(", ")) };
                say::passing(text);
            }
            if is_over {
                return Ok(states);
            }
            sleep(PAUSE).await;
        }
    }

    /// The tools of one upstream, under its own names.
    pub(super) async fn tools(&self, id: &str) -> Result<Vec<Raw>, CallError> {
        let view = View::Upstream(id.into());
        let mut cursor = None;
        let mut tools = Vec::new();
        loop {
            let params =
                cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor })).into();
            let method = Method::new("tools/list");
            let page = self.request(&view, method, &params, None, Peer::none()).await?;
            let page_tools = page.member("tools").and_then(|tools| tools.read::<Vec<Raw>>().ok());
            tools.extend(page_tools.unwrap_or_default());
            cursor = page.member("nextCursor").and_then(|cursor| cursor.as_string());
            if cursor.is_none() {
                return Ok(tools);
            }
        }
    }

    /// One list of an upstream as it defined it, regardless of the rules.
    pub(super) async fn definitions(&self, id: &str, list: &str) -> Result<Vec<Raw>, Failure> {
        let mut all: Vec<Raw> = Vec::new();
        loop {
            let path = format!("/upstreams/{id}/definitions?list={list}&offset={}", all.len());
            let page = self.control(&path, None).await?;
            let entries = page["entries"].as_array().cloned().unwrap_or_default();
            let is_last = entries.is_empty();
            all.extend(entries.into_iter().map(Raw::from));
            if is_last || page["total"].as_u64().is_none_or(|total| all.len() as u64 >= total) {
                return Ok(all);
            }
        }
    }

    /// Ends everything that was started.
    pub(super) async fn end(self) {
        if let Way::Own(gateway, packs) = &self.way {
            let sets = packs.in_use();
            gateway.end().await;
            packs::end(sets).await;
        }
        let _ = tokio::time::timeout(LAST_TASKS, self.scope.end()).await;
    }
}

/// The folder where this config set keeps its things, made if it is missing.
fn opened(common: &Common, settings: &Settings) -> Option<PathBuf> {
    state_dir::open(common.state_dir.as_deref(), &settings.found.set(), &settings::variable).ok()
}

/// The path after `/mcp`.
fn path(view: &View) -> String {
    match view {
        View::Everything => String::new(),
        View::Upstream(id) => format!("/{id}"),
        View::Profile(name) => format!("/p/{name}"),
        View::Hub => "/hub".to_owned(),
        View::Lean => "/lean".to_owned(),
    }
}

#[cfg(test)]
mod tests;
