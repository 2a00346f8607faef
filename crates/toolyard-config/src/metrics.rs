//! `[metrics]`: what `/metrics` has beside its usual series.

use super::reader::{Field, Reader};

/// Settings of the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Whether calls are also counted by tool.
    pub tools: bool,
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Option<MetricsConfig> {
    let mut section = field.section(reader)?;
    let tools = section.take("tools").and_then(|field| field.flag(reader)).unwrap_or(false);
    section.finish(reader);
    Some(MetricsConfig { tools })
}
