//! The catalog of what upstreams offer: an immutable snapshot, made of one part per upstream, swapped as a whole and
//! seen through views.

mod definitions;
mod store;
mod part;
mod names;
mod view;
mod pages;
mod lean;
mod snapshot;
mod keep;
pub(crate) mod search;
mod params;
#[cfg(test)]
mod tests;

pub use definitions::{CacheHints, Definitions, ListKind, ListRead};
pub(crate) use keep::{Catalog, ListChange};
pub(crate) use names::ViewEntry;
pub(crate) use pages::Visibility;
pub use params::param_headers;
pub use snapshot::Snapshot;
pub(crate) use snapshot::Views;
pub(crate) use store::Store;
pub use store::stored_tools;
pub(crate) use view::ViewCatalog;

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use toolyard_policy::rules::{Annotations, Kind};
use toolyard_proto::Raw;

use crate::pipeline::validate::Schemas;
use crate::upstream::Upstream;
use params::ParamHeaders;

/// One tool or prompt of an upstream, shared by all views.
#[derive(Debug)]
pub struct Entry {
    pub upstream: Arc<Upstream>,
    /// Whether it is a tool or a prompt.
    pub(crate) kind: Kind,
    /// Its name at the upstream.
    pub own_name: String,
    /// The same as JSON, to be put into requests.
    pub own_name_raw: Raw,
    /// The same as a header value; `None` where that is not possible.
    pub own_name_header: Option<HeaderValue>,
    /// Its name in views of many upstreams.
    pub shown: String,
    /// `upstream:name`, in policy, records and messages.
    pub canonical: Arc<str>,
    /// As the upstream defined it.
    pub own: Raw,
    /// The same in the form that strict clients accept; `None` where there is none, and views of many upstreams do
    /// not show it.
    pub sanitized: Option<Raw>,
    /// Whether no view shows it, not even that of its upstream alone.
    pub is_unusable: bool,
    /// Whether it can be called but is not listed.
    pub(crate) is_unlisted: bool,
    headers: OnceLock<ParamHeaders>,
    /// The annotations of the tool, for rules.
    pub(crate) annotations: OnceLock<Annotations>,
    schemas: OnceLock<Schemas>,
}

impl Entry {
    /// Its parameters that are also sent in headers.
    pub(crate) fn headers(&self) -> &ParamHeaders {
        self.headers.get_or_init(|| ParamHeaders::of(&self.own))
    }

    /// Its schemas, compiled when they are first needed.
    pub(crate) fn schemas(&self) -> &Schemas {
        self.schemas.get_or_init(|| Schemas::of(self))
    }
}
