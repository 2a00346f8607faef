//! The upstreams that each kind of discovery has found and left out, so that users can see why an upstream is missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::report::at;

/// How many things that were left out are reported; the rest are counted.
const MOST: usize = 100;

/// The last report of each kind of discovery. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sightings(Arc<Mutex<BTreeMap<Way, Report>>>);

/// A kind of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Endpoints of the config.
    Config,
    /// Files that instances write.
    Files,
    /// Environments of processes.
    Processes,
}

impl Way {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Files => "files",
            Self::Processes => "processes",
        }
    }
}

/// The results of one kind of discovery when it last looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The places where discovery looks: folders, names of variables, keys.
    pub places: Vec<String>,
    /// How often; `None` for once.
    pub every: Option<Duration>,
    pub looked: Option<SystemTime>,
    pub found: Vec<Sighting>,
    pub skipped: Vec<Skipped>,
    /// How many more were left out than are reported.
    pub more_skipped: usize,
}

/// A discovered program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub id: String,
    pub endpoint: String,
    /// The file, the process or the key that names it.
    pub origin: String,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub origin: String,
    pub why: String,
}

impl Report {
    pub fn skip(&mut self, origin: impl Into<String>, why: impl Into<String>) {
        if self.skipped.len() < MOST {
            self.skipped.push(Skipped { origin: origin.into(), why: why.into() });
        } else {
            self.more_skipped += 1;
        }
    }
}

impl Sightings {
    /// The results of each kind of discovery, as `toolyard doctor` reads them.
    pub fn to_json(&self) -> Value {
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
        self.reports().into_iter().map(way).collect()
    }

    pub fn saw(&self, way: Way, report: Report) {
        self.0.lock().insert(way, report);
    }

    /// The reports of the kinds that are used.
    pub fn reports(&self) -> Vec<(Way, Report)> {
        let reports = self.0.lock();
        reports.iter().map(|(way, report)| (*way, report.clone())).collect()
    }
}
