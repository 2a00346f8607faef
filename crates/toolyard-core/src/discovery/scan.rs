//! Apps that are found because the environment of their process names where they listen. Looking costs a few system
//! calls for each process of the user, off the threads that carry calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{DiscoveredEndpoint, Finder, Hint, Look, Processes, Report, Sighting, VARIABLES, Way};
use crate::apps::Source;
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// Why a listener needs no hint: it is the gateway's own, or the config names it.
pub type WhyKnown = Arc<dyn Fn(&DiscoveredEndpoint) -> Option<String> + Send + Sync>;

pub struct Scan {
    finder: Finder,
    why_known: WhyKnown,
    user: u32,
    /// By listener.
    dialled: HashMap<String, (Hint, Arc<Upstream>)>,
}

impl Scan {
    /// Looks at the processes of one user.
    pub fn new(finder: &Finder, user: u32, why_known: WhyKnown) -> Self {
        Self { finder: finder.clone(), why_known, user, dialled: HashMap::new() }
    }

    /// Looks every so often, until it is dropped.
    pub async fn watch(mut self, pause: Duration) {
        let mut processes = Processes::new(self.user, std::process::id());
        if !processes.can_look() {
            let mut report = Report::default();
            report.skip("processes", "this system does not show their environments");
            return self.finder.gateway.sightings().saw(Way::Processes, report);
        }
        loop {
            let why_known = self.why_known.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let look = processes.look(|endpoint| why_known(endpoint));
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
                self.finder.apps.expect_no_more(&upstream);
            }
        }
        for (pid, why) in look.skipped {
            report.skip(format!("process {pid}"), why);
        }
        for hint in look.hints {
            self.found(hint, &mut report);
        }
        self.finder.gateway.sightings().saw(Way::Processes, report);
    }

    fn found(&mut self, hint: Hint, report: &mut Report) {
        let origin = format!("process {}", hint.pid);
        let sighting =
            Sighting { id: hint.id.to_string(), endpoint: hint.endpoint.to_string(), origin: origin.clone() };
        if let Some((old, upstream)) = self.dialled.get_mut(&hint.endpoint.listener())
            && upstream.state().phase != Phase::Ended
        {
            // Another process with the same hint shows that the app is running.
            if old.pid != hint.pid && upstream.state().phase != Phase::Active {
                upstream.wake();
            }
            *old = hint;
            return report.found.push(sighting);
        }
        let mut dial = self.finder.dial(&hint.id, hint.endpoint.clone(), Source::Hint);
        dial.about =
            Some(json!({ "endpoint": hint.endpoint.to_string(), "description": null, "origin": origin }));
        match self.finder.apps.expect(&hint.id, dial) {
            Ok(upstream) => {
                tracing::info!(target: "apps", id = %hint.id, endpoint = %hint.endpoint, pid = hint.pid, "found");
                self.dialled.insert(hint.endpoint.listener(), (hint, upstream));
                report.found.push(sighting);
            }
            Err(taken) => {
                tracing::debug!(target: "apps", id = %hint.id, "not connected: {taken}");
                report.skip(origin, taken.to_string());
            }
        }
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("dialled", &self.dialled.len()).finish_non_exhaustive()
    }
}
