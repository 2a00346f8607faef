//! Sends a server everything on the agenda and records all exchanges.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::agenda::{Subject, agenda};
use super::follow::follow;
use super::gateway::Reach;
use super::view::{ID, View};
use super::wire::{Client, Era, Exchange, Request};

/// How long a started upstream may take until the gateway shows it.
const SHOWN: Duration = Duration::from_mins(1);
const PACE: Duration = Duration::from_millis(50);

/// In the order in which they are asked: method and member.
pub(crate) const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

pub(crate) struct Recording {
    pub(crate) greeting: Exchange,
    pub(crate) lists: [Exchange; 4],
    pub(crate) agenda: Vec<Request>,
    /// By label, in the order in which it was asked.
    pub(crate) exchanges: Vec<(String, Exchange)>,
}

/// One client, and its exchanges so far.
pub(crate) struct Recorder<'a> {
    client: &'a mut Client,
    exchanges: Vec<(String, Exchange)>,
}

/// Without an agenda, the server's own lists give it.
pub(crate) async fn record(
    subject: &Subject,
    reach: &Reach,
    era: Era,
    view: View,
    known: Option<&[Request]>,
) -> Recording {
    let (mut client, greeting) = Client::open(reach, era).await;
    wait_until_shown(&mut client, view).await;
    let mut lists = Vec::new();
    for (method, _) in LISTS {
        lists.push(client.exchange(&Request::new(method, method, json!({}))).await);
    }
    let lists: [Exchange; 4] = lists.try_into().expect("there are four lists");
    let agenda = match known {
        Some(agenda) => agenda.to_vec(),
        None => agenda(subject, era, &std::array::from_fn(|at| values(&lists[at], LISTS[at].1))),
    };
    let mut recorder = Recorder { client: &mut client, exchanges: Vec::new() };
    for request in &agenda {
        let request = view.request(request);
        let exchange = recorder.record(&request).await;
        follow(&mut recorder, &request, exchange).await;
    }
    let exchanges = recorder.exchanges;
    Recording { greeting, lists, agenda, exchanges }
}

/// An upstream that takes long to start comes into the list of everything when it is there.
async fn wait_until_shown(client: &mut Client, view: View) {
    if view != View::Everything {
        return;
    }
    let list = Request::new("tools/list", "tools/list", json!({}));
    let is_shown = |tools: &[Value]| {
        tools.iter().any(|tool| tool["name"].as_str().unwrap().starts_with(&format!("{ID}__")))
    };
    let shown = async {
        while !is_shown(&values(&client.exchange(&list).await, "tools")) {
            sleep(PACE).await;
        }
    };
    timeout(SHOWN, shown).await.expect("the gateway shows its upstream");
}

fn values(list: &Exchange, member: &str) -> Vec<Value> {
    list.result()[member].as_array().cloned().unwrap_or_default()
}

/// The entries of a list, to the byte.
pub(crate) fn entries(list: &Exchange, member: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(
            borrow,
            alias = "tools",
            alias = "resources",
            alias = "resourceTemplates",
            alias = "prompts"
        )]
        entries: Vec<&'a RawValue>,
    }
    let Ok(text) = &list.outcome else { return Vec::new() };
    let page: Page<'_> =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("no {member} ({error}): {text}"));
    page.entries.iter().map(|entry| entry.get().to_owned()).collect()
}

impl Recorder<'_> {
    pub(crate) async fn record(&mut self, request: &Request) -> Exchange {
        let exchange = self.client.exchange(request).await;
        self.exchanges.push((request.label.clone(), exchange.clone()));
        exchange
    }

    /// Asks until the answer is the one that is waited for, and keeps only that.
    pub(crate) async fn poll(
        &mut self,
        request: &Request,
        pace: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let answer = timeout(SHOWN, async {
            loop {
                let exchange = self.client.exchange(request).await;
                if is_it(&exchange.result()) {
                    return exchange;
                }
                sleep(pace).await;
            }
        });
        let exchange = answer.await.unwrap_or_else(|_| panic!("{request:?} never settles"));
        self.exchanges.push((request.label.clone(), exchange.clone()));
        exchange.result()
    }
}
