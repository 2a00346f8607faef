//! Modern upstreams over HTTP.
