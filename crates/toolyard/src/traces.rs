//! The export of traces, if the config has one and the program was built with it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use toolyard_config::Config;
use toolyard_core::event::Sink;
use toolyard_model::Scope;

/// How long the last spans may take.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// The exporter with the tasks that it has started.
pub(crate) struct Tracing {
    scope: Scope,
    traces: Option<Traces>,
}

impl Tracing {
    pub(crate) fn start(config: &Config) -> Result<Self> {
        let scope = Scope::new();
        let traces = start(config, &scope)?;
        Ok(Self { scope, traces })
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.traces.as_ref().map(sink)
    }

    /// Exports what is queued, bounded in time.
    pub(crate) async fn end(self) {
        if let Some(traces) = self.traces {
            end(&traces);
            let _ = tokio::time::timeout(LAST_SPANS, self.scope.finished()).await;
        }
        self.scope.end().await;
    }
}

#[cfg(feature = "traces")]
mod with {
    use std::sync::Arc;

    use anyhow::Result;
    use toolyard_config::{Config, TracesConfig};
    use toolyard_core::event::Sink;
    use toolyard_model::Scope;
    use toolyard_traces::TracesOptions;

    pub(super) type Traces = Arc<toolyard_traces::Traces>;

    #[expect(clippy::unnecessary_wraps, reason = "has the form of the one without the feature")]
    pub(super) fn start(config: &Config, scope: &Scope) -> Result<Option<Traces>> {
        let options = config.traces.clone().map(|TracesConfig { endpoint, headers, sample, service }| {
            TracesOptions { endpoint, headers, sample, service }
        });
        Ok(options.map(|options| toolyard_traces::Traces::start(options, scope)))
    }

    pub(super) fn sink(traces: &Traces) -> Arc<dyn Sink> {
        traces.clone()
    }

    pub(super) fn end(traces: &Traces) {
        traces.end();
    }
}

#[cfg(not(feature = "traces"))]
mod without {
    use std::sync::Arc;

    use anyhow::Result;
    use toolyard_config::Config;
    use toolyard_core::event::Sink;
    use toolyard_model::Scope;

    /// There are none.
    pub(super) enum Traces {}

    pub(super) fn start(config: &Config, _: &Scope) -> Result<Option<Traces>> {
        if config.traces.is_some() {
            anyhow::bail!(
                "the config has [traces], and this program was built without traces (build it with `--features traces`)"
            );
        }
        Ok(None)
    }

    pub(super) fn sink(traces: &Traces) -> Arc<dyn Sink> {
        match *traces {}
    }

    pub(super) fn end(traces: &Traces) {
        match *traces {}
    }
}

#[cfg(feature = "traces")]
use with::{Traces, end, sink, start};
#[cfg(not(feature = "traces"))]
use without::{Traces, end, sink, start};
