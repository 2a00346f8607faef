//! Limits for calls: how many may run at once, how many may start in a time, and who waits for how long.
//!
//! [`State`] is the whole mechanism without a clock: time is an argument, so tests step through hours in
//! microseconds. [`Limiter`] wraps it for async callers: [`Limiter::acquire`] waits in a bounded queue that is fair by
//! client and returns a [`Permit`], which is given back when it is dropped. [`Keyed`] keeps one limiter per key, such
//! as one per principal. Several limits apply in the order in which they are acquired: a permit of the first is held
//! while waiting for the second.

mod keyed;
mod limiter;
mod presets;
mod queue;
mod settings;
mod state;

pub use keyed::Keyed;
pub use limiter::{Limiter, Permit, Usage};
pub use presets::{MODEL_PRESETS, ModelPreset, global_model_window};
pub use queue::QueueTicket;
pub use settings::{Limit, Rate, Share, Window};
pub use state::{Demand, Offer, Refusal, State};
