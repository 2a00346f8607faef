//! Apps that listen, as the config names them: each is dialled for as long as it is named.

use std::sync::Arc;
use std::time::SystemTime;

use toolyard_proto::name::UpstreamId;

use super::{DiscoveredEndpoint, Finder, Report, Sighting, Way};
use crate::apps::Source;
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// An app that listens, as the config names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEndpoint {
    pub id: UpstreamId,
    pub endpoint: DiscoveredEndpoint,
    /// Shown to agents.
    pub description: Option<String>,
}

#[derive(Debug)]
pub struct Endpoints {
    finder: Finder,
    wanted: Vec<NamedEndpoint>,
    dialled: Vec<(NamedEndpoint, Arc<Upstream>)>,
    /// Endpoints that are not used, because another upstream has their id.
    refused: Vec<NamedEndpoint>,
    /// Whether any was ever named.
    is_used: bool,
}

impl Endpoints {
    pub fn new(finder: &Finder) -> Self {
        Self {
            finder: finder.clone(),
            wanted: Vec::new(),
            dialled: Vec::new(),
            refused: Vec::new(),
            is_used: false,
        }
    }

    /// Dials just these from now on.
    pub fn set(&mut self, wanted: &[NamedEndpoint]) {
        self.wanted = wanted.to_vec();
        self.refused.clear();
        self.dial_all();
    }

    /// An id that another upstream had may be free now.
    pub fn try_again(&mut self) {
        if !self.refused.is_empty() {
            self.dial_all();
        }
    }

    fn dial_all(&mut self) {
        let wanted = self.wanted.clone();
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.dialled)
            .into_iter()
            .partition(|(old, upstream)| wanted.contains(old) && upstream.state().phase != Phase::Ended);
        self.dialled = kept;
        for (_, upstream) in gone {
            self.finder.apps.forget(&upstream);
        }
        let mut report = Report { places: vec!["[apps.endpoints]".into()], ..Report::default() };
        report.looked = Some(SystemTime::now());
        for config in &wanted {
            self.dial(config, &mut report);
        }
        // Without any there is nothing to report.
        self.is_used |= !wanted.is_empty();
        if self.is_used {
            self.finder.gateway.sightings().saw(Way::Config, report);
        }
    }

    fn dial(&mut self, config: &NamedEndpoint, report: &mut Report) {
        let NamedEndpoint { id, endpoint, description } = config;
        let origin = format!("apps.endpoints.{id}");
        if self.dialled.iter().all(|(old, _)| old != config) {
            let mut dial = self.finder.dial(id, endpoint.clone(), Source::Config);
            dial.description.clone_from(description);
            match self.finder.apps.expect(id, dial) {
                Ok(upstream) => {
                    self.refused.retain(|refused| refused != config);
                    self.dialled.push((config.clone(), upstream));
                }
                Err(taken) => {
                    if !self.refused.contains(config) {
                        tracing::warn!(target: "apps", %id, %endpoint, "not connected: {taken}");
                        self.refused.push(config.clone());
                    }
                    return report.skip(origin, taken.to_string());
                }
            }
        }
        report.found.push(Sighting { id: id.to_string(), endpoint: endpoint.to_string(), origin });
    }
}
