//! HTTP+SSE upstreams that are slow to accept what is posted.

use http::Method as Http;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolyard_link::http::HttpSpec;
use toolyard_link::{EraPin, Target, connect};
use toolyard_model::{Answer, Connected, Peer, Scope};
use toolyard_proto::Kind;

use crate::modern::target;
use crate::server::{Events, Exchange, Server};
use crate::support::{call, failed, offer, soon, time_walks, whole};

/// So many messages are posted at once.
const POSTS: u64 = 32;

struct Setup {
    server: Server,
    connected: Connected,
    sent: Events,
    _scope: Scope,
}

async fn setup() -> Setup {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let mut upstream = target(&server, EraPin::Auto);
    let url = format!("http://{}/sse", server.address).parse().unwrap();
    upstream.target = Target::Sse(HttpSpec::new(url, http::HeaderMap::new()));
    let offer = offer();
    let play = async {
        let sent = server.got(Http::GET).await.events();
        sent.text("event: endpoint\ndata: /messages\n\n").await;
        let hello = server.posted("initialize").await;
        let result = json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}});
        sent.message(json!({"jsonrpc": "2.0", "id": hello.body()["id"], "result": result})).await;
        hello.status(202);
        server.posted("notifications/initialized").await.status(202);
        sent
    };
    let (connected, sent) = tokio::join!(soon(connect(&upstream, None, &offer, &scope)), play);
    Setup { server, connected: connected.unwrap(), sent, _scope: scope }
}

impl Setup {
    fn call(&self, n: u64) -> JoinHandle<Answer> {
        tokio::task::spawn(self.connected.link.call(call(n, json!({"n": n})), Peer::none()))
    }

    /// As many calls as there are places, whose posts are not answered.
    async fn fill(&mut self) -> (Vec<JoinHandle<Answer>>, Vec<Exchange>) {
        let (mut calls, mut unanswered) = (Vec::new(), Vec::new());
        for n in 0..POSTS {
            calls.push(self.call(n));
            unanswered.push(self.server.posted("tools/call").await);
        }
        (calls, unanswered)
    }

    /// Accepts the post of a call and answers the call.
    async fn answer(&mut self, waiting: JoinHandle<Answer>, taken: Exchange) -> Value {
        self.sent.message(json!({"jsonrpc": "2.0", "id": taken.body()["id"], "result": {"ok": 1}})).await;
        taken.status(202);
        whole(soon(waiting).await.unwrap())
    }
}

#[tokio::test]
async fn a_call_given_up_makes_room_for_the_next_where_nothing_is_taken() {
    let mut setup = setup().await;
    let (mut calls, mut unanswered) = setup.fill().await;
    let waiting = setup.call(POSTS);
    calls.remove(0).abort();
    setup.server.posted("notifications/cancelled").await.status(202);
    unanswered.remove(0).abandoned().await;
    let taken = setup.server.posted("tools/call").await;
    assert_eq!(taken.body()["params"]["n"], POSTS);
    assert_eq!(setup.answer(waiting, taken).await, json!({"ok": 1}));
    // A post that is accepted late, as by servers that answer it when the call is over, does not fail.
    let (late, taken) = (calls.remove(0), unanswered.remove(0));
    assert_eq!(setup.answer(late, taken).await, json!({"ok": 1}));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_room_fails_at_its_deadline() {
    let _walking = time_walks();
    let mut setup = setup().await;
    let _held = setup.fill().await;
    let begun = tokio::time::Instant::now();
    let waiting = tokio::time::timeout(std::time::Duration::from_mins(1), setup.call(POSTS));
    let error = failed(waiting.await.unwrap().unwrap());
    assert!(matches!(error.kind, Kind::Reported(_)), "{error:?}");
    assert_eq!(begun.elapsed().as_secs(), 30);
}
