//! Links to upstreams, tried against scripted ones: in memory, as child processes, over HTTP.

#[path = "link_tests/support.rs"]
mod support;

#[path = "link_tests/child.rs"]
mod child;
#[path = "link_tests/modern.rs"]
mod modern;
#[path = "link_tests/stream.rs"]
mod stream;
