//! Define an MCP tool once, as a typed function, and serve it on any transport.
//!
#![doc = include_str!("docs/intro.md")]
#![warn(missing_docs)]

// So that code made by `#[tool]` finds the library in its own tests, too.
extern crate self as toolyard_tool;

mod set;
mod item;
mod arguments;
mod output;
mod content;
mod error;
mod problems;
mod context;
mod state;
mod run;
mod schema;
mod check;
mod headers;
mod changes;
mod tasks;
mod threads;
mod handler;
mod link;
mod serve;
pub mod host;
mod pack;
mod random;
mod seal;
mod secret;
mod skills;

pub use arguments::{Arguments, read_arguments};
pub use changes::Changes;
pub use content::Content;
pub use context::{
    Amount, Caller, Context, Level, Questions, Replies, Reply, Root, Sample, Sampled, ToolAnswer, Tools,
    Total,
};
pub use error::ToolError;
pub use host::Host;
pub use item::Item;
pub use item::completion::{Suggestions, Typed};
pub use item::prompt::{IntoMessages, Messages};
pub use item::resource::{Contents, Readable};
pub use output::{Output, WithText};
pub use pack::{Key, Pack, Wrong};
pub use problems::Problems;
pub use schema::{clamp, path};
pub use secret::Secret;
pub use serve::{Door, ServeError, Server, UsageError, run, run_on, serve};
pub use set::{Live, Taken, ToolSet};
pub use skills::Skill;
/// Makes a function something that a [`ToolSet`] can offer. Its options are described above.
///
/// ```
/// use toolyard_tool::{ToolSet, tool};
///
/// #[derive(serde::Deserialize, toolyard_tool::schemars::JsonSchema)]
/// struct Number {
///     /// What to add to.
///     number: i64,
/// }
///
/// /// Adds one.
/// #[tool(read_only, title = "Count up")]
/// async fn next(args: Number) -> i64 {
///     args.number + 1
/// }
///
/// let set = ToolSet::new("counter", "1.0.0").with::<next>();
/// assert_eq!(set.definition("next").unwrap()["title"], "Count up");
/// ```
pub use toolyard_tool_macros::tool;

/// Dates of the civil calendar, for tools that write or read them.
pub use toolyard_proto::calendar;

/// The crate that makes schemas. Code made by its derive refers to `schemars`: depend on the same version
/// yourself, or name it with `#[schemars(crate = "toolyard_tool::schemars")]` on the type.
pub use schemars;

/// Used by code that `#[tool]` makes. Not for use by hand.
#[doc(hidden)]
pub mod private {
    pub use crate::arguments::{Check, NoArguments};
    pub use crate::error::Failure;
    pub use crate::item::completion::{AboutCompletion, Completion, completion};
    pub use crate::item::prompt::{AboutPrompt, Prompt, prompt};
    pub use crate::item::resource::{AboutResource, Resource, resource};
    pub use crate::item::template::{Template, template};
    pub use crate::item::tool::{AboutTool, Hints, TaskUse, Tool, tool};
    pub use crate::item::{Entry, Item};
    pub use crate::output::Shape;
    pub use crate::run::{Call, Run};
    pub use crate::state::{Async, Gives, Held, Later, Loading, Needs, Nothing, Plain, Source, Wanted};
    pub use std::boxed::Box;
    pub use std::option::Option;
    pub use std::sync::Arc;
}
