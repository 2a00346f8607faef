//! Where logs go: to stderr, never to stdout. `TOOLYARD_LOG` decides in detail, flags roughly.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

pub(crate) const VARIABLE: &str = "TOOLYARD_LOG";

/// How much is said beside what `TOOLYARD_LOG` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    Quiet,
    Brief,
    Normal,
    Verbose,
    Everything,
}

impl Loudness {
    fn directives(self) -> &'static str {
        match self {
            Self::Quiet | Self::Brief => "error",
            Self::Normal => "info",
            Self::Verbose => "debug,hyper=info,hyper_util=info,rustls=info",
            Self::Everything => "trace",
        }
    }
}

/// Starts logging. `asked` is what `TOOLYARD_LOG` says.
pub(crate) fn start(loudness: Loudness, asked: Option<&str>) -> Result<(), String> {
    let directives = asked.filter(|text| !text.is_empty()).unwrap_or(loudness.directives());
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("{VARIABLE}: {error}"))?;
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .log_internal_errors(false)
        .init();
    Ok(())
}
