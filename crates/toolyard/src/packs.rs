//! The packs that come with the program, and which of them are on.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};
use toolyard_core::{Connect, Connected};
use toolyard_host::Hosts;
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Reason, Revision};
use toolyard_tool::{Pack, ToolSet, Wrong};

use toolyard_config::{Config, KnownPacks, PackConfig, PackProblem, PackSchema};

use crate::connect::ConnectContext;

/// All of them. A new pack is one line here.
static ALL: LazyLock<Vec<Pack>> = LazyLock::new(|| {
    vec![
        #[cfg(feature = "dev")]
        toolyard_pack_dev::pack(),
        #[cfg(all(unix, feature = "code"))]
        toolyard_pack_code::pack(),
        #[cfg(feature = "models")]
        toolyard_pack_models::pack(),
        #[cfg(all(unix, feature = "music"))]
        toolyard_pack_music::pack(),
        #[cfg(feature = "scripts")]
        toolyard_pack_scripts::pack(),
        #[cfg(feature = "sessions")]
        toolyard_pack_sessions::pack(),
        #[cfg(feature = "agents")]
        toolyard_pack_agents::pack(),
    ]
});

/// The packs of a program built with all features, and whether this system can have them.
const EXISTING: [(&str, bool); 7] = [
    ("dev", true),
    ("code", cfg!(unix)),
    ("models", true),
    ("music", cfg!(unix)),
    ("scripts", true),
    ("sessions", true),
    ("agents", true),
];

pub(crate) fn all() -> &'static [Pack] {
    &ALL
}

pub(crate) fn find(name: &str) -> Option<&'static Pack> {
    all().iter().find(|pack| pack.name() == name)
}

/// The keys of packs that the config accepts.
pub(crate) fn known() -> KnownPacks {
    let packs = all().iter().map(|pack| -> Box<dyn PackSchema> { Box::new(Schema(pack)) }).collect();
    let missing = EXISTING.iter().filter(|(name, _)| find(name).is_none());
    KnownPacks {
        packs,
        missing: missing.map(|&(name, is_possible)| (name, missing_reason(name, is_possible))).collect(),
    }
}

/// Why this program does not have a pack of this name, if there is such a pack.
pub(crate) fn not_here(name: &str) -> Option<String> {
    let (_, is_possible) = EXISTING.iter().find(|(existing, _)| *existing == name && find(name).is_none())?;
    Some(missing_reason(name, *is_possible))
}

fn missing_reason(name: &str, is_possible: bool) -> String {
    if is_possible {
        format!("this program was built without the pack `{name}`")
    } else {
        format!("the pack `{name}` does not run on {}", std::env::consts::OS)
    }
}

