//! Apps that listen, as the config names them: each is dialled for as long as it is named.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use toolyard_config::EndpointConfig;
use toolyard_core::apps::{Dial, Source};
use toolyard_core::discovery::{Endpoint, Report, Sighting, Sightings, Way};
use toolyard_core::report::at;
use toolyard_core::upstream::Upstream;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Apps, Gateway};
use toolyard_proto::name::UpstreamId;

use crate::connect::{self, ConnectContext};

/// How to connect to a listener at an endpoint.
pub(crate) fn dial(id: &UpstreamId, endpoint: Endpoint, source: Source, context: &ConnectContext) -> Dial {
    let mcp = Arc::new(connect::Upstream::at(id, &endpoint, context));
    Dial { endpoint, mcp, description: None, about: None, source }
}

/// What each way of looking has seen, as `toolyard doctor` reads it.
pub(crate) fn to_json(sightings: &Sightings) -> Value {
    let way = |(way, report): (Way, Report)| {
        let found = report
            .found
            .iter()
            .map(|one| json!({ "id": one.id, "endpoint": one.endpoint, "origin": one.origin }));
        let skipped = report.skipped.iter().map(|one| json!({ "origin": one.origin, "why": one.why }));
        json!({
            "way": way.as_str(),
            "places": report.places,
            "every_ms": report.every.map(|every| every.as_millis()),
            "looked": report.looked.map(at),
            "found": found.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "more_skipped": report.more_skipped,
        })
    };
    sightings.reports().into_iter().map(way).collect()
}

pub(crate) struct Endpoints {
    gateway: Gateway,
    apps: Apps,
    context: ConnectContext,
    wanted: Vec<EndpointConfig>,
    dialled: Vec<(EndpointConfig, Arc<Upstream>)>,
    /// Those whose id another upstream has.
    refused: Vec<EndpointConfig>,
    /// Whether any was ever named.
    is_used: bool,
}

impl Endpoints {
    pub(crate) fn new(gateway: &Gateway, apps: &Apps, context: &ConnectContext) -> Self {
        let (gateway, apps, context) = (gateway.clone(), apps.clone(), context.clone());
        let (wanted, dialled, refused) = (Vec::new(), Vec::new(), Vec::new());
        Self { gateway, apps, context, wanted, dialled, refused, is_used: false }
    }

    /// Dials just these from now on.
    pub(crate) fn set(&mut self, wanted: &[EndpointConfig]) {
        self.wanted = wanted.to_vec();
        self.refused.clear();
        self.dial_all();
    }

    /// An id that another upstream had may be free now.
    pub(crate) fn try_again(&mut self) {
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
            self.apps.forget(&upstream);
        }
        let mut report = Report { places: vec!["[apps.endpoints]".into()], ..Report::default() };
        report.looked = Some(SystemTime::now());
        for config in &wanted {
            self.dial(config, &mut report);
        }
        // Of what was never named there is nothing to tell.
        self.is_used |= !wanted.is_empty();
        if self.is_used {
            self.gateway.sightings().saw(Way::Config, report);
        }
    }

    fn dial(&mut self, config: &EndpointConfig, report: &mut Report) {
        let EndpointConfig { id, endpoint, description } = config;
        let origin = format!("apps.endpoints.{id}");
        if self.dialled.iter().all(|(old, _)| old != config) {
            let mut dial = dial(id, endpoint.clone(), Source::Config, &self.context);
            dial.description.clone_from(description);
            match self.apps.expect(id, dial) {
                Ok(upstream) => {
                    self.refused.retain(|refused| refused != config);
                    self.dialled.push((config.clone(), upstream));
                }
                Err(taken) => {
                    if !self.refused.contains(config) {
                        tracing::warn!(target: "apps", %id, %endpoint, "not dialled: {taken}");
                        self.refused.push(config.clone());
                    }
                    return report.skip(origin, taken.to_string());
                }
            }
        }
        report.found.push(Sighting { id: id.to_string(), endpoint: endpoint.to_string(), origin });
    }
}
