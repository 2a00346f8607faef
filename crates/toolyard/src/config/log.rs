//! `[log]`: how much the gateway says, and in which form.

use super::reader::{Field, Reader, Section};
use crate::logging::{Format, Level};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) format: Option<Format>,
    pub(crate) level: Option<Level>,
}

/// Whoever starts the gateway reads its log.
pub(super) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<LogConfig> {
    if let Some(field) = root.take("log") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file does not say what is logged", help);
    }
    None
}

pub(super) fn read(field: Field, reader: &mut Reader<'_>) -> LogConfig {
    let Some(mut section) = field.section(reader) else { return LogConfig::default() };
    let format = section.take("format").and_then(|field| field.choice(reader, &Format::ALL));
    let level = section.take("level").and_then(|field| field.choice(reader, &Level::ALL));
    section.finish(reader);
    LogConfig { format, level }
}