/// The keys of a pack's section, in the form that the config needs.
struct Schema(&'static Pack);

impl PackSchema for Schema {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn summary(&self) -> &str {
        self.0.summary()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        self.0.keys().iter().map(|key| (key.name(), key.about())).collect()
    }

    fn within(&self, key: &str, folder: &Path, value: Value) -> Value {
        match self.0.keys().iter().find(|known| known.name() == key) {
            Some(key) => key.within(folder, value),
            None => value,
        }
    }

    fn check(&self, config: &Value) -> Vec<PackProblem> {
        let problem = |Wrong { key, what }: Wrong| PackProblem { key, what };
        self.0.check(config).into_iter().map(problem).collect()
    }
}

/// A pack under a config.
pub(crate) struct PackState {
    pub(crate) pack: &'static Pack,
    /// Its config, or why it is off.
    pub(crate) config: Result<Value, String>,
}

/// The state of every pack under this config: on, unless it lacks config, its id is in use or it is
/// switched off.
pub(crate) fn states(config: &Config) -> Vec<PackState> {
    all().iter().map(|pack| PackState { pack, config: config_of(pack, config) }).collect()
}

/// The configured packs that are off, each with the reason.
pub(crate) fn off(config: &Config) -> Option<String> {
    let is_set_up = |name: &str| config.packs.iter().any(|written| written.name == name);
    let off = states(config).into_iter().filter_map(|PackState { pack, config }| Some((pack, config.err()?)));
    let off = off.filter(|(pack, _)| !pack.needs_config() || is_set_up(pack.name()));
    let off: Vec<String> = off.map(|(pack, reason)| format!("{} ({reason})", pack.name())).collect();
    (!off.is_empty()).then(|| format!("packs off: {}", off.join(", ")))
}

/// Why a pack of this name is off, if there is one and it is.
pub(crate) fn why_off(config: &Config, name: &str) -> Option<String> {
    config_of(find(name)?, config).err()
}

fn config_of(pack: &Pack, config: &Config) -> Result<Value, String> {
    let written = config.packs.iter().find(|written| written.name == pack.name());
    if let Some(upstream) = config.upstreams.ids().find(|id| id.as_str().eq_ignore_ascii_case(pack.name())) {
        return Err(format!("the upstream `{upstream}` has its id"));
    }
    match written {
        Some(written) if !written.enabled => Err("switched off".into()),
        Some(PackConfig { missing: Some(missing), .. }) => Err(missing.reason()),
        Some(written) => Ok(Value::Object(written.keys.clone())),
        None if pack.needs_config() => Err(format!("it needs a section [packs.{}]", pack.name())),
        None => Ok(Value::Object(Map::new())),
    }
}

/// How long functions of packs may take to end when the gateway ends.
const LAST_FUNCTIONS: Duration = Duration::from_secs(5);

/// The tool sets of packs, which end with the gateway. Sets that are unused after a change of the config are
/// not kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets(Arc<Mutex<Vec<Weak<ToolSet>>>>);

impl Sets {
    fn add(&self, set: &Arc<ToolSet>) {
        let mut sets = self.sets();
        sets.retain(|set| set.strong_count() > 0);
        sets.push(Arc::downgrade(set));
    }

    /// The sets in use. Take them before their upstreams end, which drop them.
    pub(crate) fn in_use(&self) -> Vec<Arc<ToolSet>> {
        self.sets().iter().filter_map(Weak::upgrade).collect()
    }

    fn sets(&self) -> MutexGuard<'_, Vec<Weak<ToolSet>>> {
        self.0.lock()
    }
}

/// Ends all sets together: work on a thread, such as writing a file, is finished unless that takes too long.
pub(crate) async fn end(sets: Vec<Arc<ToolSet>>) {
    let ending = Scope::new();
    for set in sets {
        ending.spawn(async move { set.end().await });
    }
    if tokio::time::timeout(LAST_FUNCTIONS, ending.finished()).await.is_err() {
        tracing::warn!("a function of a pack did not end in time");
    }
}

/// A pack as an upstream. Its tools are put together when it is connected to; what they share is made by
/// their first call.
pub(crate) struct PackUpstream {
    pack: &'static Pack,
    config: Value,
    tools: OnceLock<Arc<ToolSet>>,
    sets: Sets,
    hosts: Hosts,
}

impl PackUpstream {
    pub(crate) fn new(pack: &'static Pack, config: Value, context: &ConnectContext) -> Self {
        let (sets, hosts) = (context.packs().clone(), context.hosts().clone());
        Self { pack, config, tools: OnceLock::new(), sets, hosts }
    }

    pub(crate) fn id(&self) -> Option<UpstreamId> {
        UpstreamId::parse(self.pack.name()).ok()
    }

    fn tools(&self) -> Result<&Arc<ToolSet>, String> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools);
        }
        let tools = self.pack.tools_in(self.config.clone(), self.hosts.host(self.pack.name()));
        let tools = Arc::new(tools.map_err(|error| error.to_string())?);
        let tools = self.tools.get_or_init(|| tools);
        self.sets.add(tools);
        Ok(tools)
    }
}

impl Connect for PackUpstream {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let connected = self.tools().map(ToolSet::connect).map_err(Reason::from);
        Box::pin(async { connected })
    }
}

impl fmt::Debug for PackUpstream {
    /// The config may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackUpstream").field(&self.pack.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::sync::watch;
    use toolyard_core::{Gateway, Plan};
    use toolyard_model::{
        AnswerBody, ClientKey, Handler, LinkRequest, Origin, Peer, Principal, Request, View,
    };
    use toolyard_proto::{Id, Method, Raw};
    use toolyard_tool::tool;

    use super::*;
    use crate::plan::pack_plan;

    #[test]
    fn every_pack_can_be_an_upstream() {
        for pack in all() {
            assert!(UpstreamId::parse(pack.name()).is_ok(), "{pack:?}");
            assert!(!pack.summary().is_empty(), "{pack:?}");
            for key in pack.keys() {
                assert!(!key.about().is_empty(), "{pack:?}: {}", key.name());
                assert_ne!(key.name(), "enabled", "{pack:?}");
            }
        }
    }

