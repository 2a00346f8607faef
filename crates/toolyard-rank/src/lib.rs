//! Ranks documents by the words of a query: identifiers are split, words are stemmed, rare words count more (BM25).
//!
//! The code pack ranks chunks of source code with it, and the gateway ranks tools. It does no IO and has no clock.
//!
//! ```
//! use toolyard_rank::{Document, Index};
//!
//! let mut index = Index::default();
//! let open = index.add(&Document::default().with("openFile", 3.0).with("opens a file for reading", 1.0));
//! index.add(&Document::default().with("closeSocket", 3.0).with("closes a socket", 1.0));
//! let best = index.search("opening files", 10);
//! assert_eq!(best[0].document, open);
//! ```

mod index;
pub mod tools;
mod words;

pub use index::{Document, DocumentId, Hit, Index};
pub use words::{parts, terms};
