//! Apps that listen, as the config names them: each is dialled for as long as it is named.

use std::sync::Arc;
use std::time::SystemTime;

use toolyard_core::apps::{Dial, Source};
use toolyard_core::discovery::{Endpoint, Report, Sighting, Way};
use toolyard_core::upstream::Upstream;
use toolyard_core::{Apps, Gateway};
use toolyard_proto::name::UpstreamId;

use crate::config::EndpointConfig;
use crate::connect::{self, Approach};

/// How to reach somebody who listens at an endpoint.
pub(crate) fn dial(id: &UpstreamId, endpoint: Endpoint, source: Source, approach: &Approach) -> Dial {
    let mcp = Arc::new(connect::Upstream::at(id, &endpoint, approach));
    Dial { endpoint, mcp, description: None, about: None, source }
}

pub(crate) struct Endpoints {
    gateway: Gateway,
    apps: Apps,
    approach: Approach,
    dialled: Vec<(EndpointConfig, Arc<Upstream>)>,
}

impl Endpoints {
    pub(crate) fn new(gateway: &Gateway, apps: &Apps, approach: &Approach) -> Self {
        let (gateway, apps, approach) = (gateway.clone(), apps.clone(), approach.clone());
        Self { gateway, apps, approach, dialled: Vec::new() }
    }

    /// Dials just these from now on.
    pub(crate) fn set(&mut self, wanted: &[EndpointConfig]) {
        let (kept, gone) =
            std::mem::take(&mut self.dialled).into_iter().partition(|(old, _)| wanted.contains(old));
        self.dialled = kept;
        for (_, upstream) in gone {
            self.apps.forget(&upstream);
        }
        let mut report = Report { places: vec!["[apps.endpoints]".into()], ..Report::default() };
        report.looked = Some(SystemTime::now());
        for config in wanted {
            self.dial(config, &mut report);
        }
        self.gateway.sightings().saw(Way::Config, report);
    }

    fn dial(&mut self, config: &EndpointConfig, report: &mut Report) {
        let EndpointConfig { id, endpoint, description } = config;
        let origin = format!("apps.endpoints.{id}");
        if self.dialled.iter().all(|(old, _)| old != config) {
            let mut dial = dial(id, endpoint.clone(), Source::Config, &self.approach);
            dial.description.clone_from(description);
            match self.apps.expect(id, dial) {
                Ok(upstream) => self.dialled.push((config.clone(), upstream)),
                Err(taken) => {
                    tracing::warn!(target: "apps", %id, %endpoint, "not dialled: {taken}");
                    return report.skip(origin, taken.to_string());
                }
            }
        }
        report.found.push(Sighting { id: id.to_string(), endpoint: endpoint.to_string(), origin });
    }
}
