//! `[traces]`: where calls are exported as spans of distributed traces.

use std::fmt;

use http::{HeaderMap, Uri};

use super::reach::Server;
use super::reader::{Field, Reader, Section};
use super::tree::Value;

/// The path at which OTLP receivers accept traces.
const PATH: &str = "/v1/traces";

/// The export of traces, where it is on.
#[derive(Clone, PartialEq)]
pub struct TracesConfig {
    pub endpoint: Uri,
    pub headers: HeaderMap,
    /// The share of calls without a caller's trace that begin one, from 0 to 1.
    pub sample: f64,
    pub service: String,
}

/// Headers may hold secrets.
impl fmt::Debug for TracesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracesConfig").field("host", &self.endpoint.host()).finish_non_exhaustive()
    }
}

/// Rejects the section in a project's file: a project must not decide where a user's calls are reported.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<TracesConfig> {
    if let Some(field) = root.take("traces") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set where calls are reported", help);
    }
    None
}

/// Reads the section; `None` if the export is switched off.
pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Option<TracesConfig> {
    let (place, mut section) = (field.clone(), field.section(reader)?);
    let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    let (endpoint, headers) = (section.take("endpoint"), section.take("headers"));
    let sample = section.take("sample").and_then(|field| read_share(reader, &field)).unwrap_or(1.0);
    let service = section.take("service").and_then(|field| field.expanded(reader));
    let is_given = endpoint.is_some();
    let server = endpoint.and_then(|endpoint| Server::read(reader, &endpoint, headers, [None, None]));
    section.finish(reader);
    if !is_given {
        place.error(reader, "`endpoint` is missing", "write endpoint = \"http://127.0.0.1:4318\"");
    }
    let Server { url, headers, .. } = server.filter(|_| enabled)?;
    let service = service.unwrap_or_else(|| "toolyard".to_owned());
    Some(TracesConfig { endpoint: with_path(url), headers, sample, service })
}

/// The address of a receiver alone is enough.
fn with_path(url: Uri) -> Uri {
    if !matches!(url.path(), "" | "/") {
        return url;
    }
    let mut parts = url.clone().into_parts();
    parts.path_and_query = PATH.parse().ok();
    Uri::from_parts(parts).unwrap_or(url)
}

#[expect(clippy::cast_precision_loss, reason = "only 0 and 1 are accepted")]
fn read_share(reader: &mut Reader<'_>, field: &Field) -> Option<f64> {
    let share = match field.value() {
        Value::Integer(number) => Some(*number as f64),
        Value::Fraction(number) => Some(*number),
        _ => None,
    };
    let checked = share.filter(|share| (0.0..=1.0).contains(share));
    if checked.is_none() {
        field.error(reader, "expected a number from 0 to 1", "0.1 records one call of ten, 1 all of them");
    }
    checked
}
