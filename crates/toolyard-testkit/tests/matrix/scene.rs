//! A gateway between one scripted server and its clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use toolyard_core::plan::Pace;
use toolyard_core::{Connect, Connected, Gateway, Plan, UpstreamKind, UpstreamPlan};
use toolyard_link::child::ChildSpec;
use toolyard_link::http::HttpSpec;
use toolyard_link::{EraPin, Offer, Target, UpstreamTarget, connect};
use toolyard_model::{BoxFuture, Origin, Principal, Scope, View};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Reason, Revision};
use toolyard_serve::{Endpoint, Options, serve_stream};
use toolyard_testkit::script::{Client, Server, Wire, serve_http};

/// On both sides of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Stdio,
}

pub(crate) struct Scene {
    pub(crate) transport: Transport,
    pub(crate) server: Revision,
    gateway: Gateway,
    endpoint: Arc<Endpoint>,
    address: String,
}

impl Scene {
    pub(crate) async fn set(transport: Transport, server: Revision, scope: &Scope) -> Self {
        let target = match transport {
            Transport::Http => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let url = format!("http://{}/mcp", listener.local_addr().unwrap());
                scope.spawn(serve_http(Server::new(server, scope), listener, scope.clone()));
                Target::Http(HttpSpec::new(url.parse().unwrap(), http::HeaderMap::default()))
            }
            Transport::Stdio => {
                let (program, args) = (env!("CARGO_BIN_EXE_script").into(), vec![server.as_str().into()]);
                Target::Child(ChildSpec { program, args, env: Vec::new(), ..ChildSpec::new("") })
            }
        };
        let id = UpstreamId::parse("script").unwrap();
        let connect = Arc::new(Reach { target, scope: scope.clone() });
        let upstream = UpstreamPlan::new(id, UpstreamKind::Server, connect);
        let pace = Pace { debounce: Duration::from_millis(5), ..Pace::default() };
        let plan = Plan { upstreams: vec![upstream], pace, ..Plan::default() };
        let gateway = Gateway::start(plan, scope);
        let endpoint = Arc::new(Endpoint::new(Arc::new(gateway.clone()), Options::default(), scope));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        scope.spawn(toolyard_serve::serve_http(listener, endpoint.clone(), scope.clone()));
        Self { transport, server, gateway, endpoint, address }
    }

    pub(crate) async fn client(&self, revision: Revision, scope: &Scope) -> Result<Client, String> {
        let wire = match self.transport {
            Transport::Http => Wire::http(&self.address, "/mcp/script"),
            Transport::Stdio => {
                let (ours, theirs) = tokio::io::duplex(256 * 1024);
                let (read, write) = tokio::io::split(theirs);
                let (endpoint, view) = (self.endpoint.clone(), View::Upstream("script".into()));
                let serving = serve_stream(read, write, endpoint, view, Principal::local(), scope.clone());
                scope.spawn(serving);
                Wire::lines(ours)
            }
        };
        let client = Client::connect(wire, revision, scope).await?;
        // Names are known once the first list is.
        client.ask("tools/list", json!({})).await.map_err(|error| error.to_string())?;
        Ok(client)
    }

    pub(crate) async fn end(self, scope: &Scope) {
        self.gateway.end().await;
        scope.end().await;
    }
}

/// Reaches the scripted server as the program does.
struct Reach {
    target: Target,
    scope: Scope,
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("script")
    }
}

impl Reach {
    fn connect_as(&self, known: Option<Revision>, offer: Offer) -> BoxFuture<Result<Connected, Reason>> {
        let target = UpstreamTarget {
            name: "script".into(),
            target: self.target.clone(),
            era: EraPin::Auto,
            timeouts: toolyard_link::Timeouts::default(),
        };
        let scope = self.scope.clone();
        Box::pin(async move {
            let connecting = connect(&target, known.map(Revision::era), &offer, &scope);
            connecting.await.map_err(Reason::from)
        })
    }
}

impl Connect for Reach {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let capabilities = json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } });
        let client_info = json!({ "name": "matrix", "version": "1" }).into();
        self.connect_as(known, Offer { capabilities: capabilities.into(), client_info })
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        let client_info = json!({ "name": "matrix", "version": "1" }).into();
        self.connect_as(known, Offer { capabilities: client.capabilities.clone(), client_info })
    }
}
