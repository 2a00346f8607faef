//! Any imported name gives a legal id, and any tool of it a name that models accept.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_proto::name::{MIN_BUDGET, UpstreamId, sanitize_upstream_id, shown};

fuzz_target!(|input: (&str, &str, u8)| {
    let (imported, tool, budget) = input;
    let id = sanitize_upstream_id(imported, |_| false);
    assert_eq!(UpstreamId::parse(id.as_str()).as_ref(), Ok(&id));
    if let Ok(parsed) = UpstreamId::parse(imported) {
        assert_eq!(parsed, id);
    }

    let name = shown(&id, tool, budget.into());
    assert!(!name.is_empty() && name.len() <= MIN_BUDGET.max(budget.into()));
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
    assert!(!name.contains("__") || name == format!("{id}__{tool}"));
});
