//! The event stream of the gateway, for packs that publish what they do, such as the output of agents.

use std::sync::{Arc, Weak};

use serde_json::Value;
use toolyard_core::Gateway;
use toolyard_tool::host::Events;

/// The gateway owns its packs, so they hold it weakly.
pub(crate) struct PackEvents(Weak<Gateway>);

impl PackEvents {
    pub(crate) fn of(gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(gateway)))
    }
}

impl Events for PackEvents {
    fn publish(&self, pack: &str, principal: &str, event: Value) {
        if let Some(gateway) = self.0.upgrade() {
            gateway.publish(pack, principal, event);
        }
    }
}
