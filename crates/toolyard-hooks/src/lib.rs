//! Hooks: what runs before and after tool calls and model calls, and when a session begins, idles or is compacted. A
//! hook can change what passes, add a note, block with a reason, or only observe.
//!
//! A [`HookPlan`] is a hook as the config gives it; [`Hooks::new`] makes hooks of plans; [`Hooks::run`] runs those of
//! one point over an [`Event`] and returns the [`Outcome`]. Each hook has its own time limit, and a hook that fails,
//! hangs or panics affects neither the other hooks nor, unless it is to block then, the call.

mod point;
mod hook;
mod plan;
mod set;
mod command;
mod webhook;
mod reply;
pub mod shipped;

pub use hook::{Event, Hook, Verdict};
pub use plan::{CommandHook, HookKind, HookPlan, OnFailure, OwnHook, Runtime, WebHook};
pub use point::Point;
pub use set::{Block, Hooks, Note, Outcome, Registered, fail, run};
