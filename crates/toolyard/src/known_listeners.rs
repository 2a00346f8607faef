//! Listeners that need no hint from a process: the gateway's own, and those that the config names.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use toolyard_config::state_dir::Addresses;
use toolyard_config::{AppsConfig, Config, Reach};
use toolyard_core::discovery::{DiscoveredEndpoint, NamedEndpoint};

use crate::address_file::OwnAddresses;

/// These listeners, each with the reason. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KnownListeners {
    own: OwnAddresses,
    listeners: Arc<Mutex<HashMap<String, String>>>,
}

impl KnownListeners {
    pub(crate) fn new(config: &Config, apps: &AppsConfig, own: &OwnAddresses) -> Self {
        let known = Self { own: own.clone(), listeners: Arc::default() };
        known.renew(config, apps);
        known
    }

    /// The config names other listeners now. The next scan uses them.
    pub(crate) fn renew(&self, config: &Config, apps: &AppsConfig) {
        let listeners = named(config, apps);
        *self.listeners.lock() = listeners;
    }

    pub(crate) fn why(&self, endpoint: &DiscoveredEndpoint) -> Option<String> {
        if is_at(&self.own.now(), endpoint) {
            return Some("that is this gateway".to_owned());
        }
        self.listeners.lock().get(&endpoint.listener()).cloned()
    }
}

fn is_at(addresses: &Addresses, endpoint: &DiscoveredEndpoint) -> bool {
    let sockets = [&addresses.socket, &addresses.apps_socket].into_iter().flatten();
    let sockets = sockets.map(|path| format!("unix://{}", path.display()));
    let doors =
        [Some(&addresses.http), addresses.tcp.as_ref(), addresses.models.as_ref(), addresses.apps.as_ref()];
    let mut all = doors.into_iter().flatten().cloned().chain(sockets);
    all.any(|own| DiscoveredEndpoint::parse(&own).is_ok_and(|own| own.is_reached_at(endpoint)))
}

fn named(config: &Config, apps: &AppsConfig) -> HashMap<String, String> {
    let mut listeners = HashMap::new();
    for upstream in &config.upstreams.on {
        let endpoint = match &upstream.reach {
            Reach::Program(_) => continue,
            Reach::Server(server) => DiscoveredEndpoint::Http(server.url.clone()),
            Reach::Socket(socket) => match DiscoveredEndpoint::parse(&socket.to_string()) {
                Ok(endpoint) => endpoint,
                Err(_) => continue,
            },
        };
        listeners.insert(endpoint.listener(), format!("the config names it, as `{}`", upstream.id));
    }
    for NamedEndpoint { id, endpoint, .. } in &apps.endpoints {
        listeners.insert(endpoint.listener(), format!("the config names it, as `{id}`"));
    }
    listeners
}
