//! Files that the endpoint serves at `/ui`.

use bytes::Bytes;

/// Finds files by their path.
pub trait Pages: Send + Sync + 'static {
    /// The file at a path without its leading slash; the empty path is the page itself.
    fn page(&self, path: &str) -> Option<Page>;
}

/// One file.
#[derive(Clone, Debug)]
pub struct Page {
    pub content_type: &'static str,
    /// Quoted, as the header wants it.
    pub etag: String,
    pub body: Bytes,
}
