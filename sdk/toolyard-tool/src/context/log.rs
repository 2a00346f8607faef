//! Log messages that the client asked for.

use serde::Serialize;
use serde_json::json;
use toolyard_proto::Method;

use super::Context;

/// The severity of a log message, the least first.
///
/// ```
/// use toolyard_tool::{Context, Level};
///
/// let context = Context::detached();
/// context.log(Level::Warning, "the disk is almost full");
/// assert!(Level::Error > Level::Warning);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// An event.
    Info,
    /// An event that is worth a look.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part has failed.
    Critical,
    /// Action must be taken at once.
    Alert,
    /// Nothing works any more.
    Emergency,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl Context {
    /// Sends a log message to the client: text or any other value. Messages below the level that the client
    /// chose are not sent.
    pub fn log(&self, level: Level, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_default();
        let params = json!({ "level": level.as_str(), "logger": &*self.0.set.name, "data": data });
        self.notify(Method::LOG, params);
    }

    /// [`Context::log`] at [`Level::Debug`].
    pub fn debug(&self, data: impl Serialize) {
        self.log(Level::Debug, data);
    }

    /// [`Context::log`] at [`Level::Info`].
    pub fn info(&self, data: impl Serialize) {
        self.log(Level::Info, data);
    }

    /// [`Context::log`] at [`Level::Warning`].
    pub fn warn(&self, data: impl Serialize) {
        self.log(Level::Warning, data);
    }

    /// [`Context::log`] at [`Level::Error`].
    pub fn error(&self, data: impl Serialize) {
        self.log(Level::Error, data);
    }
}
