//! A call is woken whatever polls it: a step may run a call beside timers, with wakers of its own in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::net::TcpListener;
use toolyard_link::http::HttpSpec;
use toolyard_link::{EraPin, Offer, Target, Timeouts, UpstreamTarget, connect};
use toolyard_model::{
    Answer, BoxFuture, ClientKey, Handler, Link, LinkRequest, Origin, Peer, Request, Scope,
};
use toolyard_proto::{Notification, Raw};
use toolyard_serve::{Endpoint, Options, serve_http};

use crate::support::{Double, World, world};

/// Passes calls to an upstream as a step might: in a `FuturesUnordered`, beside two timers.
struct Beside(Arc<dyn Link>);

impl Handler for Beside {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        let Request { origin, id, method, params, .. } = request;
        let legacy = params.without(&["_meta"]);
        let call = self.0.call(LinkRequest::new(origin, id, method, legacy), peer);
        let timer = |seconds| -> BoxFuture<Option<Answer>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                None
            })
        };
        Box::pin(async move {
            let mut all: FuturesUnordered<BoxFuture<Option<Answer>>> = FuturesUnordered::new();
            all.push(timer(100));
            all.push(Box::pin(async move { Some(call.await) }));
            all.push(timer(200));
            loop {
                if let Some(Some(answer)) = all.next().await {
                    return answer;
                }
            }
        })
    }

    fn notice(&self, _: &Arc<Origin>, _: Notification) {}

    fn ended(&self, _: &ClientKey) {}
}

/// A gateway of one step, in front of a legacy upstream over HTTP.
async fn in_front_of(upstream: &World) -> World {
    let spec =
        HttpSpec::new(format!("http://{}/mcp", upstream.address).parse().unwrap(), http::HeaderMap::new());
    let target = UpstreamTarget {
        name: "legacy".into(),
        target: Target::Http(spec),
        era: EraPin::Legacy,
        timeouts: Timeouts::default(),
    };
    let offer = Offer {
        capabilities: Raw::empty_object(),
        client_info: json!({ "name": "test", "version": "1" }).into(),
    };
    let scope = Scope::new();
    let connected = connect(&target, None, &offer, &scope).await.unwrap();
    let endpoint = Endpoint::new(Arc::new(Beside(connected.link)), Options::default(), &scope);
    let endpoint = Arc::new(endpoint);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    scope.spawn(serve_http(listener, endpoint.clone(), scope.clone()));
    World { address, double: Arc::new(Double::default()), endpoint, scope }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_polled_beside_timers_is_not_delayed() {
    let upstream = world().await;
    let gateway = in_front_of(&upstream).await;
    for round in 0..50 {
        let started = Instant::now();
        for (tool, arguments) in [("echo", json!({})), ("notify", json!({ "count": 3 }))] {
            let reply = gateway.modern("tools/call", json!({ "name": tool, "arguments": arguments })).await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(5), "round {round} took {took:?}");
    }
}
