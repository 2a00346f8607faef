//! `[audit]`: whether calls are recorded, what of them, and for how long.

use std::time::Duration;

use super::reader::{Field, Reader, Section};

const MOST_DAYS: i64 = 3_650;
const MOST_MEGABYTES: i64 = 1_000_000;

/// When a record is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditSync {
    /// A moment after the call.
    #[default]
    Normal,
    /// Before the call is sent.
    Full,
}

/// How requests and answers are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditPayloads {
    #[default]
    Digest,
    Redacted,
}

/// The audit, where it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    pub sync: AuditSync,
    pub payloads: AuditPayloads,
    pub keep: Duration,
    pub max_megabytes: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            sync: AuditSync::default(),
            payloads: AuditPayloads::default(),
            keep: Duration::from_hours(30 * 24),
            max_megabytes: 512,
        }
    }
}

/// Rejects the section in a project's file: a project must not decide how a user's calls are recorded.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<AuditConfig> {
    if let Some(field) = root.take("audit") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set what is recorded", help);
    }
    None
}

/// Reads the section; `None` if the audit is switched off.
pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Option<AuditConfig> {
    reader.keep_place(&field);
    let usual = AuditConfig::default();
    let mut section = field.section(reader)?;
    let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    let sync = [("normal", AuditSync::Normal), ("full", AuditSync::Full)];
    let sync = section.take("sync").and_then(|field| field.choice(reader, &sync));
    let payloads = [("digest", AuditPayloads::Digest), ("redacted", AuditPayloads::Redacted)];
    let payloads = section.take("payloads").and_then(|field| field.choice(reader, &payloads));
    let keep = section.take("keep_days").and_then(|field| read_number(reader, &field, MOST_DAYS, "30"));
    let max_megabytes =
        section.take("max_megabytes").and_then(|field| read_number(reader, &field, MOST_MEGABYTES, "512"));
    section.finish(reader);
    enabled.then(|| AuditConfig {
        sync: sync.unwrap_or(usual.sync),
        payloads: payloads.unwrap_or(usual.payloads),
        keep: keep.map_or(usual.keep, |days| Duration::from_hours(24 * days)),
        max_megabytes: max_megabytes.unwrap_or(usual.max_megabytes),
    })
}

fn read_number(reader: &mut Reader<'_>, field: &Field, most: i64, usual: &str) -> Option<u64> {
    let number = field.integer(reader)?;
    let checked = u64::try_from(number).ok().filter(|_| (1..=most).contains(&number));
    if checked.is_none() {
        let message = format!("expected a number from 1 to {most}, found {number}");
        field.error(reader, message, format!("the default is {usual}"));
    }
    checked
}
