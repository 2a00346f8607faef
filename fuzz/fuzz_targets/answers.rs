//! Whatever an upstream sends, showing its URIs keeps JSON JSON and only ever inserts text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::uri::{ResultKind, map_result};

const KINDS: [ResultKind; 7] = [
    ResultKind::ToolResult,
    ResultKind::PromptResult,
    ResultKind::ReadResult,
    ResultKind::ResourceEntry,
    ResultKind::TemplateEntry,
    ResultKind::ToolEntry,
    ResultKind::UpdatedParams,
];

fuzz_target!(|raw: &[u8]| {
    let id = UpstreamId::parse("Zq9").expect("a legal id");
    for mapped in KINDS.into_iter().filter_map(|kind| map_result(kind, &id, raw)) {
        assert!(is_json(raw) && is_json(&mapped));
        assert!(mapped.len() > raw.len() && is_subsequence(raw, &mapped));
    }
});

fn is_json(raw: &[u8]) -> bool {
    std::str::from_utf8(raw).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|byte| whole.any(|other| other == byte))
}
