//! Clients of a gateway that has the example behind it: as a pack, in the same process, as a program that it starts,
//! or as an app that registers with it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;
use toolyard_core::plan::Pace;
use toolyard_core::{
    AppOptions, Apps, Connect, Connected, Gateway, Plan, Timeouts, UpstreamKind, UpstreamPlan,
};
use toolyard_link::child::ChildSpec;
use toolyard_link::{EraPin, Offer, Target, UpstreamTarget, connect};
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Raw, Reason, Revision};
use toolyard_serve::{Endpoint, Options, serve_http};
use toolyard_tool::ToolSet;

use super::Example;
use super::clients::{Client, Later};
use super::http::Http;

/// The id of the example, and the prefix of its names in the view of all upstreams.
const ID: &str = "here";
const PREFIX: &str = "here__";

pub(crate) fn pack(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let upstream = Pack(Arc::new((example.tools)()));
        Box::new(client_of(upstream, "/mcp/here", revision).await) as Box<dyn Client>
    })
}

pub(crate) fn program(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let upstream = Program { program: example.program.unwrap(), scope: Scope::new() };
        Box::new(client_of(upstream, "/mcp/here", revision).await) as Box<dyn Client>
    })
}

/// The view of all upstreams, where names have a prefix.
pub(crate) fn everything(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let upstream = Pack(Arc::new((example.tools)()));
        let inner = client_of(upstream, "/mcp", revision).await;
        Box::new(Renaming { inner, scheme: example.scheme }) as Box<dyn Client>
    })
}

/// The same with the program.
pub(crate) fn everything_program(
    example: &'static Example,
    revision: Revision,
) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let upstream = Program { program: example.program.unwrap(), scope: Scope::new() };
        let inner = client_of(upstream, "/mcp", revision).await;
        Box::new(Renaming { inner, scheme: example.scheme }) as Box<dyn Client>
    })
}

/// The program of an app, which registers with the gateway. Its tools are there a moment later.
pub(crate) fn app(example: &'static Example, revision: Revision) -> Later<'static, Box<dyn Client>> {
    Box::pin(async move {
        let scope = Scope::new();
        let (gateway, address) = serve(Vec::new(), &scope).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (program, name) = example.app.unwrap();
        let mut command = Command::new(program);
        command.arg(listener.local_addr().unwrap().to_string()).kill_on_drop(true);
        let apps = Apps::new(gateway, AppOptions::default(), &scope);
        scope.spawn(apps.serve_tcp(listener, scope.clone()));
        let child = command.spawn().unwrap();
        let mut everything = Http::open(address, "/mcp".into(), Revision::NEWEST, ()).await;
        let first = tokio::time::timeout(Duration::from_secs(30), async {
            while !everything.call("tools/list", json!({})).await.as_str().contains(&format!("\"{name}__")) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        first.await.unwrap();
        let keep = (End(scope), child);
        Box::new(Http::open(address, format!("/mcp/{name}"), revision, keep).await) as Box<dyn Client>
    })
}

async fn client_of(upstream: impl Connect, path: &str, revision: Revision) -> Http {
    let scope = Scope::new();
    let id = UpstreamId::parse(ID).unwrap();
    let mut upstream = UpstreamPlan::new(id, UpstreamKind::Server, Arc::new(upstream));
    upstream.policy.timeouts = Timeouts::LOCAL;
    let (_, address) = serve(vec![upstream], &scope).await;
    let mut client = Http::open(address, path.into(), revision, End(scope)).await;
    // The tools are known once the first list is.
    let _ = client.call("tools/list", json!({})).await;
    client
}

async fn serve(upstreams: Vec<UpstreamPlan>, scope: &Scope) -> (Gateway, SocketAddr) {
    let pace = Pace { debounce: Duration::from_millis(5), ..Pace::default() };
    let gateway = Gateway::start(Plan { upstreams, pace, ..Plan::default() }, scope);
    let endpoint = Arc::new(Endpoint::new(Arc::new(gateway.clone()), Options::default(), scope));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    scope.spawn(serve_http(listener, endpoint, scope.clone()));
    (gateway, address)
}

/// Everything of a gateway ends with its client.
struct End(Scope);

impl Drop for End {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

struct Pack(Arc<ToolSet>);

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pack")
    }
}

impl Connect for Pack {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let connected = self.0.connect();
        Box::pin(async { Ok(connected) })
    }
}

#[derive(Debug)]
struct Program {
    program: &'static str,
    scope: Scope,
}

impl Connect for Program {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let child = ChildSpec::new(self.program);
        let target = UpstreamTarget {
            name: ID.into(),
            target: Target::Child(child),
            era: EraPin::Auto,
            timeouts: toolyard_link::Timeouts::default(),
        };
        let client_info = json!({ "name": "doors", "version": "1" }).into();
        let offer = Offer { capabilities: Raw::empty_object(), client_info };
        let scope = self.scope.clone();
        Box::pin(async move {
            let connecting = connect(&target, known.map(Revision::era), &offer, &scope);
            connecting.await.map_err(Reason::from)
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

/// Adds the prefix to names and URIs in requests, and removes it from the answers. Nothing else may differ.
struct Renaming {
    inner: Http,
    /// The scheme of the example's own URIs.
    scheme: &'static str,
}

impl Renaming {
    fn shown_uri(&self) -> String {
        format!("yard+{}://{ID}/", self.scheme)
    }

    fn shown(&self, method: &str, mut params: Value) -> Value {
        let name = match method {
            "completion/complete" => params.pointer_mut("/ref/name"),
            _ => params.get_mut("name"),
        };
        if let Some(name) = name {
            *name = format!("{PREFIX}{}", name.as_str().unwrap()).into();
        }
        if let Some(uri) = params.get_mut("uri") {
            *uri = uri.as_str().unwrap().replace(&format!("{}://", self.scheme), &self.shown_uri()).into();
        }
        params
    }

    fn undone(&self, text: &str) -> String {
        text.replace(&format!("\"{PREFIX}"), "\"").replace(&self.shown_uri(), &format!("{}://", self.scheme))
    }

    /// A list without the tools of other upstreams.
    fn own(&self, result: Raw) -> Raw {
        let fields: serde_json::Map<String, Value> = result.read().unwrap();
        let Some(key) = fields.iter().find(|(_, value)| value.is_array()).map(|(key, _)| key) else {
            return result;
        };
        let entries: Vec<Box<RawValue>> = result.member(key).unwrap().read().unwrap();
        let is_own = |entry: &str| entry.contains(PREFIX) || entry.contains(&self.shown_uri());
        let own: Vec<Raw> = entries
            .into_iter()
            .filter(|entry| is_own(entry.get()))
            .map(|entry| Raw::parse(entry.get().to_owned()).unwrap())
            .collect();
        result.with(key, &Raw::array(&own))
    }
}

impl Client for Renaming {
    fn call<'a>(&'a mut self, method: &'a str, params: Value) -> Later<'a, Raw> {
        Box::pin(async move {
            let params = self.shown(method, params);
            let mut result = self.inner.call(method, params).await;
            if method.ends_with("/list") {
                result = self.own(result);
            }
            Raw::parse(self.undone(result.as_str())).unwrap()
        })
    }
}
