//! A client for language servers, over any pair of byte streams.
//!
//! `frame` reads and writes messages, `client` matches answers with requests, `incoming` answers what servers ask,
//! `session` is one initialised server with its documents, `answers` and `edit` read what servers return. How a server
//! is started, and when it is stopped, is decided elsewhere: nothing here spawns a task or a process.

mod answers;
mod client;
mod edit;
mod frame;
mod incoming;
mod position;
mod session;
mod uri;

pub use answers::{Diagnostic, Location, Severity, Symbol, diagnostics, kind_name, locations, symbols};
pub use client::{Client, LspError, Options};
pub use edit::{EditError, FileEdits, TextEdit, file_edits};
pub use frame::FrameError;
pub use position::{Encoding, Lines, Position, Range};
pub use session::{FileChange, Session, Setup};
pub use uri::{path_of, uri_of};

#[cfg(test)]
mod tests;
