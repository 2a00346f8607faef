//! Who offers what: an immutable snapshot, swapped as a whole, seen through views.

mod definitions;
mod store;
mod snapshot;
mod view;
mod list;
pub mod search;
mod keep;
mod params;

pub use definitions::{Definitions, ListKind};
pub(crate) use keep::{Catalog, Change};
pub use params::param_headers;
pub use snapshot::Snapshot;
pub(crate) use snapshot::Views;
pub(crate) use store::Store;
pub(crate) use view::ViewCatalog;

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use toolyard_proto::Raw;

use crate::pipeline::Chain;
use crate::upstream::Upstream;
use params::ParamHeaders;

/// One tool or prompt of an upstream.
#[derive(Debug)]
pub struct Entry {
    pub upstream: Arc<Upstream>,
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
    /// As the upstream defined it; in views of many, in the form that strict clients take.
    pub own: Raw,
    /// The same under its shown name.
    pub renamed: Raw,
    /// The steps that its calls pass in this view.
    pub(crate) chain: Chain,
    headers: OnceLock<ParamHeaders>,
}

impl Entry {
    /// Its parameters that travel in headers too.
    pub(crate) fn headers(&self) -> &ParamHeaders {
        self.headers.get_or_init(|| ParamHeaders::of(&self.own))
    }
}
