//! How the gateway introduces itself: its name, its capabilities and its instructions.

use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use toolyard_model::{Greeting, Origin};
use toolyard_proto::modern::{SERVER_INFO, SKILLS_EXTENSION, TASKS_EXTENSION, UI_EXTENSION};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Raw, Reason, modern};

use crate::catalog::ViewCatalog;
use crate::{bridge, skills};

pub(crate) const NAME: &str = "toolyard";

/// The member of `_meta` in a gateway's greeting that lists the gateway and every gateway behind it, by run. A gateway
/// that finds itself there has been connected to itself.
pub const GATEWAYS: &str = "dev.toolyard/gateways";

/// How many gateways a greeting lists at most.
const MOST_GATEWAYS: usize = 64;

/// Identifies this run of the program among all gateways.
pub fn gateway_id() -> &'static str {
    static ID: LazyLock<String> = LazyLock::new(|| {
        let mut bytes = [0; 16];
        // Without randomness the process and its start are unique on one machine.
        if getrandom::fill(&mut bytes).is_err() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            bytes = (now ^ u128::from(std::process::id())).to_le_bytes();
        }
        HEXLOWER.encode(&bytes)
    });
    &ID
}

/// The gateways that a greeting lists.
pub fn gateways_in(greeting: &Greeting) -> Vec<String> {
    greeting.whole.at(&["_meta", GATEWAYS]).and_then(|ids| ids.read().ok()).unwrap_or_default()
}

/// Whether this gateway is behind an upstream, by the `_meta` of a list that the upstream gave. The greeting of an
/// upstream does not show it if both gateways connect to each other at the same time.
pub(crate) fn leads_back(list_meta: &Raw) -> bool {
    let ids: Option<Vec<String>> = list_meta.member(GATEWAYS).and_then(|ids| ids.read().ok());
    ids.is_some_and(|ids| ids.iter().any(|id| id == gateway_id()))
}

/// Why a gateway does not connect to itself.
pub fn loop_reason(upstream: &str) -> Reason {
    Reason::of_upstream(upstream, "leads back to this gateway, directly or through another one")
        .with_hint("remove it: its tools would be listed again and again")
}

/// This gateway and every gateway behind it in a view.
fn gateways_of(view: &ViewCatalog) -> Vec<String> {
    let mut gateways = vec![gateway_id().to_owned()];
    let known = view.upstreams().filter_map(|upstream| upstream.definitions());
    gateways.extend(known.flat_map(|definitions| gateways_in(&definitions.greeting)));
    gateways.dedup();
    gateways.truncate(MOST_GATEWAYS);
    gateways
}

/// The `_meta` of the lists of a view with another gateway behind it, for the gateway that reads them.
pub(crate) fn with_gateways(view: &ViewCatalog, meta: Option<Raw>) -> Option<Raw> {
    let gateways = gateways_of(view);
    if gateways.len() < 2 {
        return meta;
    }
    let meta = meta.unwrap_or_else(Raw::empty_object);
    Some(meta.with(GATEWAYS, &Raw::from_serialize(&gateways)))
}

pub(crate) fn server_info() -> Raw {
    serde_json::json!({ "name": NAME, "title": "Toolyard", "version": env!("CARGO_PKG_VERSION") }).into()
}

/// `_meta` of the results that a view makes itself.
pub(crate) fn result_meta(view: &ViewCatalog) -> Raw {
    let own = view.alone.as_ref().and_then(|alone| alone.definitions()?.greeting.server_info.clone());
    Raw::empty_object().with(SERVER_INFO, &own.unwrap_or_else(server_info))
}

