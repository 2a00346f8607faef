//! `[log]`: how much the gateway logs, and in which form.

use super::reader::{Field, Reader, Section};

/// For people, or one JSON object a line for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl LogFormat {
    pub const ALL: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}

/// The least severe messages that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const ALL: [(&'static str, Self); 6] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    pub format: Option<LogFormat>,
    pub level: Option<LogLevel>,
}

/// The user who starts the gateway reads its log.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<LogConfig> {
    if let Some(field) = root.take("log") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set what is logged", help);
    }
    None
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> LogConfig {
    let Some(mut section) = field.section(reader) else { return LogConfig::default() };
    let format = section.take("format").and_then(|field| field.choice(reader, &LogFormat::ALL));
    let level = section.take("level").and_then(|field| field.choice(reader, &LogLevel::ALL));
    section.finish(reader);
    LogConfig { format, level }
}
