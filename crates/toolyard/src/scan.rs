//! Apps that were found because the environment of their process says where they listen. Looking costs a few
//! system calls for each process of ours, off the threads that carry calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::json;
use toolyard_config::state_dir::Addresses;
use toolyard_config::system;
use toolyard_config::{AppsConfig, Config, EndpointConfig, Reach};
use toolyard_core::apps::Source;
use toolyard_core::discovery::{Endpoint, Hint, Look, Processes, Report, Sighting, VARIABLES, Way};
use toolyard_core::upstream::Upstream;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Apps, Gateway};

use crate::address_file::OwnAddresses;
use crate::connect::ConnectContext;
use crate::endpoints::dial;

/// Listeners that no hint is needed for: our own, and those that the config names. With why. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NotOurs {
    own: OwnAddresses,
    listeners: Arc<Mutex<HashMap<String, String>>>,
}

impl NotOurs {
    pub(crate) fn new(config: &Config, apps: &AppsConfig, own: &OwnAddresses) -> Self {
        let not_ours = Self { own: own.clone(), listeners: Arc::default() };
        not_ours.renew(config, apps);
        not_ours
    }

    /// The config names others now. The next look goes by it.
    pub(crate) fn renew(&self, config: &Config, apps: &AppsConfig) {
        let listeners = named(config, apps);
        *self.listeners.lock().unwrap_or_else(PoisonError::into_inner) = listeners;
    }

    fn why(&self, endpoint: &Endpoint) -> Option<String> {
        if is_at(&self.own.now(), endpoint) {
            return Some("that is this gateway".to_owned());
        }
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).get(&endpoint.listener()).cloned()
    }
}

fn is_at(addresses: &Addresses, endpoint: &Endpoint) -> bool {
    let sockets = [&addresses.socket, &addresses.apps_socket].into_iter().flatten();
    let sockets = sockets.map(|path| format!("unix://{}", path.display()));
    let doors = [Some(&addresses.http), addresses.tcp.as_ref(), addresses.apps.as_ref()];
    let mut all = doors.into_iter().flatten().cloned().chain(sockets);
    all.any(|own| Endpoint::parse(&own).is_ok_and(|own| own.is_met_at(endpoint)))
}

fn named(config: &Config, apps: &AppsConfig) -> HashMap<String, String> {
    let mut listeners = HashMap::new();
    for upstream in &config.upstreams.on {
        let endpoint = match &upstream.reach {
            Reach::Program(_) => continue,
            Reach::Server(server) => Endpoint::Http(server.url.clone()),
            Reach::Socket(socket) => match Endpoint::parse(&socket.to_string()) {
                Ok(endpoint) => endpoint,
                Err(_) => continue,
            },
        };
        listeners.insert(endpoint.listener(), format!("the config names it, as `{}`", upstream.id));
    }
    for EndpointConfig { id, endpoint, .. } in &apps.endpoints {
        listeners.insert(endpoint.listener(), format!("the config names it, as `{id}`"));
    }
    listeners
}

pub(crate) struct Scan {
    gateway: Gateway,
    apps: Apps,
    context: ConnectContext,
    not_ours: NotOurs,
    /// By listener.
    dialled: HashMap<String, (Hint, Arc<Upstream>)>,
}

impl Scan {
    pub(crate) fn new(gateway: &Gateway, apps: &Apps, context: &ConnectContext, not_ours: &NotOurs) -> Self {
        let (gateway, apps, context) = (gateway.clone(), apps.clone(), context.clone());
        Self { gateway, apps, context, not_ours: not_ours.clone(), dialled: HashMap::new() }
    }

    /// Looks every so often, until it is dropped.
    pub(crate) async fn watch(mut self, pause: Duration) {
        let mut processes = Processes::new(system::user(), std::process::id());
        if !processes.can_look() {
            let mut report = Report::default();
            report.skip("processes", "this system does not show their environments");
            return self.gateway.sightings().saw(Way::Processes, report);
        }
        loop {
            let not_ours = self.not_ours.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let look = processes.look(|endpoint| not_ours.why(endpoint));
                (processes, look)
            });
            let Ok((same, look)) = looked.await else { return };
            processes = same;
            self.apply(look, pause);
            tokio::time::sleep(pause).await;
        }
    }

    fn apply(&mut self, look: Look, pause: Duration) {
        let mut report = Report {
            places: VARIABLES.iter().map(|(endpoint, _)| (*endpoint).to_owned()).collect(),
            every: Some(pause),
            looked: Some(SystemTime::now()),
            ..Report::default()
        };
        let still =
            |old: &Hint| look.hints.iter().any(|new| (&new.id, &new.endpoint) == (&old.id, &old.endpoint));
        let gone: Vec<String> =
            self.dialled.iter().filter(|(_, (old, _))| !still(old)).map(|(key, _)| key.clone()).collect();
        for listener in gone {
            if let Some((hint, upstream)) = self.dialled.remove(&listener) {
                tracing::info!(target: "apps", id = %hint.id, pid = hint.pid, "its process is gone");
                self.apps.expect_no_more(&upstream);
            }
        }
        for (pid, why) in look.skipped {
            report.skip(format!("process {pid}"), why);
        }
        for hint in look.hints {
            self.found(hint, &mut report);
        }
        self.gateway.sightings().saw(Way::Processes, report);
    }

    fn found(&mut self, hint: Hint, report: &mut Report) {
        let origin = format!("process {}", hint.pid);
        let sighting =
            Sighting { id: hint.id.to_string(), endpoint: hint.endpoint.to_string(), origin: origin.clone() };
        if let Some((old, upstream)) = self.dialled.get_mut(&hint.endpoint.listener())
            && upstream.state().phase != Phase::Ended
        {
            // Another process that says the same is a sign of life.
            if old.pid != hint.pid && upstream.state().phase != Phase::Active {
                upstream.wake();
            }
            *old = hint;
            return report.found.push(sighting);
        }
        let mut dial = dial(&hint.id, hint.endpoint.clone(), Source::Hint, &self.context);
        dial.about =
            Some(json!({ "endpoint": hint.endpoint.to_string(), "description": null, "origin": origin }));
        match self.apps.expect(&hint.id, dial) {
            Ok(upstream) => {
                tracing::info!(target: "apps", id = %hint.id, endpoint = %hint.endpoint, pid = hint.pid, "found");
                self.dialled.insert(hint.endpoint.listener(), (hint, upstream));
                report.found.push(sighting);
            }
            Err(taken) => {
                tracing::debug!(target: "apps", id = %hint.id, "not dialled: {taken}");
                report.skip(origin, taken.to_string());
            }
        }
    }
}
