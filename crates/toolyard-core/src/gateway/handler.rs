//! The gateway as the [`Handler`] of the endpoint: where requests, notifications and sessions of clients arrive.

use std::sync::Arc;

use toolyard_model::{Answer, BoxFuture, ClientKey, Handler, Origin, Peer, Request, View};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Method, Notification, Raw};

use super::{Gateway, Shared};
use crate::event::What;
use crate::ledger::label;
use crate::pipeline::audit;
use crate::yard;

impl Handler for Gateway {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        self.shared.activity.touch(&request.origin.client);
        audit::answer(&self.shared, request, peer)
    }

    fn notice(&self, origin: &Arc<Origin>, notification: Notification) {
        let snapshot = self.shared.catalog.snapshot();
        let Some(view) = snapshot.seen_by(origin) else { return };
        let everywhere = notification.method == Method::ROOTS_CHANGED;
        for upstream in view.upstreams().filter(|_| everywhere || view.alone.is_some()) {
            upstream.notify(origin, &notification);
        }
    }

    fn began(&self, origin: &Arc<Origin>) {
        if origin.is_relayed {
            return;
        }
        self.shared.sessions.began(origin);
        let client = label(&origin.client);
        let principal = origin.principal.clone();
        self.shared.common.events.emit(What::SessionBegan { client, principal, view: origin.view.clone() });
        self.session_began(origin);
    }

    fn ended(&self, client: &ClientKey) {
        self.shared.sessions.ended(client);
        let principal = self.shared.common.ledger.principal_of(client);
        self.shared.common.events.emit(What::SessionEnded { client: label(client), principal });
        self.shared.common.ledger.forget(client);
        self.shared.activity.end(client);
        self.rules().hub.forget(client);
        for upstream in self.upstreams() {
            upstream.forget(client);
        }
    }

    /// For a session of the hub view, saves the id of its instance, so that it can be connected to it again.
    fn save_session(&self, origin: &Origin) -> Option<String> {
        let target = (origin.view == View::Hub).then(|| self.rules().hub.target(&origin.client));
        target.flatten().map(|id| id.to_string())
    }

    fn restore_session(&self, origin: &Arc<Origin>, saved: &str) {
        if let Some(id) = UpstreamId::parse(saved).ok().filter(|_| origin.view == View::Hub) {
            let rules = self.rules();
            let is_there = rules.upstreams.iter().any(|upstream| *upstream.id() == id);
            rules.hub.restore(&origin.client, id.clone(), is_there);
            // The instance may have been found just before `restore`, when no client was waiting for it.
            if self.rules().upstreams.iter().any(|upstream| *upstream.id() == id) {
                rules.hub.found(&id);
            }
        }
    }

    fn tool_id(&self, origin: &Origin, shown: &str) -> Option<String> {
        let snapshot = self.shared.catalog.snapshot();
        let found = snapshot.seen_by(origin)?.tool(shown)?;
        Some(found.entry.canonical.to_string())
    }

    fn search_tools(&self, origin: &Arc<Origin>, words: &str, limit: usize) -> Option<BoxFuture<Vec<Raw>>> {
        let (shared, origin, words) = (self.shared.clone(), origin.clone(), words.to_owned());
        Some(Box::pin(async move {
            shared.wait_for_first_list(&origin).await;
            let found = yard::found(shared.catalog.snapshot(), &origin, &words, limit).await;
            found.into_iter().map(Raw::from).collect()
        }))
    }

    /// A view of one upstream knows the methods that the upstream declares; a view of many knows all.
    fn knows(&self, view: &View, method: &Method) -> bool {
        let needed: &[&str] = match method.as_str() {
            "logging/setLevel" => &["logging"],
            "resources/unsubscribe" => &["resources", "subscribe"],
            _ => return true,
        };
        let snapshot = self.shared.catalog.snapshot();
        let alone = snapshot.view(view).and_then(|view| view.alone.as_ref());
        alone.is_none_or(|alone| alone.declares_in_session(needed))
    }

    fn offers(&self, view: &View) -> bool {
        self.shared.catalog.rules().offers(view)
    }
}

impl Shared {
    /// Waits for the first list of the view, right after the start. A view of one upstream waits only for that upstream.
    /// The snapshot decides, because the debounce may keep received definitions out of it for a while.
    /// In the hub view, only a session that was connected before a restart waits, for its instance; `instances_connect`
    /// does its own waiting.
    pub(crate) async fn wait_for_first_list(&self, origin: &Origin) {
        let snapshot = self.catalog.snapshot();
        if self.catalog.awaits_instance(&snapshot, origin) {
            return self.catalog.first_list_of_instance(origin).await;
        }
        let Some(view) = snapshot.view(&origin.view).filter(|view| !view.is_hub) else { return };
        match &view.alone {
            Some(upstream) if view.upstreams().next().is_none() => self.catalog.first_list_of(upstream).await,
            Some(_) => {}
            None => self.catalog.first_list().await,
        }
    }
}
