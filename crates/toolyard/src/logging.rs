//! Logs to stderr, never to stdout, as text for people or as one JSON object per line for programs.
//! `TOOLYARD_LOG` decides in detail, flags and the config roughly.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

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
            builder.with_ansi(is_coloured).fmt_fields(debug_fn(write_field).delimited(" ")).init();
        }
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
            JSON.store(true, Ordering::Relaxed);
            std::panic::set_hook(Box::new(tell_panic));
        }
    }
    Ok(())
}

/// Writes one field of a record. Values hold text of others (stderr output of servers, names of apps), which must
/// neither act on a terminal nor forge a record; so they are escaped before the record gets its colours.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = format!("{value:?}");
    let value = visible::line(&value);
    match field.name().trim_start_matches("r#") {
        "message" => writer.write_str(&value),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}")
        }
        name => write!(writer, "{name}={value}"),
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
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

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

    /// A record whose message and fields hold text of others.
    fn record(is_coloured: bool) -> String {
        let printed = Arc::<Mutex<Vec<u8>>>::default();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(is_coloured)
            .with_writer(Kept(printed.clone()))
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let app = "x\nERROR forged\x1b[2J\r";
            let line = r"\u{1b}[31mred";
            tracing::info!(target: "t", %app, %line, tool = "\x1b[31m", "\x1b[32mgreen\x1b[0m");
        });
        String::from_utf8(printed.lock().clone()).unwrap()
    }

    #[test]
    fn a_record_stays_on_one_line_and_text_of_others_has_no_colours() {
        let message = r"\u{1b}[32mgreen\u{1b}[0m";
        let (app, line, tool) = (r"x\nERROR forged\u{1b}[2J\r", r"\u{1b}[31mred", r#""\u{1b}[31m""#);
        let plain = format!(" INFO t: {message} app={app} line={line} tool={tool}\n");
        assert_eq!(record(false), plain);
        let coloured = record(true);
        let (head, fields) = coloured.split_once(message).unwrap();
        assert_eq!(head, "\x1b[32m INFO\x1b[0m \x1b[2mt\x1b[0m\x1b[2m:\x1b[0m ");
        let field = |name: &str, value: &str| format!(" \x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}");
        let expected = [field("app", app), field("line", line), field("tool", tool), "\n".to_owned()];
        assert_eq!(fields, expected.concat());
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
