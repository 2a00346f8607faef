//! Any text comes back from its shown form, and any text from a client is either understood or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_proto::name::sanitize_upstream_id;
use toolyard_proto::uri::{from_shown, to_shown};

fuzz_target!(|input: (&str, &str)| {
    let (imported, uri) = input;
    let id = sanitize_upstream_id(imported, |_| false);
    let shown = to_shown(&id, uri);
    assert_eq!(from_shown(&shown), Some((id.as_str(), uri.to_owned())));
    if let Some((upstream, _)) = from_shown(uri) {
        assert!(uri.contains(upstream));
    }
});
