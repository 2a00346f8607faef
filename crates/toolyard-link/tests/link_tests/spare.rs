//! A second credential of an upstream: when it is used, for how long, and what the answer states about it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use toolyard_link::http::{HttpSpec, Spare};
use toolyard_link::{EraPin, Target, Timeouts, UpstreamTarget, connect};
use toolyard_model::{Answer, AnswerBody, ClientKey, Connected, LinkRequest, Peer, Scope};
use toolyard_proto::{Id, Kind, Method, Revision};

use crate::server::Server;
use crate::support::{offer, origin, request, soon};

const COOL_DOWN: Duration = Duration::from_mins(5);

fn key(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("x-key"), value.parse().unwrap())])
}

/// An upstream with two credentials, of either era.
struct World {
    server: Server,
    connected: Connected,
    era: EraPin,
    _scope: Scope,
}

impl World {
    async fn new(era: EraPin) -> Self {
        let (mut server, scope) = (Server::start().await, Scope::new());
        let mut spec = HttpSpec::new(format!("http://{}/mcp", server.address).parse().unwrap(), key("first"));
        spec.spare = Some(Arc::new(Spare::new(key("second"), COOL_DOWN)));
        let timeouts = Timeouts::default();
        let upstream = UpstreamTarget { name: "far".into(), target: Target::Http(spec), era, timeouts };
        let offer = offer();
        let greet = async {
            if era == EraPin::Modern {
                let about = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {} });
                server.posted("server/discover").await.result(about);
                return;
            }
            let about = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "far", "version": "1" } });
            server.posted("initialize").await.result(about);
            server.posted("notifications/initialized").await.status(202);
        };
        let (connected, ()) = tokio::join!(soon(connect(&upstream, None, &offer, &scope)), greet);
        Self { server, connected: connected.unwrap(), era, _scope: scope }
    }

    fn request(&self) -> LinkRequest {
        let revision = if self.era == EraPin::Modern { Revision::NEWEST } else { Revision::NEWEST_LEGACY };
        let origin = origin(ClientKey::Gateway, revision);
        let request = request(
            &origin,
            Id::string("seven"),
            Method::TOOLS_CALL,
            json!({ "name": "t", "arguments": {} }),
        );
        LinkRequest { relay: self.era == EraPin::Modern, ..request }
    }

    /// One call. The server answers each request with the next of these statuses; returns the answer and the keys that
    /// were presented.
    async fn call(&mut self, statuses: &[u16]) -> (Answer, Vec<String>) {
        let calling = self.connected.link.call(self.request(), Peer::none());
        let server = &mut self.server;
        let playing = async {
            let mut keys = Vec::new();
            for status in statuses {
                let exchange = server.posted("tools/call").await;
                keys.push(exchange.header("x-key").to_owned());
                match status {
                    200 => exchange.result(json!({ "content": [], "_meta": { "own": 1.50 } })),
                    status => exchange.status(*status),
                }
            }
            keys
        };
        tokio::join!(soon(calling), playing)
    }

    /// The same for a call that succeeds: the keys, and whether the answer states that the second was used.
    async fn answered(&mut self, statuses: &[u16]) -> (Vec<String>, bool) {
        let (answer, keys) = self.call(statuses).await;
        let result: Value = match answer {
            Ok(AnswerBody::Whole(result, _)) => result.read().unwrap(),
            other => panic!("no whole answer: {other:?}"),
        };
        assert_eq!(result["_meta"]["own"], 1.5, "what the server put there stays");
        let stated = &result["_meta"]["dev.toolyard/fallback"];
        assert!(!result.to_string().contains("second"), "a credential is never shown");
        (keys, stated["credential"] == "spare" && stated["because"].is_string())
    }
}

/// Lets time pass that the sockets need not live through.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn after_a_429_the_second_credential_is_used_for_the_cool_down_and_then_the_first_again() {
    for era in [EraPin::Modern, EraPin::Legacy] {
        let mut world = World::new(era).await;
        let is = |keys: &[&str], stated| (keys.iter().map(ToString::to_string).collect::<Vec<_>>(), stated);
        assert_eq!(world.answered(&[200]).await, is(&["first"], false), "{era:?}");
        assert_eq!(world.answered(&[429, 200]).await, is(&["first", "second"], true), "{era:?}");
        assert_eq!(world.answered(&[200]).await, is(&["second"], true), "{era:?}");
        // The rest is for the time that the calls themselves took.
        pass(Duration::from_mins(4)).await;
        assert_eq!(world.answered(&[200]).await, is(&["second"], true), "{era:?}");
        pass(Duration::from_mins(1)).await;
        assert_eq!(world.answered(&[200]).await, is(&["first"], false), "{era:?}");
    }
}

#[tokio::test]
async fn other_refusals_use_no_second_credential_and_two_refusals_are_an_error() {
    let mut world = World::new(EraPin::Modern).await;
    let (answer, keys) = world.call(&[500]).await;
    assert_eq!((answer.unwrap_err().kind, keys), (Kind::TurnedAway, vec!["first".to_owned()]));
    let (answer, keys) = world.call(&[429, 429]).await;
    assert_eq!((answer.unwrap_err().kind, keys.len()), (Kind::TurnedAway, 2));
    let (answer, keys) = world.call(&[503]).await;
    assert_eq!((answer.is_err(), keys), (true, vec!["second".to_owned()]));
}