    /// A call on a connection that does not prove its user.
    #[cfg(unix)]
    async fn call_unproven(set: &ToolSet, tool: &str) -> String {
        let (local, client) = (Principal::local(), ClientKey::Connection(1));
        let origin = Arc::new(Origin::new(View::Everything, local, client, Revision::NEWEST));
        let params = Raw::from(json!({ "name": tool, "arguments": {} }));
        let request = Request::new(origin, Id::number(1), Method::TOOLS_CALL, params);
        match set.handle(request, Peer::none()).await {
            Ok(AnswerBody::Whole(result, _)) => result.read::<Value>().unwrap().to_string(),
            Ok(AnswerBody::Stream(_)) => panic!("nothing streams here"),
            Err(error) => error.to_string(),
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn packs_that_write_run_programs_or_spend_money_serve_only_connections_that_prove_their_user() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let kind = json!({ "program": "command", "command": ["cat"] });
        let provider = json!({ "kind": "compatible", "base_url": "http://127.0.0.1:9/v1" });
        let configs = [
            ("agents", json!({ "types": { "explore": kind }, "projects": [project] })),
            ("models", json!({ "providers": { "here": provider } })),
            ("music", json!({ "root": project })),
            ("scripts", json!({ "root": project })),
            ("sessions", json!({ "programs": ["claude"], "home": project })),
        ];
        for (name, config) in configs {
            let pack = all().iter().find(|pack| pack.name() == name).unwrap();
            assert!(pack.needs_config(), "{name} is off until it is configured");
            let set = pack.tools(config).unwrap();
            for tool in set.tool_names() {
                let definition = set.definition(tool).unwrap();
                // The library of the music pack may be read.
                let is_open = name == "music" && definition["annotations"]["readOnlyHint"] == true;
                let answer = call_unproven(&set, tool).await;
                let is_refused = answer.contains("only connections that prove their user");
                assert_eq!(is_refused, !is_open, "{name}:{tool}: {answer}");
            }
        }
        let music = all().iter().find(|pack| pack.name() == "music").unwrap();
        let open = music.tools(json!({ "root": project, "unproven_writes": true })).unwrap();
        let answer = call_unproven(&open, "fs_mkdir").await;
        assert!(!answer.contains("prove") && answer.contains("path"), "{answer}");
    }

    /// Takes 90 s, and reports how far it is.
    #[tool]
    async fn labour(context: &toolyard_tool::Context) -> String {
        for step in 1..=9 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            context.progress(step, 9);
        }
        "done".into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_90_s_without_a_progress_token_is_answered() {
        let scope = Scope::new();
        let context = ConnectContext::new(None, scope.child());
        let pack = Pack::new("labour", "Works.", || ToolSet::new("labour", "1").with::<labour>());
        let plan = pack_plan(PackState { pack: Box::leak(Box::new(pack)), config: Ok(json!({})) }, &context)
            .unwrap();
        assert_eq!(plan.policy.timeouts.idle, Duration::from_secs(30), "the default");
        let gateway = Gateway::start(Plan { upstreams: vec![plan], ..Plan::default() }, &scope);
        let begun = tokio::time::Instant::now();
        let call = json!({ "name": "labour", "arguments": {} });
        let answer = ask(&gateway, "labour", "tools/call", call).await;
        assert_eq!(answer["content"][0]["text"], "done", "{answer}");
        assert!(begun.elapsed() >= Duration::from_secs(90));
        scope.end().await;
    }

    /// How far the tool of the pack below has got.
    static REACHED: LazyLock<watch::Sender<u32>> = LazyLock::new(|| watch::Sender::new(0));

    /// Writes what must not be left half written.
    #[tool]
    fn write() {
        REACHED.send_replace(1);
        std::thread::sleep(Duration::from_millis(1_500));
        REACHED.send_replace(2);
    }

    #[tokio::test]
    async fn a_write_that_a_pack_has_begun_is_finished_before_the_gateway_ends() {
        let pack: &'static Pack = Box::leak(Box::new(Pack::new("writer", "Writes.", || {
            ToolSet::new("writer", "1").with::<write>()
        })));
        let context = ConnectContext::new(None, Scope::new());
        let sets = context.packs().clone();
        let upstream = PackUpstream::new(pack, json!({}), &context);
        let link = upstream.connect(None).await.unwrap().link;
        let request = LinkRequest::new(
            Origin::gateway(Raw::empty_object(), Raw::empty_object()),
            Id::number(1),
            Method::TOOLS_CALL,
            json!({ "name": "write" }),
        );
        let mut call = link.call(request, Peer::none());
        let mut reached = REACHED.subscribe();
        tokio::select! {
            _ = &mut call => panic!("it takes its time"),
            begun = reached.wait_for(|reached| *reached == 1) => drop(begun.unwrap()),
        }
        drop(call);
        let in_use = sets.in_use();
        drop((link, upstream));
        end(in_use).await;
        assert_eq!(*REACHED.borrow(), 2, "the file is written although no caller waits for the answer");
        assert!(sets.in_use().is_empty());
    }

    /// How often the state of the pack below was made.
    static MADE: AtomicUsize = AtomicUsize::new(0);

    struct Counter;

    /// Counts.
    #[tool]
    async fn count(_counter: &Counter) -> String {
        "one".into()
    }

    async fn ask(gateway: &Gateway, view: &str, method: &str, params: Value) -> Value {
        let origin = Arc::new(Origin::new(
            View::parse(view).unwrap(),
            Principal::local(),
            ClientKey::Connection(1),
            Revision::NEWEST,
        ));
        let (id, method, params) = (Id::number(1), Method::new(method), Raw::from(params));
        let request = Request::new(origin, id, method, params);
        match gateway.handle(request, Peer::none()).await.unwrap() {
            AnswerBody::Whole(result, _) => result.read().unwrap(),
            AnswerBody::Stream(_) => panic!("nothing streams here"),
        }
    }

    #[tokio::test]
    async fn listing_what_a_pack_offers_makes_nothing_of_its_state_and_the_first_call_does() {
        let pack: &'static Pack = Box::leak(Box::new(Pack::new("counter", "Counts.", || {
            let state = async || {
                MADE.fetch_add(1, Ordering::SeqCst);
                Ok(Counter)
            };
            ToolSet::new("counter", "1").state_with(state).with::<count>().state(())
        })));
        let scope = Scope::new();
        let context = ConnectContext::new(None, scope.child());
        let upstreams = pack_plan(PackState { pack, config: Ok(json!({})) }, &context).into_iter().collect();
        let gateway = Gateway::start(Plan { upstreams, ..Plan::default() }, &scope);
        for (view, name) in [("", "counter__count"), ("counter", "count")] {
            let listed = ask(&gateway, view, "tools/list", json!({})).await.to_string();
            assert!(listed.contains(&format!("\"{name}\"")), "{listed}");
            ask(&gateway, view, "server/discover", json!({})).await;
        }
        assert_eq!(MADE.load(Ordering::SeqCst), 0, "it was listed, greeted and connected to");
        for _ in 0..2 {
            let params = json!({ "name": "count", "arguments": {} });
            let answer = ask(&gateway, "counter", "tools/call", params).await;
            assert_eq!(answer["content"][0]["text"], "one", "{answer}");
        }
        assert_eq!(MADE.load(Ordering::SeqCst), 1, "by the first call, and for all");
        scope.end().await;
    }

    /// Never answers.
    #[tool]
    async fn hang() -> String {
        std::future::pending().await
    }

    /// The plan of a pack whose calls may go without progress for so long.
    fn plan_with(idle: Option<Duration>, context: &ConnectContext) -> toolyard_core::UpstreamPlan {
        let pack = Pack::new("slow", "Never answers.", || ToolSet::new("slow", "1").with::<hang>());
        let pack = Box::leak(Box::new(match idle {
            Some(idle) => pack.idle(idle),
            None => pack,
        }));
        pack_plan(PackState { pack, config: Ok(json!({})) }, context).unwrap()
    }

    #[tokio::test]
    async fn a_call_may_go_without_progress_for_as_long_as_its_pack_allows() {
        let scope = Scope::new();
        let context = ConnectContext::new(None, scope.child());
        let idle_of = |idle| plan_with(idle, &context).policy.timeouts.idle;
        assert_eq!(idle_of(None), Duration::from_secs(30));
        assert_eq!(idle_of(Some(Duration::from_mins(7))), Duration::from_mins(7));

        let upstreams = vec![plan_with(Some(Duration::from_secs(1)), &context)];
        let gateway = Gateway::start(Plan { upstreams, ..Plan::default() }, &scope);
        let answer = ask(&gateway, "slow", "tools/call", json!({ "name": "hang", "arguments": {} })).await;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("made no progress for 1 s and was cancelled"), "{answer}");
        scope.end().await;
    }
}
