//! Links to upstreams, tried against scripted ones: in memory, as child processes, over HTTP.

#![expect(clippy::unwrap_used, reason = "a test may fail at any line")]
#![expect(clippy::disallowed_methods, reason = "a test's tasks end with its runtime")]

#[path = "link_tests/support.rs"]
mod support;

#[path = "link_tests/server.rs"]
mod server;

#[path = "link_tests/child.rs"]
mod child;
#[path = "link_tests/legacy.rs"]
mod legacy;
#[path = "link_tests/messages.rs"]
mod messages;
#[path = "link_tests/modern.rs"]
mod modern;
#[path = "link_tests/relay.rs"]
mod relay;
#[path = "link_tests/http_sse.rs"]
mod http_sse;
#[path = "link_tests/patience.rs"]
mod patience;
#[path = "link_tests/spare.rs"]
mod spare;
#[path = "link_tests/stream.rs"]
mod stream;
#[path = "link_tests/subscriptions.rs"]
mod subscriptions;
