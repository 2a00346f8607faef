//! The receivers of an upstream's events, and what the events are compared with on the way.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use toolyard_model::Origin;
use toolyard_proto::name::UpstreamId;

use crate::beside_calls::beside_calls;
use crate::catalog::{Definitions, ListKind, Store};
use crate::event::Events;
use crate::listen::Listeners;
use crate::pins::{PinTerms, Pins, is_pinned};
use crate::plan::{UpstreamKind, UpstreamPlan};
use crate::tool_switch::ToolSwitches;

/// The receivers of an upstream's events.
#[derive(Clone)]
pub(crate) struct Outlets {
    pub(crate) changed: mpsc::Sender<()>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) origin: Arc<Origin>,
    /// Permits to start a process.
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) events: Arc<Events>,
    pub(crate) pins: Option<Arc<Pins>>,
    pub(crate) switches: Arc<ToolSwitches>,
}

impl Outlets {
    /// The definitions that were stored for this upstream.
    pub(crate) fn stored(&self, plan: &UpstreamPlan) -> Option<Arc<Definitions>> {
        let mut definitions = self.store.as_ref()?.load(&plan.id, &plan.fingerprint)?;
        self.review(&plan.id, plan.kind, plan.policy.pins.as_deref(), &mut definitions);
        Some(Arc::new(definitions))
    }

    /// Compares an upstream's tools with those recorded, and sets which are switched off.
    pub(crate) fn review(
        &self,
        id: &UpstreamId,
        kind: UpstreamKind,
        terms: Option<&PinTerms>,
        definitions: &mut Definitions,
    ) {
        let pins = self.pins.as_ref().filter(|_| is_pinned(kind));
        let tools = definitions.list(ListKind::Tools).len();
        match pins.zip(terms) {
            Some((pins, terms)) => beside_calls(tools, || pins.review(id, terms, definitions)),
            None => definitions.hold(Vec::new()),
        }
        definitions.switch_off(self.switches.of(id));
    }

    /// Asks the catalog to read the definitions again. If such a request waits already, no second one is needed.
    pub(crate) fn announce(&self) {
        let _ = self.changed.try_send(());
    }
}