/// The introduction of a view of many upstreams. Upstreams come and go, so it declares everything it
/// can carry.
pub(crate) fn discover(view: &ViewCatalog, origin: &Origin) -> Raw {
    let capabilities = serde_json::json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "completions": {},
        "logging": {},
    });
    let mut capabilities = Raw::from(capabilities);
    if let Some(extensions) = extensions(view) {
        capabilities = capabilities.with("extensions", &extensions);
    }
    let known: Vec<_> = view.upstreams().filter_map(|upstream| upstream.definitions()).collect();
    let greetings = known.iter().map(|definitions| &definitions.greeting);
    if let Some(tasks) = bridge::tasks_in_view(origin, greetings) {
        capabilities = capabilities.with("tasks", &tasks);
    }
    let gateways = gateways_of(view);
    let result = Raw::empty_object()
        .with("supportedVersions", &bridge::our_versions())
        .with("capabilities", &capabilities)
        .with("instructions", &Raw::from_serialize(&instructions(view)));
    let result = result.with_path(&["_meta", GATEWAYS], &Raw::from_serialize(&gateways));
    modern::stamp_cache(&modern::stamp_result(&result, Some(&server_info())), 0, "private")
}

/// The extensions that a view of many upstreams serves. Methods of other extensions name no upstream to go to.
const SERVED_EXTENSIONS: [&str; 3] = [TASKS_EXTENSION, UI_EXTENSION, SKILLS_EXTENSION];

/// Every extension that some upstream in the view declares and the view serves.
fn extensions(view: &ViewCatalog) -> Option<Raw> {
    let mut all: Option<Raw> = None;
    for upstream in view.upstreams() {
        let Some(own) = upstream.definitions().and_then(|d| d.greeting.capabilities.member("extensions"))
        else {
            continue;
        };
        for member in toolyard_proto::splice::members(own.as_bytes()) {
            let name = own.slice(member.key.at).as_string();
            let Some(name) = name.filter(|name| SERVED_EXTENSIONS.contains(&name.as_str())) else { continue };
            let so_far = all.take().unwrap_or_else(Raw::empty_object);
            all = Some(if so_far.member(&name).is_none() {
                so_far.with(&name, &own.slice(member.value))
            } else {
                so_far
            });
        }
    }
    match all {
        Some(all) if all.member(SKILLS_EXTENSION).is_some() => {
            Some(all.with(SKILLS_EXTENSION, &skills::settings(view)))
        }
        all => all,
    }
}

fn instructions(view: &ViewCatalog) -> String {
    if view.is_hub {
        return "Dev-server instances on this machine. `instances_list` shows them; `instances_connect` connects this session to one, whose tools, resources and prompts are then listed under their own names; `instances_disconnect` takes them away again. `instances_call` calls a tool of any instance without connecting.".to_owned();
    }
    if view.is_lean() {
        return lean_instructions(view);
    }
    let mut text = String::from(
        "Tools of several servers behind one endpoint, named `server__tool`. \
     `yard__search_tools` finds tools by words; `yard__upstreams` lists the servers and why one is unavailable.",
    );
    for upstream in view.upstreams() {
        let own = upstream.definitions().and_then(|definitions| definitions.greeting.instructions.clone());
        if let Some(own) =
            own.and_then(|own| own.as_string()).filter(|_| *upstream.id() != UpstreamId::yard())
        {
            let _ = write!(text, "\n\n## {}\n{}", upstream.id(), own.trim());
        }
    }
    text
}

/// How many servers a lean view names.
const MOST_NAMED: usize = 100;

/// Short, because the client wants to spend few tokens; but a model searches only for what it can expect to find.
fn lean_instructions(view: &ViewCatalog) -> String {
    let mut text = String::from(
        "Tools of several servers. They are not listed: `search_tools` finds them by words, and `call_tool` calls one by the name that was found.",
    );
    let own = UpstreamId::yard();
    let mut ids = view.upstreams().map(|upstream| upstream.id()).filter(|id| **id != own);
    let named: Vec<&str> = ids.by_ref().take(MOST_NAMED).map(UpstreamId::as_str).collect();
    if !named.is_empty() {
        let _ = write!(text, " Servers: {}", named.join(", "));
        let _ = match ids.count() {
            0 => write!(text, "."),
            more => write!(text, " and {more} more."),
        };
    }
    text
}
