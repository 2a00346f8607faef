//! `[tools."UPSTREAM:TOOL"]`: settings of single tools of any upstream: servers, apps, instances, packs.

use std::time::Duration;

use toolyard_core::ToolRule;

use super::reader::{Field, Reader, Section};

/// No call may take longer than this.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);

pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<ToolRule> {
    let sections = root.named_sections(reader, "tools");
    sections.into_iter().filter_map(|(field, section)| read_one(reader, &field, section)).collect()
}

fn read_one(reader: &mut Reader<'_>, field: &Field, mut section: Section) -> Option<ToolRule> {
    let timeout = section.take("timeout");
    let is_missing = timeout.is_none();
    let timeout = timeout.and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    section.finish(reader);
    if !field.key.contains(':') && field.key != "*" {
        let help =
            format!("write [tools.\"UPSTREAM:{}\"], or \"*:{}\" for every upstream", field.key, field.key);
        field.error(reader, "expected the id of a tool, UPSTREAM:TOOL", help);
    }
    if is_missing {
        field.error(reader, "`timeout` is missing", "write timeout = \"30s\", or remove the section");
    }
    Some(ToolRule { pattern: field.key.clone(), timeout: timeout? })
}
