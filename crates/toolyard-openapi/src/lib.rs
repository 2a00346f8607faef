//! The operations of an OpenAPI description as MCP tools: each operation becomes a tool, a call becomes a request, and
//! the response becomes the answer.
//!
//! The description is read by `oas3`, which knows OpenAPI 3.1; a description of 3.0 is first written as 3.1 would
//! have it. Left out on purpose: operations that take files (multipart), cookies, and following redirects.

mod describe;
mod document;
mod request;
mod answer;
mod server;

pub use describe::{Operation, Skipped};
pub use document::Description;
pub use server::OpenApiServer;
