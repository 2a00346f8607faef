//! Logs to stderr, never to stdout, as text for people or as one JSON object per line for programs.
//! `TOOLYARD_LOG` decides in detail, flags and the config roughly.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::EnvFilter;

use toolyard_config::{LogConfig, LogFormat, LogLevel};
use toolyard_proto::visible;

use crate::say;

pub(crate) const VARIABLE: &str = "TOOLYARD_LOG";

/// Whether everything that the program prints on stderr is JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Targets that the JSON format logs in addition to the level: each call, connects and disconnects of clients, and
/// the messages of the program itself.
const FOR_PROGRAMS: &str = "calls=debug,clients=debug,program=info";

/// How much is logged in addition to `TOOLYARD_LOG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    Quiet,
    Brief,
    Normal,
    Verbose,
    Everything,
}

fn directives(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug,hyper=info,hyper_util=info,rustls=info",
        LogLevel::Trace => "trace",
    }
}

impl Loudness {
    fn level(self) -> LogLevel {
        match self {
            Self::Quiet | Self::Brief => LogLevel::Error,
            Self::Normal => LogLevel::Info,
            Self::Verbose => LogLevel::Debug,
            Self::Everything => LogLevel::Trace,
        }
    }
}

/// The requested settings by source, in the order of their priority.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// `--log-level`.
    pub(crate) level: Option<LogLevel>,
    /// The value of `TOOLYARD_LOG`.
    pub(crate) detail: Option<String>,
    /// `-v` and `-q`, or how much a command logs by default.
    pub(crate) loudness: Loudness,
    /// `--log-format`.
    pub(crate) format: Option<LogFormat>,
    pub(crate) config: LogConfig,
}

impl Wish {
    fn format(&self) -> LogFormat {
        self.format.or(self.config.format).unwrap_or_default()
    }

    fn directives(&self) -> String {
        let detail = self.detail.as_deref().filter(|text| !text.is_empty());
        let rough = match self.loudness {
            Loudness::Normal => self.config.level.unwrap_or(LogLevel::Info),
            loudness => loudness.level(),
        };
        let asked = match (self.level, detail) {
            (Some(level), _) => directives(level),
            (None, Some(detail)) => detail,
            (None, None) => directives(rough),
        };
        match self.format() {
            LogFormat::Text => asked.to_owned(),
            // The requested filter comes last, so it overrides the rest.
            LogFormat::Json if is_sparing(asked) => format!("program=info,{asked}"),
            LogFormat::Json => format!("{FOR_PROGRAMS},{asked}"),
        }
    }
}

/// At level `warn` and below, calls are not logged.
fn is_sparing(asked: &str) -> bool {
    ["off", "error", "warn"].contains(&asked)
}

/// Starts logging.
pub(crate) fn start(wish: &Wish) -> Result<(), String> {
    let filter = EnvFilter::try_new(wish.directives()).map_err(|error| format!("{VARIABLE}: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    match wish.format() {
        LogFormat::Text => {
            let is_coloured = std::io::stderr().is_terminal() && say::colours_are_wanted();
            builder.with_ansi(is_coloured).with_writer(|| OneLine(std::io::stderr())).init();
        }
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
            JSON.store(true, Ordering::Relaxed);
            std::panic::set_hook(Box::new(tell_panic));
        }
    }
    Ok(())
}

/// Writes each record on one line. Fields hold text of others (stderr output of servers, names of apps), which
/// must neither act on a terminal nor forge a record.
struct OneLine<W>(W);

/// The escape sequences with which records are coloured.
const OWN_SEQUENCES: [u8; 10] = [0, 1, 2, 3, 31, 32, 33, 34, 35, 36];

impl<W: Write> Write for OneLine<W> {
    /// A record comes in one piece, its line end included.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let record = String::from_utf8_lossy(bytes);
        let (line, end) = record.strip_suffix('\n').map_or((&*record, ""), |line| (line, "\n"));
        let mut line = visible::line(line).into_owned();
        if line.contains("\\u{1b}[") {
            for code in OWN_SEQUENCES {
                line = line.replace(&format!("\\u{{1b}}[{code}m"), &format!("\x1b[{code}m"));
            }
        }
        self.0.write_all(format!("{line}{end}").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A panic as one log record. `RUST_BACKTRACE` adds a backtrace as usual.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let why = panic.payload_as_str().unwrap_or_default();
    let place = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let thread = std::thread::current().name().map(str::to_owned);
    tracing::error!(target: "program", place, thread, backtrace, "panicked: {why}");
}

/// Whether stderr is read by a program.
pub(crate) fn is_for_programs() -> bool {
    JSON.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[test]
    fn a_record_stays_on_one_line_whatever_its_fields_hold() {
        let mut written = OneLine(Vec::new());
        written.write_all(b"INFO app=x\nERROR forged\x1b[2J\r\x1b[32mgreen\x1b[0m\n").unwrap();
        let expected = "INFO app=x\\nERROR forged\\u{1b}[2J\\r\x1b[32mgreen\x1b[0m\n";
        assert_eq!(String::from_utf8(written.0).unwrap(), expected);
    }

    /// Keeps what is written.
    #[derive(Clone)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn wish() -> Wish {
        Wish {
            level: None,
            detail: None,
            loudness: Loudness::Normal,
            format: None,
            config: LogConfig::default(),
        }
    }

    #[test]
    fn a_panic_is_one_record_like_any_other() {
        let printed = Arc::<Mutex<Vec<u8>>>::default();
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(Kept(printed.clone())).finish();
        std::panic::set_hook(Box::new(tell_panic));
        tracing::subscriber::with_default(subscriber, || {
            let outcome = std::panic::catch_unwind(|| panic!("two\nlines and a \" of {}", 1 + 1));
            assert!(outcome.is_err());
        });
        let _ = std::panic::take_hook();
        let printed = String::from_utf8(printed.lock().clone()).unwrap();
        let record: serde_json::Value = serde_json::from_str(printed.trim()).unwrap();
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert_eq!(record["message"], "panicked: two\nlines and a \" of 2");
        assert_eq!((&record["level"], &record["target"]), (&"ERROR".into(), &"program".into()));
        assert!(record["place"].as_str().unwrap().contains("logging.rs"), "{record}");
    }

    #[test]
    fn the_flag_overrides_the_variable_and_that_overrides_the_config() {
        let check = |wish: &Wish, expected: &str| {
            assert_eq!(wish.directives(), expected, "{wish:?}");
            EnvFilter::try_new(wish.directives()).unwrap();
        };
        let config = LogConfig { level: Some(LogLevel::Warn), format: None };
        let configured = Wish { config, ..wish() };
        let varied = Wish { detail: Some("upstream=trace".into()), ..configured.clone() };
        check(&wish(), "info");
        check(&configured, "warn");
        check(&Wish { loudness: Loudness::Quiet, ..configured.clone() }, "error");
        check(&varied, "upstream=trace");
        check(&Wish { level: Some(LogLevel::Error), ..varied.clone() }, "error");
        let json = |wish: Wish| Wish { format: Some(LogFormat::Json), ..wish };
        check(&json(wish()), "calls=debug,clients=debug,program=info,info");
        check(&json(configured), "program=info,warn");
        check(&json(varied), "calls=debug,clients=debug,program=info,upstream=trace");
    }
}
